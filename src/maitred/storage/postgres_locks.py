"""Advisory locks of a PostgreSQL session, which end with its connection: which jobs this process does now.

All of them are on one connection beside the pool, which is open as long as there are some.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import psycopg

_LIMIT_S = 10.0


class SessionLocks:
    """Locks by name; `text` says how to connect, `make_error` makes the error for a failed connection."""

    def __init__(self, text: str, make_error: Callable[[Exception], Exception]) -> None:
        self._text = text
        self._make_error = make_error
        self._turn = anyio.Lock()
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._locks: dict[str, int] = {}
        self._count = 0

    async def take(self, name: str) -> int:
        """Lock a name, without waiting; 0 if this or another process has it, else the number of the lock."""
        async with self._turn:
            await self._forget_lost()
            if name in self._locks:
                return 0
            if await self._ask("SELECT pg_try_advisory_lock(%s)", name):
                self._count += 1
                self._locks[name] = self._count
                return self._count
            if not self._locks:
                await self._close()
            return 0

    async def give_back(self, name: str, lock: int) -> None:
        """Unlock a name, unless its lock was lost meanwhile."""
        async with self._turn:
            if self._locks.get(name) != lock:
                return
            del self._locks[name]
            if self._locks:
                await self._ask("SELECT pg_advisory_unlock(%s)", name)
            else:
                await self._close()

    async def _forget_lost(self) -> None:
        """Close a connection that was cut: with it, all its locks were lost."""
        if self._connection is not None:
            with suppress(Exception):  # the next statement tells why
                await self._ask("SELECT %s IS NOT NULL", "")

    async def _ask(self, statement: str, name: str) -> bool:
        try:
            with anyio.fail_after(_LIMIT_S, shield=True):  # a statement that is cancelled ends the connection
                if self._connection is None:
                    self._connection = await psycopg.AsyncConnection.connect(self._text, autocommit=True)
                cursor = await self._connection.execute(statement.encode(), (_key(name),))
                row = await cursor.fetchone()
        except (psycopg.Error, TimeoutError) as error:
            await self._close()
            raise self._make_error(error) from error
        return bool(row and row[0])

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        self._locks.clear()
        if connection is not None:
            with anyio.CancelScope(shield=True):
                await connection.close()


def _key(name: str) -> int:
    """The number of a lock: 64 bits with a sign."""
    digest = hashlib.blake2b(f"maitred {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)
