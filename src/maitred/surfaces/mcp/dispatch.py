"""Answer the messages of a client in its era, over any transport.

`tools/call`, which decides the gateway's speed, goes straight to the surface; the SDK handles all other
requests.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.runner import ServerRunner, serve_one
from mcp.shared.inbound import InboundModernRoute

from maitred.model.access import Viewer
from maitred.surfaces.mcp.caller import CLIENT, HandshakeCaller, StatelessCaller
from maitred.surfaces.mcp.identity import client_of
from maitred.surfaces.mcp.server import McpSurface

Params = Mapping[str, Any] | None


class HandshakeDispatch:
    """Answers one client of the handshake era; `state` is that of the SDK's server."""

    def __init__(self, surface: McpSurface, connection: Connection, state: Any) -> None:
        self._surface = surface
        self._runner = ServerRunner(surface.server, connection, state)
        self.connection = connection

    async def on_request(
        self, context: Any, method: str, params: Params, guest: Viewer | None
    ) -> dict[str, Any]:
        """Answer a request with the grant of a viewer; without one, with the grant of the surface's own."""
        if not self._surface.spans.is_on:
            return await self._answer(context, method, params, guest)
        version = self.connection.protocol_version if self.connection.initialize_accepted else ""
        answer = partial(self._answer, context, method, params, guest)
        return await self._surface.spans.watch(context, method, params, version, answer)

    async def _answer(
        self, context: Any, method: str, params: Params, guest: Viewer | None
    ) -> dict[str, Any]:
        if method == "tools/call" and self.connection.initialize_accepted:
            version = self.connection.protocol_version
            viewer = self._surface.viewers.behind(self.connection, guest)
            caller = HandshakeCaller(context, self.connection, params, viewer, self._surface.answer_s)
            return await self._surface.call_tool(params or {}, version, caller, viewer)
        return await self._runner.on_request(context, method, params)

    async def on_notify(self, context: Any, method: str, params: Params) -> None:
        """Take a notification."""
        await self._runner.on_notify(context, method, params)


class StatelessDispatch:
    """Answers clients of the stateless era.

    `client` identifies the client where the transport does, and `outbound` leads to it.
    """

    def __init__(
        self,
        surface: McpSurface,
        state: Any,
        *,
        client: str = "",
        outbound: NotifyOnlyOutbound | None = None,
    ) -> None:
        self._surface = surface
        self._state = state
        self._client = client
        self._outbound = {"outbound": outbound} if outbound is not None else {}

    async def on_request(
        self, context: Any, method: str, params: Params, route: InboundModernRoute, guest: Viewer | None
    ) -> dict[str, Any]:
        """Answer a request, whose envelope the SDK has read into `route`."""
        if not self._surface.spans.is_on:
            return await self._answer(context, method, params, route, guest)
        answer = partial(self._answer, context, method, params, route, guest)
        return await self._surface.spans.watch(context, method, params, route.protocol_version, answer)

    async def _answer(
        self, context: Any, method: str, params: Params, route: InboundModernRoute, guest: Viewer | None
    ) -> dict[str, Any]:
        version = route.protocol_version
        if method == "tools/call":
            viewer = self._surface.viewers.named(*client_of(route.client_info), guest)
            caller = StatelessCaller(context, params, viewer, client=self._client)
            return await self._surface.call_tool(params or {}, version, caller, viewer)
        connection = self.connection(version, route.client_info, route.client_capabilities, guest)
        return await serve_one(
            self._surface.server, context, method, params, connection=connection, lifespan_state=self._state
        )

    def connection(self, version: str, info: Any, capabilities: Any, guest: Viewer | None) -> Connection:
        """A connection for one message."""
        connection = Connection.from_envelope(version, info, capabilities, **self._outbound)
        connection.state[CLIENT] = self._client
        if guest is not None:
            self._surface.viewers.admit(connection, guest)
        return connection
