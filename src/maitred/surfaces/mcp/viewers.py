"""Who is behind a request: a principal, and in the handshake era one of its connections.

A connection is known by the SDK's object of it, which has no public name (see `maitred.surfaces.mcp.server`).
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred.model.principals import LOCAL, LOCAL_USER, Viewer

Context = ServerRequestContext[Any, Any]

_CLIENT_CHARACTERS = 100


class Viewers:
    """Tells viewers apart; `ended` is called with those whose connection has ended."""

    def __init__(self, principal: str, ended: Callable[[Viewer], None]) -> None:
        roles = LOCAL_USER.roles if principal == LOCAL else ()
        self.stateless = Viewer(principal=principal, roles=roles)
        """All clients of the stateless era, which share one state."""
        self._ended = ended
        self._numbers = count(1)
        self._connected: WeakKeyDictionary[Connection, Viewer] = WeakKeyDictionary()

    def of(self, ctx: Context) -> Viewer:
        """Who asks."""
        connection = ctx.session._connection  # noqa: SLF001  # see the module's docstring
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self.named(_client(connection))
        return self.behind(connection)

    def named(self, client: str) -> Viewer:
        """A client of the stateless era, by the name that it gives itself."""
        return replace(self.stateless, client=client[:_CLIENT_CHARACTERS])

    def behind(self, connection: Connection) -> Viewer:
        """The client of a connection of the handshake era."""
        if connection not in self._connected:
            number = str(next(self._numbers))
            viewer = replace(self.named(_client(connection)), era="handshake", connection=number)
            self._connected[connection] = viewer
            connection.exit_stack.callback(self._ended, viewer)
        return self._connected[connection]


def _client(connection: Connection) -> str:
    """The name that a client gave itself when it introduced itself; empty if it did not."""
    return connection.client_params.client_info.name if connection.client_params else ""
