"""Serve one client over this process's standard streams.

The SDK reads and writes them through threads and relays each message through four tasks. This module makes
them pipes of the event loop; where they are not pipes (a terminal, a file), it uses the SDK's way. While it
serves, file descriptor 1 points at standard error, so that no printed text can break the protocol.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from maitred.background import Background
from maitred.surfaces.mcp.lazy_surface import LazySurface
from maitred.surfaces.mcp.wire import Wire


async def serve_stdio(surface: LazySurface) -> None:
    """Serve until the client closes standard input."""
    async with Background() as background:
        background.start(surface.announce)
        if _are_pipes():
            async with _pipes() as wire:
                await surface.serve(wire)
        else:
            server = (await surface.load()).server
            from mcp.server.stdio import stdio_server  # noqa: PLC0415  # loaded by now

            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())


def _are_pipes() -> bool:
    kinds = [os.fstat(stream).st_mode for stream in (0, 1)]
    return sys.platform != "win32" and all(stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) for kind in kinds)


@asynccontextmanager
async def _pipes() -> AsyncIterator[Wire]:
    """Take over the standard streams and leave harmless ones in their place."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    loop, wire = asyncio.get_running_loop(), Wire()
    source, _ = await loop.connect_read_pipe(lambda: wire, os.fdopen(wire_in, "rb"))
    sink, _ = await loop.connect_write_pipe(lambda: wire, os.fdopen(wire_out, "wb"))
    try:
        yield wire
    finally:
        source.close()
        sink.close()
