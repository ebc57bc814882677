"""Serve one client whose messages are lines, over any wire, in the protocol era that it opens.

`tools/call`, which decides the gateway's speed, goes straight to the surface; the SDK handles all other
requests.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.runner import ServerRunner, aclose_shielded, serve_one
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp_types import (
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from maitred.jsonrpc import Inbound, LineChannel
from maitred.model.access import NO_START, ClientStart, Grant, Viewer
from maitred.surfaces.mcp.caller import CLIENT, HandshakeCaller, StatelessCaller
from maitred.surfaces.mcp.server import McpSurface
from maitred.surfaces.mcp.wire import Wire

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_ONE_CLIENT = "wire"
"""The client of a surface with one wire; a guest is one of several clients, and has its own connection."""


async def serve_wire(
    surface: McpSurface, wire: Wire, *, admitted: Grant | None = None, start: ClientStart = NO_START
) -> None:
    """Serve until the client closes the wire; `surface.announce` must run beside it.

    `admitted` is the client's grant; without it, the client has the grant of the surface's own viewer.
    `start` is what its program said when it connected.
    """
    async with surface.server.lifespan(surface.server) as state:
        channel = LineChannel(
            wire.write,
            max_message_bytes=_MAX_MESSAGE_BYTES,
            trusted=True,
            inline=frozenset({"initialize"}),
            ids=f"maitred-{secrets.token_hex(4)}-",
        )
        wire.attach(channel.feed, lambda: channel.close("the client closed the connection"))
        guest = surface.viewers.guest(admitted, start) if admitted else None
        era = _Era(surface, channel, state, guest)
        try:
            await channel.run(era.on_request, era.on_notify)
        finally:
            await aclose_shielded(era.connection)
            if guest:
                surface.viewers.left(guest)


class _Era:
    """Answers in the protocol era that the client's first request opens; refuses the other era."""

    def __init__(self, surface: McpSurface, channel: LineChannel, state: Any, guest: Viewer | None) -> None:
        self._surface = surface
        self._state = state
        self._guest = guest
        self._modern: bool | None = None
        self._outbound = NotifyOnlyOutbound(channel)
        self.connection = self._of_the_client(Connection.for_loop(channel))
        self._runner = ServerRunner(surface.server, self.connection, state)

    async def on_request(self, context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        enveloped = method != "initialize" and _has_envelope(params)
        if self._modern is None:
            self._modern = enveloped
        if self._modern:
            return await self._answer_stateless(context, method, params)
        if enveloped:
            raise MCPError(
                INVALID_REQUEST,
                "this connection was opened by a handshake; the 2026-07-28 envelope is refused on it",
            )
        if method == "tools/call" and self.connection.initialize_accepted:
            version = self.connection.protocol_version
            viewer = self._surface.viewers.behind(self.connection, self._guest)
            caller = HandshakeCaller(context, self.connection, params, viewer, self._surface.answer_s)
            return await self._surface.call_tool(params or {}, version, caller, viewer)
        return await self._runner.on_request(context, method, params)

    async def _answer_stateless(
        self, context: Inbound, method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if method == "initialize":
            raise MCPError(
                UNSUPPORTED_PROTOCOL_VERSION,
                "this connection speaks 2026-07-28; the handshake is refused",
                {"supported": list(MODERN_PROTOCOL_VERSIONS)} | _requested(params),
            )
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise MCPError(code=route.code, message=route.message, data=route.data)
        if method == "tools/call":
            viewer = self._surface.viewers.named(_name(route.client_info), self._guest)
            caller = StatelessCaller(context, params, viewer, client=_ONE_CLIENT)
            return await self._surface.call_tool(params or {}, route.protocol_version, caller, viewer)
        connection = self._of_the_client(
            Connection.from_envelope(
                route.protocol_version, route.client_info, route.client_capabilities, outbound=self._outbound
            )
        )
        return await serve_one(
            self._surface.server, context, method, params, connection=connection, lifespan_state=self._state
        )

    def _of_the_client(self, connection: Connection) -> Connection:
        connection.state[CLIENT] = _ONE_CLIENT
        if self._guest is not None:
            self._surface.viewers.admit(connection, self._guest)
        return connection

    async def on_notify(self, context: Any, method: str, params: Mapping[str, Any] | None) -> None:
        if not self._modern:
            await self._runner.on_notify(context, method, params)
            return
        connection = self._of_the_client(
            Connection.from_envelope(LATEST_MODERN_VERSION, None, None, outbound=self._outbound)
        )
        try:
            await ServerRunner(self._surface.server, connection, self._state).on_notify(
                context, method, params
            )
        finally:
            await aclose_shielded(connection)


def _has_envelope(params: Mapping[str, Any] | None) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta


def _name(client_info: Any) -> str:
    """The name that a client of the stateless era gives itself; empty if it gives none."""
    name = client_info.get("name") if isinstance(client_info, Mapping) else None
    return name if isinstance(name, str) else ""


def _requested(params: Mapping[str, Any] | None) -> dict[str, str]:
    version = (params or {}).get("protocolVersion")
    return {"requested": version} if isinstance(version, str) else {}
