"""A line to a listening program that a test can cut, as a network does: both sides lose the connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.abc


class CutLine:
    """Forwards bytes from an address of its own; `connections` counts those that clients have opened."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open: set[anyio.abc.SocketStream] = set()
        self.url = ""
        self.connections = 0

    async def cut(self) -> None:
        """Close every connection at both of its ends."""
        for stream in list(self._open):
            await stream.aclose()

    async def _join(self, near: anyio.abc.SocketStream) -> None:
        self.connections += 1
        async with near, await anyio.connect_tcp(*self._target) as far, anyio.create_task_group() as tasks:
            self._open |= {near, far}
            tasks.start_soon(self._copy, near, far, tasks.cancel_scope)
            tasks.start_soon(self._copy, far, near, tasks.cancel_scope)
        self._open -= {near, far}

    async def _copy(
        self, source: anyio.abc.SocketStream, target: anyio.abc.SocketStream, scope: anyio.CancelScope
    ) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                await target.send(await source.receive())
        scope.cancel()


@asynccontextmanager
async def cut_line(host: str, port: int) -> AsyncIterator[CutLine]:
    """Listen on a free port of loopback, and forward to `host` and `port`."""
    line = CutLine(host, port)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    line.url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, line._join)
        try:
            yield line
        finally:
            tasks.cancel_scope.cancel()
