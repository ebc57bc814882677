"""MCP over streamable HTTP as an application of its own, at `/mcp`.

It checks neither Host nor Origin nor a token: whoever serves it puts a guard in front, which then holds for
all that is served beside it too.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from maitred.surfaces.mcp.server import McpSurface


def mcp_app(surface: McpSurface) -> Starlette:
    """The ASGI application; its lifespan runs the SDK's session manager and the change notices."""
    app = surface.server.streamable_http_app(
        streamable_http_path="/mcp",
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    original = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[object]:
        async with original(application) as state, anyio.create_task_group() as tasks:
            tasks.start_soon(surface.announce)
            yield state
            tasks.cancel_scope.cancel()

    app.router.lifespan_context = lifespan  # type: ignore[assignment]  # narrower state than Starlette's
    return app
