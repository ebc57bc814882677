"""Who is behind a request: a principal with what it may do, and in the handshake era one of its connections.

Over HTTP the guard in front of the endpoint found out who asks, and left it in the scope of the request. Over
standard streams it is the one for whom the gateway serves, and where clients share a gateway, whoever they
showed to be when they came. A connection is known by the SDK's object of it, which has no public name (see
`maitred.surfaces.mcp.server`).
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

from maitred.gateway.authorization import VIEWER
from maitred.model.access import Grant, Viewer

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
        self._admitted: WeakKeyDictionary[Connection, Viewer] = WeakKeyDictionary()

    def guest(self, grant: Grant) -> Viewer:
        """A client that has a wire of its own, and so in either era a state of its own; see `left`."""
        return Viewer(grant=grant, connection=f"wire {next(self._numbers)}", surface="mcp")

    def left(self, guest: Viewer) -> None:
        """A guest has closed its wire."""
        self._ended(guest)

    def admit(self, connection: Connection, guest: Viewer) -> None:
        """Have a connection's requests be of a guest; none of its requests says so by itself."""
        self._admitted[connection] = guest

    def of(self, ctx: Context) -> Viewer:
        """Who asks.

        Raises:
            MCPError: The connection belongs to another principal.
        """
        connection = ctx.session._connection  # noqa: SLF001  # see the module's docstring
        guest = self._guest(ctx, connection)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self.named(_client(connection), guest)
        return self.behind(connection, guest.grant if guest else None)

    def asking(self, ctx: Context) -> Viewer:
        """Who introduces itself; its connection is not known yet."""
        connection = ctx.session._connection  # noqa: SLF001  # as above
        return self._guest(ctx, connection) or self.stateless

    def _guest(self, ctx: Context, connection: Connection) -> Viewer | None:
        """Who is known to be behind a request, or behind its connection."""
        scope = getattr(ctx.request, "scope", None) or {}
        found = scope.get(VIEWER)
        return found if isinstance(found, Viewer) else self._admitted.get(connection)

    def named(self, client: str, guest: Viewer | None = None) -> Viewer:
        """A client of the stateless era, by the name that it gives itself, and who it is known to be."""
        known = guest or self.stateless
        return Viewer(
            grant=known.grant,
            connection=known.connection,
            client=client[:_CLIENT_CHARACTERS],
            surface="mcp",
        )

    def behind(self, connection: Connection, grant: Grant | None = None) -> Viewer:
        """The client of a connection of the handshake era, with what it may do by its present request.

        Raises:
            MCPError: The connection belongs to another principal.
        """
        viewer = self._connected.get(connection)
        if viewer is None:
            number = str(next(self._numbers))
            viewer = replace(self.named(_client(connection)), era="handshake", connection=number)
            viewer = replace(viewer, grant=grant or viewer.grant)
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
