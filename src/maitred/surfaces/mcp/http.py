"""MCP over streamable HTTP as an ASGI application of its own, at `/mcp`.

It checks neither Host nor Origin nor a token. The module that serves it puts a guard in front, which also
protects the other applications beside it and writes the viewer into the scope. The SDK gets the principal, so
that a connection of the handshake era answers only the principal who opened it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.background import Background
from maitred.gateway.authorization import VIEWER
from maitred.model.access import Viewer
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
        async with original(application) as state, Background() as background:
            background.start(surface.announce)
            yield state

    app.router.lifespan_context = lifespan  # type: ignore[assignment]  # narrower state than Starlette's
    app.add_middleware(_Owned)
    return app


class _Owned:
    """Gives the SDK the principal of each request; the SDK compares it with the connection's owner."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        viewer = scope.get(VIEWER)
        if isinstance(viewer, Viewer):
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=viewer.principal, scopes=[]))
        await self._app(scope, receive, send)
