"""MCP over streamable HTTP as an ASGI application of its own, at `/mcp`.

It checks neither Host nor Origin nor a token. The module that serves it puts a guard in front, which also
protects the other applications beside it and writes the viewer into the scope. The SDK gets the principal, so
that a connection of the handshake era answers only the principal who opened it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.background import Background
from maitred.config.settings import Http
from maitred.gateway.authorization import VIEWER
from maitred.model.access import Viewer
from maitred.surfaces.mcp.identity import HTTP_SCOPE
from maitred.surfaces.mcp.server import McpSurface
from maitred.surfaces.mcp.sessions import Sessions


def mcp_app(surface: McpSurface, settings: Http) -> Starlette:
    """The ASGI application; its lifespan runs the sessions and the change notices."""
    sessions = Sessions(surface.server, settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sessions.run(), Background() as background:
            background.start(surface.announce)
            yield

    app = Starlette(routes=[Route("/mcp", endpoint=sessions)], lifespan=lifespan)
    app.add_middleware(_Owned)
    return app


class _Owned:
    """Gives the SDK the principal of each request, whom it compares with the owner of the connection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        viewer = scope.get(VIEWER)
        if isinstance(viewer, Viewer):
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=viewer.principal, scopes=[]))
        HTTP_SCOPE.set(scope)
        await self._app(scope, receive, send)
