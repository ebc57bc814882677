"""Serve many clients over streamable HTTP at `/mcp`.

Host and Origin are checked against DNS rebinding. On any address but loopback a token is required, sent as
`Authorization: Bearer`; on loopback it is optional.
"""

import hmac
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.config.http import check_address, is_any, is_loopback
from maitred.config.settings import Http
from maitred.errors import ConfigError
from maitred.surfaces.mcp.server import McpSurface

_GRACE_S = 5


class RequireToken:
    """Refuses requests that do not carry the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or pass the request on."""
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode()
            if not hmac.compare_digest(given, self._expected):
                refusal = JSONResponse(
                    {"error": "unauthorized", "message": "send the token as `Authorization: Bearer TOKEN`"},
                    status_code=401,
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def security(settings: Http) -> TransportSecuritySettings:
    """Which Host and Origin headers are accepted: loopback's, the configured ones, and the bound address."""
    hosts = ["127.0.0.1:*", "localhost:*", "[::1]:*", "127.0.0.1", "localhost", "[::1]"]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    if not is_loopback(settings.host) and not is_any(settings.host):
        hosts += [f"{settings.host}:*", settings.host]
    anywhere = is_any(settings.host) and not settings.allowed_hosts
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=not anywhere,
        allowed_hosts=[*hosts, *settings.allowed_hosts],
        allowed_origins=[*origins, *settings.allowed_origins],
    )


def app(surface: McpSurface, settings: Http) -> ASGIApp:
    """The ASGI application; its lifespan runs the SDK's session manager and the change notices."""
    inner = surface.server.streamable_http_app(
        streamable_http_path="/mcp", transport_security=security(settings), host=settings.host
    )
    _announce_within_lifespan(inner, surface)
    return RequireToken(inner, settings.token) if settings.token else inner


def _announce_within_lifespan(inner: Starlette, surface: McpSurface) -> None:
    original = inner.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[object]:
        async with original(application) as state, anyio.create_task_group() as tasks:
            tasks.start_soon(surface.announce)
            yield state
            tasks.cancel_scope.cancel()

    inner.router.lifespan_context = lifespan  # type: ignore[assignment]  # narrower state than Starlette's


class _Server(uvicorn.Server):
    """Says when it is ready; leaves signals to whoever runs it, so that servers are ended in good order."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in getattr(self, "servers", []):
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(
    surface: McpSurface, settings: Http, *, stop: anyio.Event, ready: Callable[[str], None]
) -> None:
    """Serve until `stop` is set; `ready` is called with the URL once requests are taken.

    Raises:
        ConfigError: The address is refused, or cannot be bound.
    """
    check_address(settings)
    config = uvicorn.Config(
        app(surface, settings),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=_GRACE_S,
        ws="none",
    )
    server = _Server(config, ready)

    async def end() -> None:
        await stop.wait()
        surface.close()
        server.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end)
        try:
            await server.serve()
        except SystemExit as error:  # uvicorn's way to say that it cannot bind
            where = f"{settings.host}:{settings.port}"
            raise ConfigError("serve", [f"cannot listen on {where}; is something else there?"]) from error
        tasks.cancel_scope.cancel()
