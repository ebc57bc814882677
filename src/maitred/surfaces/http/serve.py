"""Run an ASGI application under uvicorn until `stop` is set."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import uvicorn
from starlette.types import ASGIApp

from maitred.background import Background
from maitred.config.sections import check_address
from maitred.config.settings import Http
from maitred.errors import ConfigError
from maitred.surfaces.http.connections import BoundedProtocol

_GRACE_S: Final = 5
_KEEP_ALIVE_S: Final = 30
"""Clients reuse an idle connection for 4 to 5 seconds, and a request on one that closes just then is lost."""


class _Server(uvicorn.Server):
    """Reports when it is ready; leaves signals to its caller, so that servers end in good order."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in getattr(self, "servers", []):
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(
    app: ASGIApp,
    settings: Http,
    *,
    stop: anyio.Event,
    ready: Callable[[str], None],
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve until `stop` is set; `ready` is called with the address once the server accepts requests.

    `ending` is called before connections are closed, to end streams that would keep them open.

    Raises:
        ConfigError: The address is refused, or cannot be bound.
    """
    check_address(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=_KEEP_ALIVE_S,
        ws="none",
        http=BoundedProtocol,
        proxy_headers=False,  # nothing here depends on what a proxy says of the client
    )
    server = _Server(config, ready)

    async def end() -> None:
        await stop.wait()
        ending()
        server.should_exit = True

    async with Background() as background:
        background.start(end)
        try:
            await server.serve()
        except SystemExit as error:  # uvicorn raises it when it cannot bind
            where = f"{settings.host}:{settings.port}"
            raise ConfigError("serve", [f"cannot listen on {where}; is something else there?"]) from error
