"""Identify the viewer of a request: a principal with its grant, and in the handshake era its connection.

Over HTTP, the guard in front of the endpoint identifies the caller and writes the viewer into the request's
scope. Over standard streams, the viewer is the one for whom the gateway serves. Where clients share a
gateway, it is the grant that a client proved when it connected. A connection is identified by the SDK's
object of it (see `maitred.surfaces.mcp.caller.connection_of`).
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from maitred.gateway.authorization import VIEWER
from maitred.model.access import Viewer
from maitred.surfaces.mcp.caller import connection_of
from maitred.surfaces.mcp.first_answers import CLIENT_CHARACTERS

Context = ServerRequestContext[Any, Any]

LABEL: Final = "maitred.label"
"""Where the state of a connection has its name, if every gateway on one store knows it by the same name."""


GOES_ON: Final = "maitred.goes_on"
"""Set in the state of a connection that ends here alone: its client may go on at another gateway."""


class EndListener(Protocol):
    """Is called with a viewer whose connection has ended here, and whether it may go on elsewhere."""

    def __call__(self, viewer: Viewer, *, goes_on: bool) -> None:
        """Release what belongs to the viewer's connection."""
        ...


class Viewers:
    """Distinguishes viewers; calls `ended` with each viewer whose connection has ended.

    `stateless` is the viewer of requests that name none: all clients of the stateless era then share one
    state.
    """

    def __init__(self, viewer: Viewer, ended: EndListener) -> None:
        self.stateless = viewer
        self._ended = ended
        self._numbers = count(1)
        self._connected: WeakKeyDictionary[Connection, Viewer] = WeakKeyDictionary()
        self._admitted: WeakKeyDictionary[Connection, Viewer] = WeakKeyDictionary()

    def left(self, guest: Viewer) -> None:
        """Release the state of a guest that has closed its wire."""
        self._ended(guest, goes_on=False)

    def admit(self, connection: Connection, guest: Viewer) -> None:
        """Count the requests of a connection as a guest's; the requests themselves do not name the guest."""
        self._admitted[connection] = guest

    def adopt(self, connection: Connection, viewer: Viewer) -> None:
        """Count a connection as that of a viewer who was introduced before."""
        self._connected[connection] = viewer
        connection.exit_stack.callback(lambda: self._ended(viewer, goes_on=GOES_ON in connection.state))

    def of(self, ctx: Context) -> Viewer:
        """The viewer of a request.

        Raises:
            MCPError: The connection belongs to another principal.
        """
        connection = connection_of(ctx)
        guest = self._guest(ctx, connection)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self.named(*_client(connection), guest)
        return self.behind(connection, guest)

    def introduced(self, ctx: Context) -> Viewer:
        """The viewer of an introduction, which has no state of its connection yet."""
        connection = connection_of(ctx)
        own = (ctx.params or {}).get("clientInfo")  # of a handshake, which the connection does not have yet
        client = client_of(own) if own is not None else _client(connection)
        return self.named(*client, self._guest(ctx, connection))

    def _guest(self, ctx: Context, connection: Connection) -> Viewer | None:
        """The viewer in the request's scope, or the guest of its connection; `None` without either."""
        scope = getattr(ctx.request, "scope", None) or {}
        found = scope.get(VIEWER)
        return found if isinstance(found, Viewer) else self._admitted.get(connection)

    def named(self, client: str, version: str, guest: Viewer | None = None) -> Viewer:
        """A client of the stateless era by its own name, with the grant of `guest` if there is one."""
        known = guest or self.stateless
        return Viewer(
            grant=known.grant,
            connection=known.connection,
            client=client[:CLIENT_CHARACTERS],
            surface="mcp",
            start=known.start,
            version=version[:CLIENT_CHARACTERS],
            folder=known.folder,
        )

    def behind(self, connection: Connection, guest: Viewer | None = None) -> Viewer:
        """The viewer of a connection of the handshake era, with the grant of its present request.

        Raises:
            MCPError: The connection belongs to another principal.
        """
        viewer = self._connected.get(connection)
        grant = guest.grant if guest else None
        if viewer is None:
            number = connection.state.get(LABEL) or str(next(self._numbers))
            named = self.named(*_client(connection), guest)
            viewer = replace(named, era="handshake", connection=number)
            self.adopt(connection, viewer)
        if grant is None or grant == viewer.grant:
            return viewer
        if grant.principal != viewer.principal:
            raise MCPError(
                INVALID_REQUEST, "this connection belongs to another principal; open another connection"
            )
        return replace(viewer, grant=grant)


def client_of(client_info: Any) -> tuple[str, str]:
    """The name and version in the information of a client about itself; empty if it gives none."""
    own = client_info if isinstance(client_info, Mapping) else {}
    name, version = own.get("name"), own.get("version")
    return name if isinstance(name, str) else "", version if isinstance(version, str) else ""


def _client(connection: Connection) -> tuple[str, str]:
    """The name and version that a client gave itself in its introduction; empty if it gave none."""
    if connection.client_params is None:
        return "", ""
    info = connection.client_params.client_info
    return info.name, info.version
