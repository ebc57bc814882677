"""Serve one client over this process's standard streams.

The SDK reads and writes them through threads and relays each message through four tasks. Here they are pipes
of the event loop, and `tools/call`, on which the gateway's speed hangs, goes straight to the surface; all
else is the SDK's. Where standard streams are not pipes (a terminal, a file) the SDK's own way is used. While
serving, file descriptor 1 points at standard error, so that nothing that prints can break the protocol.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.runner import ServerRunner, aclose_shielded, serve_one
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp_types import (
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from maitred.channel import Inbound, LineChannel
from maitred.surfaces.mcp.server import McpSurface

_MAX_MESSAGE_BYTES = 64 * 1024 * 1024


async def serve_stdio(surface: McpSurface) -> None:
    """Serve until the client closes standard input."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(surface.announce)
        if _are_pipes():
            await _serve_pipes(surface)
        else:
            async with stdio_server() as (read, write):
                await surface.server.run(read, write, surface.server.create_initialization_options())
        tasks.cancel_scope.cancel()


def _are_pipes() -> bool:
    kinds = [os.fstat(stream).st_mode for stream in (0, 1)]
    return sys.platform != "win32" and all(stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) for kind in kinds)


async def _serve_pipes(surface: McpSurface) -> None:
    async with _pipes() as (wire, writer), surface.server.lifespan(surface.server) as state:

        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        channel = LineChannel(
            write, max_message_bytes=_MAX_MESSAGE_BYTES, trusted=True, inline=frozenset({"initialize"})
        )
        wire.attach(channel.feed, lambda: channel.close("the client closed the connection"))
        era = _Era(surface, channel, state)
        try:
            await channel.run(era.on_request, era.on_notify)
        finally:
            await aclose_shielded(era.connection)


class _Era:
    """Answers in the protocol era that the client's first request opens; the other is refused from there."""

    def __init__(self, surface: McpSurface, channel: LineChannel, state: Any) -> None:
        self._surface = surface
        self._state = state
        self._modern: bool | None = None
        self._outbound = NotifyOnlyOutbound(channel)
        self.connection = Connection.for_loop(channel)
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
            viewer = self._surface.viewers.behind(self.connection)
            return await self._surface.call_tool(params or {}, version, context.progress, viewer)
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
            version, viewer = route.protocol_version, self._surface.viewers.named(_name(route.client_info))
            return await self._surface.call_tool(params or {}, version, context.progress, viewer)
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=self._outbound
        )
        return await serve_one(
            self._surface.server, context, method, params, connection=connection, lifespan_state=self._state
        )

    async def on_notify(self, context: Any, method: str, params: Mapping[str, Any] | None) -> None:
        if not self._modern:
            await self._runner.on_notify(context, method, params)
            return
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None, outbound=self._outbound)
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
    """What a client of the stateless era calls itself, if it says so."""
    name = client_info.get("name") if isinstance(client_info, Mapping) else None
    return name if isinstance(name, str) else ""


def _requested(params: Mapping[str, Any] | None) -> dict[str, str]:
    version = (params or {}).get("protocolVersion")
    return {"requested": version} if isinstance(version, str) else {}


class _Wire(asyncio.Protocol):
    """Hands what arrives on a pipe to whoever is attached; what came before that is kept."""

    def __init__(self) -> None:
        self._feed: Callable[[bytes], None] | None = None
        self._end: Callable[[], None] | None = None
        self._early: list[bytes] = []
        self._ended = False

    def attach(self, feed: Callable[[bytes], None], end: Callable[[], None]) -> None:
        self._feed, self._end = feed, end
        for data in self._early:
            feed(data)
        if self._ended:
            end()

    def data_received(self, data: bytes) -> None:
        if self._feed is None:
            self._early.append(data)
        else:
            self._feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        if self._end is not None:
            self._end()


@asynccontextmanager
async def _pipes() -> AsyncIterator[tuple[_Wire, asyncio.StreamWriter]]:
    """Take over the standard streams, leaving harmless ones in their place."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    source, wire = await loop.connect_read_pipe(_Wire, os.fdopen(wire_in, "rb"))
    sink, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(wire_out, "wb")
    )
    writer = asyncio.StreamWriter(sink, protocol, None, loop)
    try:
        yield wire, writer
    finally:
        source.close()
        sink.close()
