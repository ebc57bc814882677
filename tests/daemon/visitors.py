"""A gateway in this process with a socket such as the one in the background has, and who comes to it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.daemon.gateways import LEGACY, MODERN, Json, request

from maitred.gateway import Gateway
from maitred.meta_tools.menu import safe_tools
from maitred.surfaces.daemon.handshake import encode_line, values
from maitred.surfaces.daemon.serve import answering
from maitred.surfaces.daemon.server import SocketServer
from maitred.surfaces.daemon.sockets import EndpointLock, address_of
from maitred.surfaces.mcp.lazy_surface import LazySurface

_MOST = 64 * 1024 * 1024


class Visitor:
    """One connection to a gateway's socket."""

    def __init__(self, stream: anyio.abc.SocketStream, seen: Mapping[str, str]) -> None:
        self.stream = stream
        self._seen = seen
        self._lines = BufferedByteReceiveStream(stream)
        self._next = 0
        self.notices: list[str] = []

    async def say(self, message: Json) -> None:
        await self.stream.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def hear(self) -> Json:
        message: Json = json.loads(await self._lines.receive_until(b"\n", _MOST))
        return message

    async def hello(self, wants: str = "serve", **more: Any) -> Json:
        await self.stream.send(encode_line({"maitred": wants, "values": self._seen, **more}))
        return await self.hear()

    async def ask(self, method: str, **params: Any) -> Json:
        """The answer to a request; what else comes before is noted."""
        self._next += 1
        await self.say(request(self._next, method, **params))
        while (message := await self.hear()).get("id") != self._next:
            self.notices.append(message["method"])
        return message

    async def shake_hands(self) -> None:
        await self.ask("initialize", **LEGACY)
        await self.say({"method": "notifications/initialized"})
        await self.ask("ping")

    async def tools(self, **more: Any) -> set[str]:
        listed = await self.ask("tools/list", **more)
        return {tool["name"] for tool in listed["result"]["tools"]}

    async def is_shown_out(self) -> bool:
        """Whether the gateway closes without another word."""
        try:
            return not await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return True


class Place:
    """Where visitors come."""

    def __init__(self, gateway: Gateway, held: EndpointLock, door: SocketServer, stop: anyio.Event) -> None:
        self.gateway = gateway
        self.held = held
        self.door = door
        self.stop = stop
        self.values = values()

    @asynccontextmanager
    async def visitor(self) -> AsyncIterator[Visitor]:
        async with await anyio.connect_unix(self.held.seat.socket) as stream:
            with anyio.fail_after(120):
                yield Visitor(stream, self.values)

    @asynccontextmanager
    async def client(self, **hello: Any) -> AsyncIterator[Visitor]:
        """A visitor who was welcomed."""
        async with self.visitor() as visitor:
            assert await visitor.hello(**hello) == {"maitred": "welcome", "safe_tools": safe_tools()}
            yield visitor


@asynccontextmanager
async def place_of(gateway: Gateway) -> AsyncIterator[Place]:
    """Open the socket of a gateway."""
    held, stop = EndpointLock(address_of(gateway.settings.source), "daemon"), anyio.Event()
    surface = LazySurface(gateway)
    try:
        async with (
            answering(held, gateway, "daemon", surface, stop) as door,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(surface.announce)
            yield Place(gateway, held, door, stop)
            tasks.cancel_scope.cancel()
    finally:
        held.leave()


def stateless(**params: Any) -> Mapping[str, Any]:
    """The parameters of a request of the stateless era."""
    return {**params, "_meta": MODERN}
