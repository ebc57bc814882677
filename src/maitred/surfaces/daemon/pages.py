"""The web interface of a gateway that clients reach by its socket: served on loopback once a person asks.

A gateway that serves HTTP has its pages there already; it says so by `serve_at`.
"""

from typing import TYPE_CHECKING

import anyio
import structlog

from maitred.background import Background
from maitred.config.settings import Http
from maitred.errors import DaemonError, MaitredError
from maitred.gateway import Gateway
from maitred.model.access import Grant

if TYPE_CHECKING:  # most gateways show no page
    from maitred.surfaces.web.mount import WebInterface

log = structlog.get_logger(__name__)

_START_S = 20.0


class PagesOnDemand:
    """Where the pages of a gateway are; `background` is set while the gateway serves."""

    def __init__(self, gateway: Gateway, stop: anyio.Event) -> None:
        self._gateway = gateway
        self._stop = stop
        self._turn = anyio.Lock()
        self._web: WebInterface | None = None
        self._address = ""
        self.background: Background | None = None

    def serve_at(self, web: "WebInterface", address: str) -> None:
        """The pages are served already, at an address such as `http://127.0.0.1:8420`."""
        here = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        self._web, self._address = web, here

    async def entry(self, grant: Grant, token: str) -> str:
        """The address by which the bearer of a grant enters the pages; it is good once.

        Raises:
            DaemonError: No address can be opened on loopback.
        """
        async with self._turn:
            if not self._address:
                await self._open()
        if self._web is None:
            raise DaemonError("the pages of this gateway are not served yet; type `maitred ui` again")
        return self._address + self._web.entry_path(grant, token)

    def unused_s(self) -> float:
        """For how many seconds no person has used the pages."""
        return float("inf") if self._web is None else self._web.unused_s()

    async def _open(self) -> None:
        from maitred.surfaces.http.auth import Guard  # noqa: PLC0415  # most gateways show no page
        from maitred.surfaces.http.serve import serve_http  # noqa: PLC0415
        from maitred.surfaces.web.mount import WebInterface  # noqa: PLC0415

        if self.background is None:
            return
        settings, web = Http(port=0), WebInterface(self._gateway, self._gateway.grant_of)
        app = Guard(web, settings, self._gateway.grant_of)
        is_ready = anyio.Event()

        def ready(address: str) -> None:
            self.serve_at(web, address)
            is_ready.set()

        async def serve() -> None:
            try:
                await serve_http(app, settings, stop=self._stop, ready=ready, ending=web.close)
            except MaitredError as error:  # the gateway goes on without pages
                log.warning("the pages cannot be served", reason=str(error))
            finally:
                self._address, self._web = "", None
                is_ready.set()

        self.background.start(serve)
        with anyio.move_on_after(_START_S):
            await is_ready.wait()
