"""Shared values in unlogged tables of the catalog's PostgreSQL database; see `shared_state`.

A transaction that changes unlogged tables alone does not wait for the disk. After a crash of the server the
tables are empty. Messages are notices (NOTIFY), which `postgres_listener` hears. Times are the server's.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio

from maitred.background import Background
from maitred.errors import StoreError
from maitred.storage.database import Database, DriverConnection, WriteOptions
from maitred.storage.shared_state import (
    LEASE_S,
    MOST_SEALED_BYTES,
    Allowance,
    RunningCalls,
    SharedState,
    Shortage,
    check_message,
    first_shortage,
    renew_for_ever,
)
from maitred.storage.signals import MESSAGE

T = TypeVar("T")

_TOGETHER: Final = WriteOptions(lane="together", wait_s=2.0)
_NOW: Final = "extract(epoch FROM clock_timestamp())::float8"
_GET: Final = f"SELECT body FROM shared_values WHERE key = ? AND until > {_NOW}"
_PUT: Final = (
    f"INSERT INTO shared_values (key, body, until) VALUES (?, ?, {_NOW} + ?)"
    " ON CONFLICT (key) DO UPDATE SET body = excluded.body, until = excluded.until"
)
_TOUCH: Final = f"UPDATE shared_values SET until = {_NOW} + ? WHERE key = ? AND until > {_NOW}"
_REPLACE: Final = (
    f"UPDATE shared_values SET body = ?, until = {_NOW} + ? WHERE key = ? AND body = ? AND until > {_NOW}"
)
_INSERT: Final = (
    f"INSERT INTO shared_values (key, body, until) VALUES (?, ?, {_NOW} + ?) ON CONFLICT (key) DO UPDATE"
    f" SET body = excluded.body, until = excluded.until WHERE shared_values.until <= {_NOW}"
)
_DELETE: Final = f"DELETE FROM shared_values WHERE key = ? RETURNING until > {_NOW}"
_ADD: Final = (
    f"INSERT INTO shared_values (key, body, until) VALUES (?, convert_to(?::text, 'UTF8'), {_NOW} + ?)"
    " ON CONFLICT (key) DO UPDATE SET until = excluded.until, body = CASE WHEN shared_values.until >"
    f" {_NOW} THEN convert_to((convert_from(shared_values.body, 'UTF8')::bigint + ?)::text, 'UTF8')"
    " ELSE excluded.body END RETURNING convert_from(body, 'UTF8')"
)
_NOTIFY: Final = "SELECT pg_notify('maitred', ?)"
_MAKE_BUCKET: Final = (
    f"INSERT INTO shared_buckets (key, tokens, at) VALUES (?, ?, {_NOW}) ON CONFLICT (key) DO NOTHING"
)
_LOCK_BUCKET: Final = f"SELECT tokens, {_NOW} - at FROM shared_buckets WHERE key = ? FOR UPDATE"
_SPEND: Final = f"UPDATE shared_buckets SET tokens = ?, at = {_NOW} WHERE key = ?"
_RUNNING: Final = f"SELECT count(*) FROM shared_slots WHERE key = ? AND until > {_NOW}"
_HOLD: Final = (
    f"INSERT INTO shared_slots (key, holder, until) VALUES (?, ?, {_NOW} + {LEASE_S})"
    " ON CONFLICT (key, holder) DO UPDATE SET until = excluded.until"
)
_FREE: Final = "DELETE FROM shared_slots WHERE key = ? AND holder = ?"
_SWEEP: Final = (
    f"DELETE FROM shared_values WHERE until <= {_NOW}",
    f"DELETE FROM shared_slots WHERE until <= {_NOW}",
    f"DELETE FROM shared_buckets WHERE at <= {_NOW} - 86400",
)


class PostgresState(SharedState):
    """The values in a database, whose tables exist already."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.name = database.name
        self._database = database
        self._running = RunningCalls()
        database.signals.listen_messages(self._deliver, self._reset)

    @property
    def is_live(self) -> bool:
        """Whether messages of other processes arrive now."""
        return self._database.signals.is_live

    async def get(self, key: str) -> bytes | None:
        """See `SharedState.get`."""
        found = await self._read(lambda connection: connection.execute(_GET, (key,)).fetchone())
        return bytes(found[0]) if found else None

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """See `SharedState.put`."""
        await self._write(lambda connection: connection.execute(_PUT, (key, value, ttl_s)))

    async def touch(self, key: str, ttl_s: float) -> bool:
        """See `SharedState.touch`."""
        return await self._write(lambda connection: connection.execute(_TOUCH, (ttl_s, key)).rowcount) > 0

    async def delete(self, key: str) -> bool:
        """See `SharedState.delete`."""
        rows = await self._write(lambda connection: connection.execute(_DELETE, (key,)).fetchall())
        return rows == [(True,)]

    async def swap(self, key: str, before: bytes | None, after: bytes, ttl_s: float) -> bool:
        """See `SharedState.swap`."""

        def write(connection: DriverConnection) -> bool:
            if before is None:
                return connection.execute(_INSERT, (key, after, ttl_s)).rowcount > 0
            return connection.execute(_REPLACE, (after, ttl_s, key, before)).rowcount > 0

        return await self._write(write)

    async def add(self, key: str, number: int, ttl_s: float) -> int:
        """See `SharedState.add`."""
        values = (key, str(number), ttl_s, number)
        return int((await self._write(lambda connection: connection.execute(_ADD, values).fetchall()))[0][0])

    async def admit(self, allowances: Sequence[Allowance], holder: str) -> Shortage | None:
        """See `SharedState.admit`."""
        shortage = await self._write(lambda connection: _admit(connection, allowances, holder))
        if shortage is None:
            self._running.added(allowances, holder)
        return shortage

    async def release(self, keys: Sequence[str], holder: str) -> None:
        """See `SharedState.release`."""
        if rows := [(key, holder) for key in self._running.ended(holder)]:
            await self._write(lambda connection: connection.executemany(_FREE, rows))

    async def publish(self, message: str) -> None:
        """See `SharedState.publish`."""
        check_message(message, MOST_SEALED_BYTES)
        await self._read(lambda connection: connection.execute(_NOTIFY, (MESSAGE + message,)).fetchall())

    async def watch(self) -> None:
        """See `SharedState.watch`; the listener of the database passes the messages on."""
        async with Background() as background:
            background.start(renew_for_ever, self._renew)
            await anyio.sleep_forever()

    async def _renew(self) -> None:
        held = [(key, holder) for holder, keys in self._running.keys.items() for key in keys]

        def write(connection: DriverConnection) -> None:
            if held:
                connection.executemany(_HOLD, held)
            for statement in _SWEEP:
                connection.execute(statement)

        await self._write(write)

    async def _read(self, function: Callable[[DriverConnection], T]) -> T:
        return await self._noting(lambda: self._database.read_driver(function))

    async def _write(self, function: Callable[[DriverConnection], T]) -> T:
        return await self._noting(lambda: self._database.write_driver(function, _TOGETHER))

    async def _noting(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            done = await ask()
        except StoreError as error:
            self._why_away = error.reason
            raise
        self._why_away = ""
        return done


def _admit(connection: DriverConnection, allowances: Sequence[Allowance], holder: str) -> Shortage | None:
    """Take one call from all allowances in the open transaction; the rows of buckets are its locks."""
    left: dict[str, float] = {}
    running: dict[str, int] = {}
    for one in sorted(allowances, key=lambda one: one.key):  # in one order, so that two calls cannot block
        connection.execute(_MAKE_BUCKET, (one.key, one.size))
        tokens, since_s = connection.execute(_LOCK_BUCKET, (one.key,)).fetchall()[0]
        left[one.key] = min(one.size, tokens + max(0.0, since_s) * one.per_s)
        if one.at_once:
            running[one.key] = connection.execute(_RUNNING, (one.key,)).fetchall()[0][0]
    if (shortage := first_shortage(allowances, left, running)) is not None:
        return shortage
    for one in allowances:
        connection.execute(_SPEND, (left[one.key] - (1 if one.per_s else 0), one.key))
        if one.at_once:
            connection.execute(_HOLD, (one.key, holder))
    return None
