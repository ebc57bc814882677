"""Serve one client over this process's standard streams.

They are pipes of the event loop; a thread copies between a pipe and a terminal or a file. While it serves,
file descriptor 1 points at standard error, so that no printed text can break the protocol. After the end of
standard input, the requests that it had are still answered.
"""

import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from maitred.background import Background
from maitred.surfaces.mcp.lazy_surface import LazySurface
from maitred.surfaces.mcp.wire import Wire

_CHUNK: Final = 1 << 18
_FLUSH_S: Final = 10.0


async def serve_stdio(surface: LazySurface) -> None:
    """Serve until the client closes standard input."""
    async with Background() as background:
        background.start(surface.announce)
        if sys.platform != "win32":
            async with _pipes() as wire:
                await surface.serve(wire)
        else:
            server = (await surface.load()).server
            from mcp.server.stdio import stdio_server  # noqa: PLC0415  # loaded by now

            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())


class _Input(asyncio.Protocol):
    """The pipe that a wire reads from; its end is not the end of the wire, which may still write."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def data_received(self, data: bytes) -> None:
        self._wire.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wire.end_input()


@asynccontextmanager
async def _pipes() -> AsyncIterator[Wire]:
    """Take over the standard streams and leave harmless ones in their place."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    copying = None
    if not _is_pipe(wire_in):
        end, front = os.pipe()
        _copy(wire_in, front)
        wire_in = end
    if not _is_pipe(wire_out):
        end, front = os.pipe()
        copying = _copy(end, wire_out)
        wire_out = front
    loop, wire = asyncio.get_running_loop(), Wire()
    sink, _ = await loop.connect_write_pipe(lambda: wire, os.fdopen(wire_out, "wb"))
    source, _ = await loop.connect_read_pipe(lambda: _Input(wire), os.fdopen(wire_in, "rb"))
    try:
        yield wire
        await wire.flush(_FLUSH_S)
    finally:
        source.close()
        sink.close()
        if copying is not None:
            await asyncio.sleep(0)  # the transport closes the pipe in its own turn
            copying.join(_FLUSH_S)


def _is_pipe(descriptor: int) -> bool:
    kind = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


def _copy(source: int, sink: int) -> threading.Thread:
    """Copy bytes from one file descriptor to another in a thread, to the end, and close both."""

    def copy() -> None:
        with suppress(OSError), os.fdopen(source, "rb", 0) as read, os.fdopen(sink, "wb", 0) as write:
            while data := read.read(_CHUNK):
                left = memoryview(data)
                while left:
                    left = left[write.write(left) :]

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread
