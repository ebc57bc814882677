"""MCP over streamable HTTP as an ASGI application of its own, at `/mcp`.

It checks neither Host nor Origin nor a token. The module that serves it puts a guard in front, which also
protects the other applications beside it and writes the viewer into the scope. A session of the handshake era
answers only the principal who opened it. The address of a client may name a profile: `/mcp?profile=NAME`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.background import Background
from maitred.config.settings import Http
from maitred.errors import ProfileNotFoundError
from maitred.surfaces.mcp.http_request import HttpRefusalError, HttpRequest
from maitred.surfaces.mcp.pings import Pings
from maitred.surfaces.mcp.server import McpSurface
from maitred.surfaces.mcp.session_endpoint import SessionEndpoint
from maitred.surfaces.mcp.sessions import Sessions
from maitred.surfaces.mcp.shared_sessions import SharedSessions
from maitred.surfaces.mcp.stateless import StatelessEndpoint

_PATH: Final = "/mcp"
_PROFILE: Final = "profile"
_VERSION: Final = b"mcp-protocol-version"
_HANDSHAKE: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)


def mcp_app(surface: McpSurface, settings: Http) -> ASGIApp:
    """The ASGI application; its lifespan runs the sessions and the change notices."""
    return _McpApp(surface, settings)


class _McpApp:
    """Passes each request to the endpoint of its era."""

    def __init__(self, surface: McpSurface, settings: Http) -> None:
        self._surface = surface
        self._settings = settings
        self._endpoints: tuple[SessionEndpoint, StatelessEndpoint] | None = None
        self._rest = Starlette(lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of either era."""
        if self._endpoints is None or scope["type"] != "http" or scope["path"] != _PATH:
            await self._rest(scope, receive, send)
            return
        request = HttpRequest(scope, receive, send)
        try:
            request.check_size()
            self._choose_profile(request)
            version = request.headers.get(_VERSION)
            if version is None or version in _HANDSHAKE:
                await self._endpoints[0].serve(request)
            else:
                await self._endpoints[1].serve(request)
        except HttpRefusalError as refusal:
            await refusal.send(send)
        except ClientDisconnect:
            return

    def _choose_profile(self, request: HttpRequest) -> None:
        """Narrow the grant of the viewer to the profile in the address, if there is one.

        Raises:
            HttpRefusalError: There is no such profile, or the address has several.
        """
        names = parse_qs(request.scope.get("query_string", b"").decode("latin-1")).get(_PROFILE, [])
        if not names:
            return
        if len(names) > 1:
            raise HttpRefusalError(400, "The address has several profiles; leave all but one out")
        try:
            request.choose(self._surface.within_profile(request.viewer, names[0]))
        except ProfileNotFoundError as error:
            raise HttpRefusalError(400, str(error)) from None

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        server, pings = self._surface.server, Pings()
        async with server.lifespan(server) as state, Background() as background:
            stubs = self._surface.session_stubs
            sessions = (
                Sessions(self._surface, state, self._settings)
                if stubs is None
                else SharedSessions(self._surface, state, self._settings, stubs, background)
            )
            self._surface.on_close(sessions.end_streams)
            for task in (self._surface.announce, pings.run, sessions.run):
                background.start(task)
            self._endpoints = (
                SessionEndpoint(sessions, pings, background),
                StatelessEndpoint(self._surface, state, pings),
            )
            try:
                yield
            finally:
                self._endpoints = None
