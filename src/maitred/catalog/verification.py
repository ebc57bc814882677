"""Lends a connection only after the server's lists were compared with what was approved.

A server may publish something else each time it starts, and whenever it announces a change. So the first
call on a connection, and the first after an announcement, waits for one comparison, which all waiting
calls share. Each instance of a server is compared by itself.
`compare` acts on the result; this module only records that a comparison was made.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from weakref import WeakKeyDictionary

import anyio

from maitred.backends.base import Connection, Connections
from maitred.errors import ConnectionLostError, ServerUnavailableError
from maitred.model.sharing import NO_SHARER, Sharer


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One reading of a server's lists: on which connection, and after how many announced changes.

    `key` is the share key of the instance; see `maitred.model.sharing`.
    """

    connection: Connection
    key: str
    announcements: int


class VerifiedConnections:
    """Lends the connections of a pool.

    `compare` reads and judges the lists of a server on a connection, which may be that of an instance for
    some clients, and calls `begin` and `complete`. It returns why it failed, or an empty text.
    """

    def __init__(self, pool: Connections, compare: Callable[[str, Connection, str], Awaitable[str]]) -> None:
        self._pool = pool
        self._compare = compare
        self._announcements: dict[tuple[str, str | None], int] = {}
        self._verified: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()
        self._turns: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)

    def announce(self, server: str, key: str | None = None) -> None:
        """An instance announced a change of a list, or without a `key` all have to be compared again."""
        self._announcements[server, key] = self._announcements.get((server, key), 0) + 1

    def _announced(self, server: str, key: str) -> int:
        return self._announcements.get((server, None), 0) + self._announcements.get((server, key), 0)

    def begin(self, server: str, connection: Connection, key: str) -> Comparison:
        """Note that a server's lists are read from now on; `complete` gets the result afterwards."""
        return Comparison(connection=connection, key=key, announcements=self._announced(server, key))

    def complete(self, comparison: Comparison) -> None:
        """Note that the lists were judged, and that the catalog agrees with the judgement."""
        self._verified[comparison.connection] = comparison.announcements

    def turn(self, server: str) -> anyio.Lock:
        """The lock to hold during a comparison, so that no other task compares the same connection."""
        return self._turns[server]

    def is_current(self, server: str, connection: Connection, key: str) -> bool:
        """Whether the last comparison of a connection is still valid."""
        return self._verified.get(connection) == self._announced(server, key)

    def key(self, server: str, sharer: Sharer) -> str:
        """The share key of the instance that serves a sharer."""
        return self._pool.key(server, sharer)

    def connection(self, server: str, sharer: Sharer = NO_SHARER) -> "VerifiedLoan":
        """Borrow the connection of a server, compared with what was approved."""
        loan = self._pool.connection(server, sharer)
        return VerifiedLoan(self, server, loan, self._pool.key(server, sharer))

    async def verify(self, server: str, connection: Connection, key: str = "") -> None:
        """Compare the lists of a server, unless the last comparison is valid for the connection.

        Raises:
            ServerUnavailableError: Its lists cannot be compared, or differ.
            ConnectionLostError: The server ended meanwhile; nothing was sent.
        """
        if not self.is_current(server, connection, key):
            await self._verify(server, connection, key)

    async def _verify(self, server: str, connection: Connection, key: str) -> None:
        async with self.turn(server):
            if self.is_current(server, connection, key):
                return  # another call had it compared
            announcements = self._announced(server, key)
            error = await self._compare(server, connection, key)
        if not connection.alive:
            raise ConnectionLostError(server, "it went away while its tools were read", unread=True)
        last = self._verified.get(connection)
        if last is None or last < announcements:
            why = f"its lists cannot be compared with the approved ones: {error or 'it has changed'}"
            raise ServerUnavailableError(server, why)


class VerifiedLoan:
    """A compared connection while it is borrowed.

    Its context raises what `VerifiedConnections.verify` and the pool raise. A class, since each call has one,
    and a generator costs more.
    """

    __slots__ = ("_connections", "_key", "_loan", "_server")

    def __init__(
        self,
        connections: VerifiedConnections,
        server: str,
        loan: AbstractAsyncContextManager[Connection],
        key: str,
    ) -> None:
        self._connections = connections
        self._server = server
        self._loan = loan
        self._key = key

    async def __aenter__(self) -> Connection:
        connection = await self._loan.__aenter__()
        try:
            await self._connections.verify(self._server, connection, self._key)
        except BaseException as error:
            await self._loan.__aexit__(type(error), error, error.__traceback__)
            raise
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._loan.__aexit__(kind, error, trace)
