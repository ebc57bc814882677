"""The catalog in a PostgreSQL database; see `maitred.storage.database`.

Writing transactions take one advisory lock, so they run one after the other as on SQLite; those of the lane
`together` do not. Reading transactions are `REPEATABLE READ`. Connections stay open between transactions
while the database is open. `postgres_pool` has them, and `postgres_listener` hears of other processes.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import psycopg
from psycopg import errors
from psycopg.types.json import JsonLoader
from psycopg.types.string import StrDumperUnknown, TextLoader

from maitred.config.redaction import redact
from maitred.errors import ConfigError, StoreAwayError, StoreError
from maitred.storage.database import (
    DEFAULT,
    HEAD,
    REVISION,
    Database,
    DriverConnection,
    DriverRows,
    Lane,
    QuickWriter,
    WriteOptions,
)
from maitred.storage.postgres_listener import PROBE, PostgresListener
from maitred.storage.postgres_locks import SessionLocks
from maitred.storage.postgres_pool import ConnectionPool, PooledConnection, connection_text
from maitred.storage.signals import Signals
from maitred.storage.threads import DatabaseThreads

if TYPE_CHECKING:  # the first statement that needs SQLAlchemy imports it
    from sqlalchemy import Connection, Engine

T = TypeVar("T")

MOST_CONNECTIONS: Final = 10
_LOCK: Final = 0x6D61_6974_7265_6421
"""The advisory lock of writers: `maitred!` in ASCII."""
_BESIDE: Final = _LOCK + 1
"""The advisory lock that writers of the lane `together` share, and `barrier` has alone."""
_LOCKS: Final[dict[Lane, str]] = {
    "alone": f"pg_advisory_xact_lock({_LOCK}), pg_advisory_xact_lock_shared({_BESIDE})",
    "together": f"pg_advisory_xact_lock_shared({_BESIDE})",
    "barrier": f"pg_advisory_xact_lock({_LOCK}), pg_advisory_xact_lock({_BESIDE})",
}
_BEGIN: Final = {
    lane: (
        "SELECT set_config('lock_timeout', %s, true),"  # first, since it bounds the wait for the locks
        # so that a writer that was cut off does not keep the locks
        f" set_config('idle_in_transaction_session_timeout', '60s', true), {locks}"
    ).encode()
    for lane, locks in _LOCKS.items()
}
_CHECK: Final = WriteOptions(wait_s=2.0)
_TOGETHER: Final = WriteOptions(lane="together")
_NUL: Final = "\0"
_SIGN_OF_NUL: Final = "\u2400"
_REFUSED: Final = "FATAL:"
"""In the text of an error in which the server itself refuses a connection."""
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

    writes_together = True
    locks_jobs = True

    def __init__(self, url: str, *, connections: int = MOST_CONNECTIONS) -> None:
        self._url = url
        self.name = without_password(url)
        self.faults = 0
        self.signals = Signals()
        self._threads = DatabaseThreads(connections)
        self._users = 0
        self._active = 0
        self._guard = threading.Lock()
        self._locks = SessionLocks(connection_text(url), self._store_error)
        self._pool = ConnectionPool(url, self.name, most=connections)

    async def read(self, function: "Callable[[Connection], T]") -> T:
        """See `Database.read`."""
        return await self._threads.read(self._run, function, None)

    async def write(self, function: "Callable[[Connection], T]", options: WriteOptions = DEFAULT) -> T:
        """See `Database.write`."""
        return await self._threads.write(self._run, function, options)

    async def read_driver(self, function: Callable[[DriverConnection], T]) -> T:
        """See `Database.read_driver`."""
        return await self._threads.read(self._run_driver, function, None)

    async def write_driver(
        self, function: Callable[[DriverConnection], T], options: WriteOptions = DEFAULT
    ) -> T:
        """See `Database.write_driver`."""
        return await self._threads.write(self._run_driver, function, options)

    def quick_writer(self) -> QuickWriter:
        """See `Database.quick_writer`."""
        return _PostgresWriter(self)

    async def open(self, *, allows_memory: bool = False) -> None:  # memory replaces no server
        """See `Database.open`."""
        if not await self._is_current():
            await self._threads.write(self._prepare)
        self._users += 1

    async def ensure(self) -> None:
        """See `Database.ensure`."""
        if not await self._is_current():
            try:
                await self._threads.write(self._prepare)
            except ConfigError as error:
                raise StoreError(self.name, "; ".join(error.faults)) from error

    async def close(self) -> None:
        """See `Database.close`."""
        self._users -= 1
        if not self._active:
            await self._threads.read(self._drop_unused)

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

    async def lock_job(self, name: str) -> int:
        """See `Database.lock_job`."""
        return await self._locks.take(name)

    async def unlock_job(self, name: str, lock: int) -> None:
        """See `Database.unlock_job`."""
        await self._locks.give_back(name, lock)

    async def watch(self) -> None:
        """See `Database.watch`."""

        async def send(text: str) -> None:
            await self.read_driver(lambda connection: connection.execute(PROBE, (text,)).fetchall())

        await PostgresListener(connection_text(self._url), self.signals, send).run()

    # --- opening ------------------------------------------------------------------------------------------

    async def _is_current(self) -> bool:
        try:
            rows = await self.read_driver(lambda connection: connection.execute(REVISION).fetchall())
        except StoreError as error:
            if isinstance(error.__cause__, errors.UndefinedTable):
                return False
            raise
        return rows == [(HEAD,)]

    def _prepare(self) -> None:
        """Make the tables; another process may do the same at this moment."""
        from maitred.storage import core, migrate  # noqa: PLC0415  # slow to import

        def upgrade(connection: "Connection") -> None:
            revision = core.revision(connection)
            if revision != HEAD:
                migrate.check(connection, revision, self.name)
                migrate.migrate(connection, revision)

        self._run(upgrade, DEFAULT)

    # --- transactions -------------------------------------------------------------------------------------

    def _run(self, function: "Callable[[Connection], T]", options: WriteOptions | None) -> T:
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  # slow to import

        from maitred.storage import core  # noqa: PLC0415  # slow to import

        def run(pooled: PooledConnection) -> T:
            return core.run(pooled.engine or core.postgres_engine(pooled.driver), function, options)

        try:
            return self._transact(run, options, core.postgres_engine)
        except SQLAlchemyError as error:
            raise self._store_error(core.driver_error(error)) from error
        except psycopg.Error as error:
            raise self._store_error(error) from error

    def _run_driver(self, function: Callable[[DriverConnection], T], options: WriteOptions | None) -> T:
        try:
            return self._transact(lambda pooled: function(_Statements(pooled.driver)), options, None)
        except psycopg.Error as error:
            raise self._store_error(error) from error

    def _transact(
        self,
        function: Callable[[PooledConnection], T],
        options: WriteOptions | None,
        make_engine: "Callable[[Any], Engine] | None",
    ) -> T:
        """Run a function with a connection in a transaction, which is committed at the end."""
        with self._guard:
            self._active += 1
        try:
            pooled = self._take(options, make_engine)
            try:
                done = function(pooled)
                pooled.driver.commit()
            except BaseException:
                self._undo(pooled)
                raise
            self._pool.give_back(pooled)
            return done
        finally:
            self._end()

    def _take(
        self, options: WriteOptions | None, make_engine: "Callable[[Any], Engine] | None"
    ) -> PooledConnection:
        """Return a connection with a new transaction; one that the server ended is replaced."""
        while True:
            pooled = self._pool.take()
            try:
                if pooled.is_fresh:
                    pooled.driver.adapters.register_dumper(str, _TextDumper)
                _load_json_as_text(pooled.driver, as_text=make_engine is None)
                if make_engine is not None and pooled.engine is None:
                    pooled.engine = make_engine(pooled.driver)
                _begin(pooled.driver, options)
            except BaseException:
                is_stale = pooled.driver.broken and not pooled.is_fresh
                self._pool.drop(pooled)
                if not is_stale:
                    raise
            else:
                return pooled

    def _undo(self, pooled: PooledConnection) -> None:
        try:
            pooled.driver.rollback()
        except psycopg.Error:
            self._pool.drop(pooled)
        else:
            self._pool.give_back(pooled)

    def _end(self) -> None:
        """Note the end of a transaction; the last one closes connections that no caller needs."""
        with self._guard:
            self._active -= 1
            is_last = not self._active
        if is_last:
            self._drop_unused()

    def _drop_unused(self) -> None:
        """Close the idle connections if the database is not open."""
        with self._guard:
            if self._users > 0 or self._active:
                return
        self._pool.close_idle()

    def _store_error(self, error: Exception) -> StoreError:
        for kind, reason, advice in _FAULTS:
            if isinstance(error, kind):
                return StoreError(self.name, reason, advice=advice)
        text = redact(str(error).strip().partition("\n")[0]) or type(error).__name__
        if not isinstance(error, psycopg.OperationalError):
            return StoreError(self.name, text)
        if _REFUSED in text:
            return StoreAwayError(self.name, f"its server refuses ({text})", advice="Correct `catalog.url`.")
        advice = "Start it, or correct `catalog.url`."
        return StoreAwayError(self.name, f"its server does not answer ({text})", advice=advice)


class _PostgresWriter:
    """Writes in a thread: the event loop must not wait for the network."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def write(
        self,
        function: Callable[[DriverConnection], T],
        *,
        rows: int,  # as the protocol has it
        is_small: bool = True,
    ) -> T:
        return await self._database.write_driver(function, _TOGETHER if is_small else DEFAULT)

    async def close(self) -> None:
        """Do nothing, since it has no connection of its own."""


class _Statements:
    """A connection for statements with `?` for each value, where psycopg has `%s`."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> DriverRows:
        return self._connection.execute(_as_format(statement), values)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> DriverRows:
        cursor = self._connection.cursor()
        cursor.executemany(_as_format(statement), rows)
        return cursor


class _TextDumper(StrDumperUnknown):
    """PostgreSQL stores no NUL, but texts of servers may have one; the character U+2400 replaces it."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace(_NUL, _SIGN_OF_NUL) if _NUL in obj else obj)


def without_password(url: str) -> str:
    """Return an address without its password and its query, for messages."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}"


@lru_cache(maxsize=256)
def _as_format(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def _load_json_as_text(connection: psycopg.Connection[Any], *, as_text: bool) -> None:
    """Let a connection return JSON columns as the stored text, or as values, which SQLAlchemy expects."""
    connection.adapters.register_loader("json", TextLoader if as_text else JsonLoader)


def _begin(connection: psycopg.Connection[Any], options: WriteOptions | None) -> None:
    if options is None:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    else:
        connection.execute(_BEGIN[options.lane], (f"{options.wait_s * 1_000:.0f}ms",))
