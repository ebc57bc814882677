"""Lends a connection only after the server's lists were compared with what was approved.

A server may publish something else each time it starts, and whenever it announces a change. So the first
call on a connection, and the first after an announcement, waits for one comparison, which all waiting
calls share.
`compare` acts on the result; this module only records that a comparison was made.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType

import anyio

from maitred.backends.base import Connection, Connections
from maitred.errors import ConnectionLostError, ServerUnavailableError


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One reading of a server's lists: on which connection, and after how many announced changes."""

    connection: Connection
    announcements: int


class VerifiedConnections:
    """Lends the connections of a pool.

    `compare` reads and judges the lists of a server, and calls `begin` and `complete`. It returns why it
    failed, or an empty text.
    """

    def __init__(self, pool: Connections, compare: Callable[[str], Awaitable[str]]) -> None:
        self._pool = pool
        self._compare = compare
        self._announcements: dict[str, int] = {}
        self._verified: dict[str, Comparison] = {}
        self._turns: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)

    def announce(self, server: str) -> None:
        """A server announced a change of a list: its lists must be compared again."""
        self._announcements[server] = self._announcements.get(server, 0) + 1

    def begin(self, server: str, connection: Connection) -> Comparison:
        """Note that a server's lists are read from now on; `complete` gets the result afterwards."""
        return Comparison(connection=connection, announcements=self._announcements.get(server, 0))

    def complete(self, server: str, comparison: Comparison) -> None:
        """Note that the lists were judged, and that the catalog agrees with the judgement."""
        self._verified[server] = comparison

    def turn(self, server: str) -> anyio.Lock:
        """The lock to hold during a comparison, so that no other task compares the same connection."""
        return self._turns[server]

    def is_current(self, server: str) -> bool:
        """Whether the last comparison is valid for the server as it runs now."""
        last = self._verified.get(server)
        return last is not None and last.connection.alive and self._holds(server, last.connection)

    def _holds(self, server: str, connection: Connection) -> bool:
        last = self._verified.get(server)
        return (
            last is not None
            and last.connection is connection
            and last.announcements == self._announcements.get(server, 0)
        )

    def connection(self, server: str) -> "VerifiedLoan":
        """Borrow the connection of a server, compared with what was approved."""
        return VerifiedLoan(self, server, self._pool.connection(server))

    async def verify(self, server: str, connection: Connection) -> None:
        """Compare the lists of a server, unless the last comparison is valid for the connection.

        Raises:
            ServerUnavailableError: Its lists cannot be compared, or differ.
            ConnectionLostError: The server ended meanwhile; nothing was sent.
        """
        if not self._holds(server, connection):
            await self._verify(server, connection)

    async def _verify(self, server: str, connection: Connection) -> None:
        async with self.turn(server):
            if self._holds(server, connection):
                return  # another call had it compared
            announcements = self._announcements.get(server, 0)
            error = await self._compare(server)
        if not connection.alive:
            raise ConnectionLostError(server, "it went away while its tools were read", unread=True)
        last = self._verified.get(server)
        if last is None or last.connection is not connection or last.announcements < announcements:
            why = f"its lists cannot be compared with the approved ones: {error or 'it has changed'}"
            raise ServerUnavailableError(server, why)


class VerifiedLoan:
    """A compared connection while it is borrowed.

    Its context raises what `VerifiedConnections.verify` and the pool raise. A class, since each call has one,
    and a generator costs more.
    """

    __slots__ = ("_connections", "_loan", "_server")

    def __init__(
        self, connections: VerifiedConnections, server: str, loan: AbstractAsyncContextManager[Connection]
    ) -> None:
        self._connections = connections
        self._server = server
        self._loan = loan

    async def __aenter__(self) -> Connection:
        connection = await self._loan.__aenter__()
        try:
            await self._connections.verify(self._server, connection)
        except BaseException as error:
            await self._loan.__aexit__(type(error), error, error.__traceback__)
            raise
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._loan.__aexit__(kind, error, trace)
