"""The catalog in an SQLite file; see `maitred.storage.database`. Each transaction has its own connection."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

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
from maitred.storage.diagnosis import HOLDS, may_pass, store_error
from maitred.storage.signals import Signals
from maitred.storage.sqlite_file import (
    FileConnection,
    Standby,
    Synchronous,
    connect,
    is_nothing,
    standby_of,
)
from maitred.storage.sqlite_writer import SqliteWriter
from maitred.storage.threads import DatabaseThreads

if TYPE_CHECKING:  # the first statement that needs SQLAlchemy imports it
    from sqlalchemy import Connection, Engine

log = structlog.get_logger(__name__)

T = TypeVar("T")

_OTHERS: Final = 0o077
_CHECK: Final = WriteOptions(wait_s=2.0)


class SqliteDatabase(Database):
    """The catalog in the SQLite file `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self.faults = 0
        self.signals = Signals()
        self._threads = DatabaseThreads()
        self._users = 0
        self._engines: dict[WriteOptions | None, Engine] = {}
        self._standby: Standby | None = None
        self._replaced = False
        self._is_only_read = False

    async def read(self, function: "Callable[[Connection], T]") -> T:
        """See `Database.read`."""
        return await self._threads.read(self._run, function, None)

    async def write(self, function: "Callable[[Connection], T]", options: WriteOptions = DEFAULT) -> T:
        """See `Database.write`."""
        return await self._threads.write(self._run, function, options)

    async def read_driver(self, function: Callable[[DriverConnection], T]) -> T:
        """See `Database.read_driver`."""
        return await self._threads.read(self._run_driver, "BEGIN", function, DEFAULT)

    async def write_driver(
        self, function: Callable[[DriverConnection], T], options: WriteOptions = DEFAULT
    ) -> T:
        """See `Database.write_driver`."""
        return await self._threads.write(self._run_driver, "BEGIN IMMEDIATE", function, options)

    def quick_writer(self) -> QuickWriter:
        """See `Database.quick_writer`."""
        return SqliteWriter(self.path, self._threads)

    async def open(self, *, allows_memory: bool = False) -> None:
        """See `Database.open`."""
        if not await self._is_current():
            await self._begin(allows_memory=allows_memory)
        await self._threads.read(_close_to_others, self.path)
        self._users += 1

    async def ensure(self) -> None:
        """See `Database.ensure`; a missing file is not made again, since it would be empty."""
        if standby_of(self.path) is None:
            await self._threads.read(self._look_for_file)
        if await self._is_current():
            return
        try:
            await self._threads.write(self._prepare)
        except ConfigError as error:
            raise StoreError(self.name, "; ".join(error.faults)) from error

    async def close(self) -> None:
        """See `Database.close`."""
        self._users -= 1
        if not self._users and self._standby is not None:
            self._standby.close()
            self._standby = None

    async def check(self) -> str:
        """See `Database.check`; a catalog in memory becomes a file if one can be made."""
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

    async def _begin(self, *, allows_memory: bool) -> None:
        """Make the file or its tables; if neither can be made and the caller allows it, begin in memory."""
        try:
            await self._threads.write(self._prepare)
        except StoreError as error:
            if not allows_memory or not await self._threads.read(is_nothing, self.path):
                raise
            try:
                self._standby = Standby(self.path, error)
            except sqlite3.Error:  # an old SQLite
                raise error from None
            self.faults += 1
            log.warning("the catalog is kept in memory, since its file cannot be made", reason=error.reason)
            await self._threads.write(self._prepare)

    def _prepare(self) -> None:
        """Make the file and its tables; another process may do the same."""
        from sqlalchemy.exc import DatabaseError  # noqa: PLC0415  # slow to import

        from maitred.storage import core, migrate  # noqa: PLC0415  # slow to import

        def check(connection: "Connection") -> str | None:
            revision = core.revision(connection)
            if revision != HEAD:
                migrate.check(connection, revision, self.name)
            return revision

        def upgrade(connection: "Connection") -> None:
            revision = check(connection)
            if revision != HEAD:
                log.debug("migrating the catalog", path=self.name, revision=revision, to=HEAD)
                migrate.migrate(connection, revision)

        try:
            if standby_of(self.path) is None:
                if _has_content(self.path):
                    core.run(self._engine(None), check, None)  # before anything of the file is changed
                _make_place(self.path)
            core.run(self._engine(DEFAULT), upgrade, DEFAULT)
        except DatabaseError as error:
            raise self._open_error(core.driver_error(error)) from error

    def _open_error(self, cause: Exception) -> ConfigError | StoreError:
        """Make the error for a file that cannot be opened: a `StoreError` if a later try may succeed."""
        error = store_error(self.path, cause)
        if may_pass(cause):
            return error
        advice = error.advice or f"If maitred made it, it holds {HOLDS}: copy it before anything else."
        return ConfigError(self.name, [f"the catalog cannot be opened: {error.reason}. {advice}"])

    def _look_for_file(self) -> None:
        try:
            if not self.path.exists():
                raise StoreError(self.name, "the file is gone")
        except OSError as error:
            raise store_error(self.path, error) from error

    async def _leave_memory(self, standby: Standby) -> None:
        try:
            self._replaced = not await self._threads.write(standby.move)
        except (OSError, sqlite3.Error) as error:
            raise await self._threads.read(store_error, self.path, error) from error
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
        """Log once why the file can only be read."""
        was_only_read, self._is_only_read = self._is_only_read, why is not None
        if why is not None and not was_only_read:
            self.faults += 1
            reason = store_error(self.path, why).reason
            log.warning("the catalog cannot be written; what it holds is served", reason=reason)

    def _run_driver(self, begin: str, function: Callable[[DriverConnection], T], options: WriteOptions) -> T:
        try:
            with closing(self._connect(options)) as connection:  # closing undoes what is not committed
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
    """Write without a change of content."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version={int(version)}")


def _has_content(path: Path) -> bool:
    """Return whether a file exists with something in it; false if that cannot be found out."""
    try:
        return path.stat().st_size > 0
    except OSError:  # making the file tells why
        return False


def _make_place(path: Path) -> None:
    """Make the folder, and the file for its owner alone, since it has tokens and the audit trail."""
    try:
        make_folder(path.parent)
    except (NotADirectoryError, FileExistsError) as error:
        fault = f"the folder of the catalog cannot be made ({error.strerror}); set `catalog.path` to another"
        raise ConfigError(str(path.parent), [fault]) from error
    except OSError as error:
        raise store_error(path, error) from error
    with suppress(OSError):  # opening it will find out why it cannot be made
        if not path.exists():  # closing a file in use would release the locks of this process
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    _close_to_others(path)


def _close_to_others(path: Path) -> None:
    """Let only the owner read the file and the files of SQLite beside it."""
    with suppress(OSError):
        for one in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
            if one.exists() and one.stat().st_mode & _OTHERS:
                one.chmod(one.stat().st_mode & ~_OTHERS & 0o7777)
