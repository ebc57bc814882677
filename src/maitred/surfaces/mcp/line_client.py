"""Serve one client whose messages are lines, over any wire, in the protocol era that it opens."""

import secrets
from collections.abc import Mapping
from typing import Any

from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp_types import (
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from maitred.jsonrpc import Inbound, LineChannel
from maitred.surfaces.mcp.caller import CLIENT
from maitred.surfaces.mcp.dispatch import HandshakeDispatch, StatelessDispatch
from maitred.surfaces.mcp.first_answers import Opening
from maitred.surfaces.mcp.server import McpSurface
from maitred.surfaces.mcp.wire import Wire

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
_LAST_ANSWERS_S = 60.0
"""For how long requests are answered after the client ended its side, as `echo` does in a pipe."""

_ONE_CLIENT = "wire"
"""The client of a surface with one wire; a guest is one of several clients, and has its own connection."""


async def serve_wire(surface: McpSurface, wire: Wire, opening: Opening) -> None:
    """Serve until the client closes the wire; `surface.announce` must run beside it.

    `opening` is what the client has said already.
    """
    async with surface.server.lifespan(surface.server) as state:
        channel = LineChannel(
            wire.write,
            max_message_bytes=_MAX_MESSAGE_BYTES,
            trusted=True,
            inline=frozenset({"initialize"}),
            endless=frozenset({"subscriptions/listen"}),
            ids=f"maitred-{secrets.token_hex(4)}-",
        )
        era = _Era(surface, channel, state, opening)

        def end() -> None:
            why = "the client closed the connection"
            if wire.can_write:
                channel.close_when_answered(why, within_s=_LAST_ANSWERS_S)
            else:
                channel.close(why)

        surface.activity.session_opened("stdio")
        try:
            await era.resume(opening)
            wire.attach(channel.feed, end)
            await channel.run(era.on_request, era.on_notify)
        finally:
            surface.activity.session_closed("stdio")
            await aclose_shielded(era.connection)
            if opening.guest:
                surface.viewers.left(opening.guest)


class _Era:
    """Answers in the protocol era that the client's first request opens; refuses the other era."""

    def __init__(self, surface: McpSurface, channel: LineChannel, state: Any, opening: Opening) -> None:
        self._surface = surface
        self._channel = channel
        self._state = state
        self._guest = opening.guest
        self._modern: bool | None = True if opening.is_stateless else None
        self.connection = Connection.for_loop(channel)
        self.connection.state[CLIENT] = _ONE_CLIENT
        if opening.guest is not None:
            surface.viewers.admit(self.connection, opening.guest)
        self._handshake = HandshakeDispatch(surface, self.connection, state)
        outbound = NotifyOnlyOutbound(channel)
        self._stateless = StatelessDispatch(surface, state, client=_ONE_CLIENT, outbound=outbound)

    async def resume(self, opening: Opening) -> None:
        """Bring the SDK to where the client is after a handshake that was answered without it."""
        if opening.handshake is None or opening.viewer is None:
            return
        self._modern = False
        self._surface.viewers.adopt(self.connection, opening.viewer)
        ask, notify = self._channel.send_raw_request, self._channel.notify
        context = Inbound(notify, ask, 0, opening.handshake)
        await self._handshake.on_request(context, "initialize", opening.handshake, self._guest)
        if opening.is_initialized:
            context = Inbound(notify, ask, None, None)
            await self._handshake.on_notify(context, "notifications/initialized", None)

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
        return await self._handshake.on_request(context, method, params, self._guest)

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
        return await self._stateless.on_request(context, method, params, route, self._guest)

    async def on_notify(self, context: Any, method: str, params: Mapping[str, Any] | None) -> None:
        if not self._modern:
            await self._handshake.on_notify(context, method, params)
            return
        connection = self._stateless.connection(LATEST_MODERN_VERSION, None, None, self._guest)
        try:
            await ServerRunner(self._surface.server, connection, self._state).on_notify(
                context, method, params
            )
        finally:
            await aclose_shielded(connection)


def _has_envelope(params: Mapping[str, Any] | None) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta


def _requested(params: Mapping[str, Any] | None) -> dict[str, str]:
    version = (params or {}).get("protocolVersion")
    return {"requested": version} if isinstance(version, str) else {}
