"""Run an ASGI application under uvicorn until `stop` is set."""

import math
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maitred.background import Background
from maitred.config.sections import check_address
from maitred.config.settings import Http
from maitred.errors import ConfigError
from maitred.surfaces.http.connections import BoundedProtocol
from maitred.surfaces.http.errors import Refusal

_LEAST_S: Final = 0.5
"""For requests under way, even if all of the time went by before."""
_LOOK_S: Final = 0.1
_KEEP_ALIVE_S: Final = 30
"""Clients reuse an idle connection for 4 to 5 seconds, and a request on one that closes just then is lost."""
_ENDING: Final = (
    "maitred ends, and this request was not done by then; a call that had left for its server may have been"
    " made, one that waited for a person was not"
)


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


class _Answering:
    """Answers requests that are still under way when the time to end is over; uvicorn would answer 500."""

    def __init__(self, app: ASGIApp, stop: anyio.Event) -> None:
        self._app = app
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except anyio.get_cancelled_exc_class():
            if not self._stop.is_set() or has_begun or scope["type"] != "http":
                raise
            await Refusal(503, "ending", _ENDING)(scope, receive, send)


async def _drain(settings: Http, is_idle: Callable[[], bool]) -> float:
    """Go on for a while; returns how many seconds are left for requests under way."""
    stopped_at = anyio.current_time()
    with anyio.move_on_after(settings.drain_s):
        await anyio.sleep(settings.unready_s)
        while not is_idle():  # noqa: ASYNC110  # parked calls end in many ways
            await anyio.sleep(_LOOK_S)
    return max(_LEAST_S, settings.drain_s - (anyio.current_time() - stopped_at))


def _configured(app: ASGIApp, settings: Http) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=math.ceil(settings.drain_s),
        timeout_keep_alive=_KEEP_ALIVE_S,
        ws="none",
        http=BoundedProtocol,
        proxy_headers=False,  # nothing here depends on what a proxy says of the client
    )


async def serve_http(
    app: ASGIApp,
    settings: Http,
    *,
    stop: anyio.Event,
    ready: Callable[[str], None],
    draining: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
    is_idle: Callable[[], bool] = lambda: True,
    held: socket.socket | None = None,
) -> None:
    """Serve until `stop` is set; `ready` is called with the address once the server accepts requests.

    Then `draining` is called, and it serves for `unready_s` more, so that a load balancer hears of it, and
    until `is_idle`, so that what waits for further requests gets them. After `ending`, which ends streams
    that would stay open, it takes no connection more, and waits for requests under way until `drain_s` have
    gone by in all. `held` is a socket that listens already, on which it serves instead of one of its own.

    Raises:
        ConfigError: The address is refused, or cannot be bound.
    """
    check_address(settings)
    config = _configured(_Answering(app, stop), settings)
    server = _Server(config, ready)

    async def end() -> None:
        await stop.wait()
        draining()
        left_s = await _drain(settings, is_idle)
        config.timeout_graceful_shutdown = left_s  # type: ignore[assignment]
        ending()
        server.should_exit = True

    async with Background() as background:
        background.start(end)
        try:
            await server.serve([held] if held else None)
        except SystemExit as error:  # uvicorn raises it when it cannot bind
            where = f"{settings.host}:{settings.port}"
            raise ConfigError("serve", [f"cannot listen on {where}; is something else there?"]) from error
