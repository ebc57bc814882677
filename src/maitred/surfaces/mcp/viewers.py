"""Who is behind a request: a principal with what it may do, and in the handshake era one of its connections.

Over HTTP the guard in front of the endpoint found out who asks, and left it in the scope of the request; over
standard streams everybody is the one for whom the gateway serves. A connection is known by the SDK's object
of it, which has no public name (see `maitred.surfaces.mcp.server`).
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred.gateway.access import VIEWER
from maitred.model.access import Grant
from maitred.model.principals import Viewer

Context = ServerRequestContext[Any, Any]

_CLIENT_CHARACTERS = 100


class Viewers:
    """Tells viewers apart; `ended` is called with those whose connection has ended.

    `stateless` is who asks where no request says so: all clients of the stateless era then share one state.
    """

    def __init__(self, viewer: Viewer, ended: Callable[[Viewer], None]) -> None:
        self.stateless = viewer
        self._ended = ended
        self._numbers = count(1)
        self._connected: WeakKeyDictionary[Connection, Viewer] = WeakKeyDictionary()

    def of(self, ctx: Context) -> Viewer:
        """Who asks.

        Raises:
            MCPError: The connection belongs to another principal.
        """
        connection = ctx.session._connection  # noqa: SLF001  # see the module's docstring
        scope = getattr(ctx.request, "scope", None) or {}
        found = scope.get(VIEWER)
        grant = found.grant if isinstance(found, Viewer) else self.stateless.grant
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self.named(_client(connection), grant)
        return self.behind(connection, grant)

    def named(self, client: str, grant: Grant | None = None) -> Viewer:
        """A client of the stateless era, by the name that it gives itself."""
        return Viewer(grant=grant or self.stateless.grant, client=client[:_CLIENT_CHARACTERS], surface="mcp")

    def behind(self, connection: Connection, grant: Grant | None = None) -> Viewer:
        """The client of a connection of the handshake era, with what it may do by its present request.

        Raises:
            MCPError: The connection belongs to another principal.
        """
        viewer = self._connected.get(connection)
        if viewer is None:
            number = str(next(self._numbers))
            viewer = replace(self.named(_client(connection), grant), era="handshake", connection=number)
            self._connected[connection] = viewer
            connection.exit_stack.callback(self._ended, viewer)
        if grant is None or grant == viewer.grant:
            return viewer
        if grant.principal != viewer.principal:
            raise MCPError(INVALID_REQUEST, "this connection belongs to somebody else; open another")
        return replace(viewer, grant=grant)


def _client(connection: Connection) -> str:
    """The name that a client gave itself when it introduced itself; empty if it did not."""
    return connection.client_params.client_info.name if connection.client_params else ""
