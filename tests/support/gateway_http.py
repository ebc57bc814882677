"""A gateway of the test's own process as its clients reach it: at an address, or without a transport."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.lowlevel import Server

from maitred.config.settings import Http
from maitred.gateway import Gateway
from maitred.surfaces.http.app import application
from maitred.surfaces.http.serve import serve_http
from maitred.surfaces.mcp.http import mcp_app
from maitred.surfaces.mcp.server import McpSurface


@asynccontextmanager
async def in_process(gateway: Gateway) -> AsyncIterator[Server[Any]]:
    """The gateway as a server for a client of this process, with its notices."""
    surface = McpSurface(gateway)
    async with anyio.create_task_group() as tasks:
        await tasks.start(surface.announce)
        yield surface.server
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def over_http(gateway: Gateway) -> AsyncIterator[str]:
    """The URL of the gateway's MCP endpoint."""
    surface, http = McpSurface(gateway), Http(port=0)
    app = application(gateway, http, mcp_app(surface, http))
    addresses, ready, stop = list[str](), anyio.Event(), anyio.Event()

    def listens(address: str) -> None:
        addresses.append(address)
        ready.set()

    async def serve() -> None:
        await serve_http(app, http, stop=stop, ready=listens, ending=surface.close)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await ready.wait()
        try:
            yield f"{addresses[0]}/mcp"
        finally:
            stop.set()
