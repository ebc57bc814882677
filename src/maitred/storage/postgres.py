"""A catalog in a PostgreSQL database; see `maitred.storage.database`.

Writing transactions take one advisory lock, so they come one after the other as they do on SQLite. Reading
ones are `REPEATABLE READ`. Connections are kept between transactions while the database is open.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import anyio
import psycopg
from psycopg import errors
from psycopg.types.string import StrDumperUnknown, TextLoader

from maitred.errors import ConfigError, StoreError
from maitred.storage.database import (
    DEFAULT,
    HEAD,
    REVISION,
    Database,
    DriverConnection,
    DriverRows,
    QuickWriter,
    WriteOptions,
)

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import Connection, Engine

T = TypeVar("T")

_CONNECT_S: Final = 10
_KEPT: Final = 5
_LOCK: Final = 0x6D61_6974_7265_6421
"""The advisory lock of those who write: `maitred!`."""
_CHECK: Final = WriteOptions(wait_s=2.0)
_NUL: Final = "\0"
_SIGN_OF_NUL: Final = "\u2400"
_FAULTS: Final = (
    (errors.LockNotAvailable, "another process has locked it", "End that process, or wait for it."),
    (errors.DiskFull, "the disk of its server is full", "Make room there."),
    (
        errors.ReadOnlySqlTransaction,
        "its server is read-only",
        "Set `catalog.url` to one that can be written.",
    ),
    (
        errors.InsufficientPrivilege,
        "the user of `catalog.url` may not do that",
        "Give it the right to make and to change tables.",
    ),
)


class PostgresDatabase(Database):
    """The catalog in the PostgreSQL database at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.name = without_password(url)
        self.faults = 0
        self._users = 0
        self._active = 0
        self._guard = threading.Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._made: Engine | None = None

    async def read(self, function: "Callable[[Connection], T]") -> T:
        """See `Database.read`."""
        return await anyio.to_thread.run_sync(self._run, function, None)

    async def write(self, function: "Callable[[Connection], T]", options: WriteOptions = DEFAULT) -> T:
        """See `Database.write`."""
        return await anyio.to_thread.run_sync(self._run, function, options)

    async def read_driver(self, function: Callable[[DriverConnection], T]) -> T:
        """See `Database.read_driver`."""
        return await anyio.to_thread.run_sync(self._run_driver, function, None)

    async def write_driver(
        self, function: Callable[[DriverConnection], T], options: WriteOptions = DEFAULT
    ) -> T:
        """See `Database.write_driver`."""
        return await anyio.to_thread.run_sync(self._run_driver, function, options)

    def quick_writer(self) -> QuickWriter:
        """See `Database.quick_writer`."""
        return _PostgresWriter(self)

    async def open(self, *, stands_by: bool = False) -> None:  # nothing stands in for a server
        """See `Database.open`."""
        if not await self._is_current():
            await anyio.to_thread.run_sync(self._prepare)
        self._users += 1

    async def ensure(self) -> None:
        """See `Database.ensure`."""
        if not await self._is_current():
            try:
                await anyio.to_thread.run_sync(self._prepare)
            except ConfigError as error:
                raise StoreError(self.name, "; ".join(error.faults)) from error

    async def close(self) -> None:
        """See `Database.close`."""
        self._users -= 1
        if not self._active:
            await anyio.to_thread.run_sync(self._drop_unused)

    async def check(self) -> str:
        """See `Database.check`."""
        try:
            await self.write_driver(
                lambda connection: connection.execute("UPDATE state SET id = id WHERE id = 1"), _CHECK
            )
        except StoreError as error:
            self.faults += 1
            return error.reason
        return ""

    def note_fault(self, error: StoreError) -> None:
        """See `Database.note_fault`."""
        cause = getattr(error.__cause__, "orig", error.__cause__)
        self.faults += isinstance(cause, psycopg.OperationalError | errors.ReadOnlySqlTransaction)

    # --- opening ------------------------------------------------------------------------------------------

    async def _is_current(self) -> bool:
        try:
            rows = await self.read_driver(lambda connection: connection.execute(REVISION).fetchall())
        except StoreError:
            return False
        return rows == [(HEAD,)]

    def _prepare(self) -> None:
        """Make the tables; another process may do the same."""
        from maitred.storage import core, migrate  # noqa: PLC0415  # slow to import

        def upgrade(connection: "Connection") -> None:
            revision = core.revision(connection)
            if revision != HEAD:
                migrate.migrate(connection, revision)

        self._run(upgrade, DEFAULT)

    # --- transactions -------------------------------------------------------------------------------------

    def _run(self, function: "Callable[[Connection], T]", options: WriteOptions | None) -> T:
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  # slow to import

        from maitred.storage import core  # noqa: PLC0415  # slow to import

        with self._guard:
            self._active += 1
            engine = self._made = self._made or core.postgres_engine(self._connect, _begin)
        try:
            return core.run(engine, function, options)
        except SQLAlchemyError as error:
            raise self._explained(core.driver_error(error)) from error
        except psycopg.Error as error:
            raise self._explained(error) from error
        finally:
            self._end()

    def _run_driver(self, function: Callable[[DriverConnection], T], options: WriteOptions | None) -> T:
        with self._guard:
            self._active += 1
        try:
            with self._leased(options) as connection:
                return function(_Statements(connection))
        except psycopg.Error as error:
            raise self._explained(error) from error
        finally:
            self._end()

    @contextmanager
    def _leased(self, options: WriteOptions | None) -> Iterator[psycopg.Connection[Any]]:
        """A connection in a transaction, which is committed at the end."""
        connection = self._begun(options)
        try:
            yield connection
            connection.commit()
        except BaseException:
            connection.close()
            raise
        with self._guard:
            if len(self._idle) < _KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def _begun(self, options: WriteOptions | None) -> psycopg.Connection[Any]:
        """A connection whose transaction has begun; one that the server has ended meanwhile is replaced."""
        while True:
            with self._guard:
                kept = self._idle.pop() if self._idle else None
            connection = kept or _with_texts(self._connect())
            try:
                _begin(connection, options)
            except BaseException as error:
                ended = connection.broken
                connection.close()
                if kept is None or not ended or not isinstance(error, psycopg.OperationalError):
                    raise
            else:
                return connection

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._url, connect_timeout=_CONNECT_S, application_name="maitred")
        connection.adapters.register_dumper(str, _TextDumper)
        return connection

    def _end(self) -> None:
        """Note that a transaction has ended. Nobody but the last one closes what is kept of no use."""
        with self._guard:
            self._active -= 1
            is_last = not self._active
        if is_last:
            self._drop_unused()

    def _drop_unused(self) -> None:
        """Close the connections that are kept, where the database is not open."""
        with self._guard:
            if self._users > 0 or self._active:
                return
            idle, self._idle = self._idle, []
            engine, self._made = self._made, None
        for connection in idle:
            connection.close()
        if engine is not None:
            engine.dispose()

    def _explained(self, error: Exception) -> StoreError:
        for kind, reason, advice in _FAULTS:
            if isinstance(error, kind):
                return StoreError(self.name, reason, advice=advice)
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        if isinstance(error, psycopg.OperationalError):
            return StoreError(
                self.name,
                f"its server does not answer ({said})",
                advice="Start it, or correct `catalog.url`.",
            )
        return StoreError(self.name, said)


class _PostgresWriter:
    """Writes through the connections of the database: the event loop never waits for the network."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def write(
        self,
        function: Callable[[DriverConnection], T],
        *,
        rows: int,  # as the protocol has it
        is_small: bool = True,  # as above
    ) -> T:
        return await self._database.write_driver(function)

    async def close(self) -> None:
        """Nothing is open."""


class _Statements:
    """A connection for statements with `?`, which psycopg writes `%s`."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> DriverRows:
        return self._connection.execute(_as_format(statement), values)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> DriverRows:
        cursor = self._connection.cursor()
        cursor.executemany(_as_format(statement), rows)
        return cursor


class _TextDumper(StrDumperUnknown):
    """Texts of PostgreSQL have no NUL; what a server publishes may have one, which is shown by its sign."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace(_NUL, _SIGN_OF_NUL) if _NUL in obj else obj)


def without_password(url: str) -> str:
    """An address as it may be shown."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}"


@lru_cache(maxsize=256)
def _as_format(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def _with_texts(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """Have JSON columns given as the text that is stored."""
    connection.adapters.register_loader("json", TextLoader)
    return connection


def _begin(connection: psycopg.Connection[Any], options: WriteOptions | None) -> None:
    if options is None:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return
    connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{options.wait_s * 1_000:.0f}ms",))
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
