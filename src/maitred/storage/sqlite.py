"""A catalog in an SQLite file, opened with the standard library; see `maitred.storage.database`.

Each transaction has a connection of its own. A file that cannot be written, as on a full disk, is opened to
be read. Where there is none, and none can be made, the catalog is in memory until one can.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio
import structlog

from maitred.config.paths import make_folder
from maitred.errors import ConfigError, StoreError
from maitred.storage.database import (
    DEFAULT,
    HEAD,
    REVISION,
    Database,
    DriverConnection,
    QuickWriter,
    WriteOptions,
)
from maitred.storage.diagnosis import HOLDS, is_of_environment, may_pass, store_error

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import Connection, Engine

log = structlog.get_logger(__name__)

T = TypeVar("T")

_OTHERS: Final = 0o077
_CHECK: Final = WriteOptions(wait_s=2.0)

Synchronous = Literal["NORMAL", "FULL"]
"""`FULL` survives a loss of power, `NORMAL` whatever happens to this process. The file is always whole."""


class FileConnection(sqlite3.Connection):
    """A connection; `why_read_only` is why the file could not be opened to be written, if it could not."""

    why_read_only: sqlite3.Error | None = None


class Standby:
    """A catalog in memory, for all who open its file in this process, until the file can be made.

    `why` is told to whoever has to keep something for good.
    """

    def __init__(self, path: Path, why: StoreError) -> None:
        self.why = why
        self.uri: Final = f"file:/maitred-{secrets.token_hex(8)}?vfs=memdb"
        self._path = path.absolute()
        self._held = sqlite3.connect(self.uri, uri=True, isolation_level=None, check_same_thread=False)
        _STANDBYS[self._path] = self

    def move(self) -> bool:
        """Make the file, whole or not at all; false if another process has made one meanwhile.

        From then on the file is what is opened.

        Raises:
            OSError, sqlite3.Error: It cannot be made yet.
        """
        make_folder(self._path.parent)
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            with closing(sqlite3.connect(draft)) as file:
                self._held.backup(file)
            if self._path.exists() and not self._path.stat().st_size:
                draft.replace(self._path)  # what is left of an attempt to make it
            else:
                self._path.hardlink_to(draft)
        except FileExistsError:
            self.close()
            return False
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        self.close()
        return True

    def close(self) -> None:
        """Forget all that it has."""
        if _STANDBYS.pop(self._path, None) is not None:
            self._held.close()


_STANDBYS: Final[dict[Path, Standby]] = {}


def standby_of(path: Path) -> Standby | None:
    """What stands in for a catalog's file in this process, if anything does."""
    return _STANDBYS.get(path.absolute())


def is_nothing(path: Path) -> bool:
    """Whether a catalog's file is not there, or has nothing in it; false where that cannot be told."""
    try:
        if not path.stat().st_size:
            return True
        with closing(connect(path)) as connection:
            return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]) == 0
    except FileNotFoundError:
        return True
    except (OSError, sqlite3.Error):
        return False


def connect(
    path: Path,
    *,
    wait_s: float = 10.0,
    synchronous: Synchronous = "NORMAL",
    any_thread: bool = False,
    lasting: bool = False,
) -> FileConnection:
    """A connection to a file that is there; one that is not is not made. No transaction begins by itself.

    It waits `wait_s` for others who write. With `any_thread` another thread may use it, one at a time. What
    is `lasting` does not go to what stands in for the file.

    Raises:
        StoreError: It is `lasting`, and the file is stood in for.
        sqlite3.Error: It cannot be opened.
    """
    open_it = partial(_connected, wait_s=wait_s, synchronous=synchronous, any_thread=any_thread)
    if (standby := standby_of(path)) is not None:
        if lasting:
            raise standby.why
        return open_it(standby.uri)
    address = path.absolute().as_uri()
    try:
        return open_it(f"{address}?mode=rw")
    except sqlite3.Error as error:
        found = _to_read(path, address, open_it) if is_of_environment(error) else None
        if found is None:
            raise
        found.why_read_only = error
        return found


def _connected(
    uri: str, *, wait_s: float, synchronous: Synchronous, any_thread: bool, alone: bool = False
) -> FileConnection:
    """A connection that has read the file once, so that what keeps it from that is known.

    `alone` keeps all others out for as long as it is open, and needs no shared memory for that.
    """
    connection = sqlite3.connect(
        uri,
        uri=True,
        timeout=wait_s,
        isolation_level=None,
        check_same_thread=not any_thread,
        factory=FileConnection,
    )
    try:
        if alone:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA schema_version").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _to_read(path: Path, address: str, open_it: Callable[..., FileConnection]) -> FileConnection | None:
    """A connection for reading to a file beside which SQLite can make nothing; `None` where that fails, too.

    Where no log of changes is left, the file itself has all, and nobody changes it while none can be made.
    """
    log = path.with_name(f"{path.name}-wal")
    try:
        if log.exists() and log.stat().st_size:
            connection = open_it(f"{address}?mode=rw", alone=True)
            connection.execute("PRAGMA query_only=ON")
        else:
            connection = open_it(f"{address}?mode=ro&immutable=1")
    except (OSError, sqlite3.Error):
        return None
    return connection


@contextmanager
def opened(
    path: Path, *, wait_s: float = 10.0, synchronous: Synchronous = "NORMAL", lasting: bool = False
) -> Iterator[FileConnection]:
    """A connection of one's own, as `connect` makes it; what is left open when it is closed is undone.

    Raises:
        StoreError: The file cannot be opened, or what is done with it fails in SQLite.
    """
    try:
        with closing(connect(path, wait_s=wait_s, synchronous=synchronous, lasting=lasting)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise store_error(path, error) from error


async def within(
    path: Path,
    function: Callable[[FileConnection], T],
    *,
    wait_s: float = 10.0,
    synchronous: Synchronous = "NORMAL",
    lasting: bool = False,
) -> T:
    """Do something with a connection of its own in a worker thread; see `opened`.

    The thread is waited for even if the task is cancelled: what was begun is written, or not.
    """

    def run() -> T:
        with opened(path, wait_s=wait_s, synchronous=synchronous, lasting=lasting) as connection:
            return function(connection)

    return await anyio.to_thread.run_sync(run)


class SqliteDatabase(Database):
    """The catalog in the SQLite file `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self.faults = 0
        self._users = 0
        self._engines: dict[WriteOptions | None, Engine] = {}
        self._standby: Standby | None = None
        self._replaced = False
        self._is_only_read = False

    async def read(self, function: "Callable[[Connection], T]") -> T:
        """See `Database.read`."""
        return await anyio.to_thread.run_sync(self._run, function, None)

    async def write(self, function: "Callable[[Connection], T]", options: WriteOptions = DEFAULT) -> T:
        """See `Database.write`."""
        return await anyio.to_thread.run_sync(self._run, function, options)

    async def read_driver(self, function: Callable[[DriverConnection], T]) -> T:
        """See `Database.read_driver`."""
        return await anyio.to_thread.run_sync(self._run_driver, "BEGIN", function, DEFAULT)

    async def write_driver(
        self, function: Callable[[DriverConnection], T], options: WriteOptions = DEFAULT
    ) -> T:
        """See `Database.write_driver`."""
        return await anyio.to_thread.run_sync(self._run_driver, "BEGIN IMMEDIATE", function, options)

    def quick_writer(self) -> QuickWriter:
        """See `Database.quick_writer`."""
        from maitred.storage.sqlite_writer import SqliteWriter  # noqa: PLC0415  # it needs what is here

        return SqliteWriter(self.path)

    async def open(self, *, stands_by: bool = False) -> None:
        """See `Database.open`."""
        if not await self._is_current():
            await self._begin(stands_by=stands_by)
        await anyio.to_thread.run_sync(_close_to_others, self.path)
        self._users += 1

    async def ensure(self) -> None:
        """See `Database.ensure`; a file that is gone is not made: an empty one would take its place."""
        if standby_of(self.path) is None:
            await anyio.to_thread.run_sync(self._look_for_file)
        if await self._is_current():
            return
        try:
            await anyio.to_thread.run_sync(self._prepare)
        except ConfigError as error:
            raise StoreError(self.name, "; ".join(error.faults)) from error

    async def close(self) -> None:
        """See `Database.close`."""
        self._users -= 1
        if not self._users and self._standby is not None:
            self._standby.close()
            self._standby = None

    async def check(self) -> str:
        """See `Database.check`; a catalog in memory becomes a file where one can be made."""
        try:
            if self._standby is None:
                await self.write_driver(_touch, _CHECK)
            else:
                await self._leave_memory(self._standby)
        except StoreError as error:
            self.faults += 1
            return error.reason
        return ""

    async def is_replaced(self) -> bool:
        """See `Database.is_replaced`."""
        replaced, self._replaced = self._replaced, False
        return replaced

    def note_fault(self, error: StoreError) -> None:
        """See `Database.note_fault`."""
        self.faults += may_pass(error)

    # --- opening ------------------------------------------------------------------------------------------

    async def _is_current(self) -> bool:
        try:
            rows = await self.read_driver(lambda connection: connection.execute(REVISION).fetchall())
        except StoreError:
            return False
        return rows == [(HEAD,)]

    async def _begin(self, *, stands_by: bool) -> None:
        """Make the file, or bring it to the present tables; where neither can be, begin in memory."""
        try:
            await anyio.to_thread.run_sync(self._prepare)
        except StoreError as error:
            if not stands_by or not await anyio.to_thread.run_sync(is_nothing, self.path):
                raise
            try:
                self._standby = Standby(self.path, error)
            except sqlite3.Error:  # an old SQLite
                raise error from None
            self.faults += 1
            log.warning("the catalog is kept in memory, since its file cannot be made", reason=error.reason)
            await anyio.to_thread.run_sync(self._prepare)

    def _prepare(self) -> None:
        """Make the file and its tables; another process may do the same."""
        from sqlalchemy.exc import DatabaseError  # noqa: PLC0415  # slow to import

        from maitred.storage import core, migrate  # noqa: PLC0415  # slow to import

        def upgrade(connection: "Connection") -> None:
            revision = core.revision(connection)
            if revision != HEAD:
                log.debug("migrating the catalog", path=self.name, revision=revision, to=HEAD)
                migrate.migrate(connection, revision)

        if standby_of(self.path) is None:
            _make_place(self.path)
        try:
            core.run(self._engine(DEFAULT), upgrade, DEFAULT)
        except DatabaseError as error:
            raise self._not_opened(core.driver_error(error)) from error

    def _not_opened(self, cause: Exception) -> ConfigError | StoreError:
        """Why it cannot be opened: what can pass is another error than what has to be mended."""
        found = store_error(self.path, cause)
        if may_pass(cause):
            return found
        advice = found.advice or f"If maitred made it, it holds {HOLDS}: copy it before anything else."
        return ConfigError(self.name, [f"the catalog cannot be opened: {found.reason}. {advice}"])

    def _look_for_file(self) -> None:
        try:
            if not self.path.exists():
                raise StoreError(self.name, "the file is gone")
        except OSError as error:
            raise store_error(self.path, error) from error

    async def _leave_memory(self, standby: Standby) -> None:
        try:
            self._replaced = not await anyio.to_thread.run_sync(standby.move)
        except (OSError, sqlite3.Error) as error:
            raise await anyio.to_thread.run_sync(store_error, self.path, error) from error
        self._standby = None

    # --- transactions -------------------------------------------------------------------------------------

    def _connect(self, options: WriteOptions) -> FileConnection:
        synchronous: Synchronous = "FULL" if options.durable else "NORMAL"
        connection = connect(
            self.path, wait_s=options.wait_s, synchronous=synchronous, lasting=options.lasting
        )
        self._note_mode(connection.why_read_only)
        return connection

    def _note_mode(self, why: sqlite3.Error | None) -> None:
        """Say once why the file is opened to be read only."""
        was_only_read, self._is_only_read = self._is_only_read, why is not None
        if why is not None and not was_only_read:
            self.faults += 1
            reason = store_error(self.path, why).reason
            log.warning("the catalog cannot be written; what it holds is served", reason=reason)

    def _run_driver(self, begin: str, function: Callable[[DriverConnection], T], options: WriteOptions) -> T:
        try:
            with closing(self._connect(options)) as connection:  # which undoes what is not committed
                connection.execute(begin)
                done = function(connection)
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise store_error(self.path, error) from error
        return done

    def _run(self, function: "Callable[[Connection], T]", options: WriteOptions | None) -> T:
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  # slow to import

        from maitred.storage import core  # noqa: PLC0415  # slow to import

        try:
            return core.run(self._engine(options), function, options)
        except SQLAlchemyError as error:
            raise store_error(self.path, core.driver_error(error)) from error

    def _engine(self, options: WriteOptions | None) -> "Engine":
        from maitred.storage import core  # noqa: PLC0415  # slow to import

        def connected() -> FileConnection:
            connection = self._connect(options or DEFAULT)
            try:
                if options is not None and connection.why_read_only is None:
                    connection.execute("PRAGMA journal_mode=WAL").close()
            except BaseException:
                connection.close()
                raise
            return connection

        if (engine := self._engines.get(options)) is None:
            engine = self._engines[options] = core.sqlite_engine(connected)
        return engine


def _touch(connection: DriverConnection) -> None:
    """Write what changes nothing."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version={int(version)}")


def _make_place(path: Path) -> None:
    """Make the folder, and the file for its owner alone: there are tokens and an audit trail in it."""
    try:
        make_folder(path.parent)
    except (NotADirectoryError, FileExistsError) as error:
        fault = f"the folder of the catalog cannot be made ({error.strerror}); set `catalog.path` to another"
        raise ConfigError(str(path.parent), [fault]) from error
    except OSError as error:
        raise store_error(path, error) from error
    with suppress(OSError):  # why it cannot be made is found when it is opened
        if not path.exists():  # to close one that is in use would give up the locks of this process
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    _close_to_others(path)


def _close_to_others(path: Path) -> None:
    """Let the owner alone read the file and what SQLite has beside it."""
    with suppress(OSError):
        for one in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
            if one.exists() and one.stat().st_mode & _OTHERS:
                one.chmod(one.stat().st_mode & ~_OTHERS & 0o7777)
