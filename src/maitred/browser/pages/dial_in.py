"""Lets pages dial in: a page of a developer's own app connects to the gateway, on this machine alone.

A page is known by its handshake, and has one socket for each tab. Its tools are those of any page from then
on: `OpenPages` joins them, and admission decides about them.
"""

import logging
import os
import secrets
import time
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
import structlog
from cachetools import LRUCache
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from maitred.browser.pages.address import remove_address, write_address
from maitred.browser.pages.dialed_page import REPLACED, DialedPage
from maitred.browser.pages.handshake import PROTOCOL, Dialer, DialInRefusedError, read_handshake
from maitred.browser.pages.links import LinkKey
from maitred.browser.pages.open_pages import OpenPages
from maitred.browser.pages.reports import MOST_MESSAGE
from maitred.token_bucket import TokenBucket
from maitred.wording import count_of

log = structlog.get_logger(__name__)

HOST: Final = "127.0.0.1"
MOST_PAGES: Final = 64
MOST_OF_ORIGIN: Final = 16
_HEARTBEAT_S: Final = 20.0
_HANDSHAKE_S: Final = 3.0
_CLOSE_S: Final = 2.0
_AGAIN_S: Final = 2.0
_MOST_FRAMES: Final = 4
_DIALS_S: Final = 2.0
_DIALS_AT_ONCE: Final = 32
_MOST_ORIGINS: Final = 64
_REFUSALS_S: Final = 0.5
_REFUSALS_AT_ONCE: Final = 20
_GOING_AWAY: Final = 1001
_PORT: Final = "port"
_REFUSED: Final = "refused"
_QUIET: Final = logging.getLogger("maitred.dial_in")
"""For the library, which would log each refused handshake with a traceback."""
_QUIET.setLevel(logging.CRITICAL)


class DialIn:
    """Takes the connections of pages while its context is open.

    If the port is in use, a note of the pages says so, and `keep_trying` waits until it is free.
    """

    def __init__(self, pages: OpenPages, port: int, file: Path, *, heartbeat_s: float = _HEARTBEAT_S) -> None:
        self._pages = pages
        self._port = port
        self._file = file
        self._heartbeat_s = heartbeat_s
        self._token = secrets.token_urlsafe(32)
        self._server: Server | None = None
        self._open: dict[tuple[str, str], DialedPage] = {}
        self._dials: LRUCache[str, TokenBucket] = LRUCache(_MOST_ORIGINS)
        self._refusals = TokenBucket(per_s=_REFUSALS_S, size=_REFUSALS_AT_ONCE, now=time.monotonic())
        self._refused = 0
        self._numbers = count(1)

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is None:
            return
        remove_address(self._file, token=self._token)
        for page in self._open.values():
            page.close(_GOING_AWAY, "the gateway does not listen to it any more")
        self._server.close()
        with anyio.CancelScope(shield=True):
            await self._server.wait_closed()

    async def keep_trying(self) -> None:
        """Listen as soon as that is possible."""
        while self._server is None:
            await anyio.sleep(_AGAIN_S)
            await self._listen()

    async def _listen(self) -> None:
        """Begin to listen, or leave a note that says why not."""
        try:
            server = await serve(
                self._talk,
                HOST,
                self._port,
                process_request=self._check,
                subprotocols=[Subprotocol(PROTOCOL)],
                compression=None,
                server_header=None,
                open_timeout=_HANDSHAKE_S,
                ping_interval=self._heartbeat_s,
                ping_timeout=self._heartbeat_s,
                close_timeout=_CLOSE_S,
                max_size=MOST_MESSAGE,
                max_queue=_MOST_FRAMES,
                logger=_QUIET,
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            self._say_why_not(f" at port {self._port}, which cannot be used: {why}")
            return
        self._server = server
        self._port = server.sockets[0].getsockname()[1]
        try:
            write_address(self._file, url=f"ws://{HOST}:{self._port}", token=self._token)
        except OSError as error:
            self._say_why_not(f": {self._file} cannot be written: {error.strerror}")
        else:
            self._pages.remark(_PORT, "")

    def _say_why_not(self, why: str) -> None:
        self._pages.remark(_PORT, f"no page can dial in{why}")

    # --- handshakes ---------------------------------------------------------------------------------------

    def _check(self, socket: ServerConnection, request: Request) -> Response | None:
        """Refuse what may not dial in, before its connection is one."""
        try:
            self._admit(self._dialer(request))
        except DialInRefusedError as refusal:
            self._refused += 1
            if _take(self._refusals):
                log.warning("a page may not dial in", reason=refusal.reason)
                often = f"dialing in was refused {count_of(self._refused, 'time')}"
                self._pages.remark(_REFUSED, f"{often}, the last time since {refusal.reason}")
            return socket.respond(refusal.status, f"{refusal.reason}\n")
        return None

    def _dialer(self, request: Request) -> Dialer:
        return read_handshake(request, port=self._port, token=self._token, rules=self._pages.rules)

    def _admit(self, dialer: Dialer) -> None:
        """Keep the bounds on connections.

        Raises:
            DialInRefusedError: There are too many, or too many of this origin within a short time.
        """
        fresh = TokenBucket(per_s=_DIALS_S, size=_DIALS_AT_ONCE, now=time.monotonic())
        if not _take(self._dials.setdefault(dialer.origin, fresh)):
            raise DialInRefusedError(f"pages of {dialer.origin} dial in too often", status=429)
        others = [origin for origin, tab in self._open if (origin, tab) != (dialer.origin, dialer.tab)]
        if len(others) >= MOST_PAGES or others.count(dialer.origin) >= MOST_OF_ORIGIN:
            why = f"there may be {MOST_PAGES} pages, and {MOST_OF_ORIGIN} of {dialer.origin}"
            raise DialInRefusedError(why, status=503)

    # --- pages --------------------------------------------------------------------------------------------

    async def _talk(self, socket: ServerConnection) -> None:
        """Hold the connection of one page. A second one of its tab takes its place."""
        if socket.request is None:
            return
        dialer = self._dialer(socket.request)
        place = (dialer.origin, dialer.tab)
        if earlier := self._open.get(place):
            earlier.close(REPLACED, "its tab has dialed in again")
            self._pages.drop(earlier.key, earlier.gone)
        key = LinkKey("dial-in", " ".join(place), "", str(next(self._numbers)))
        page = self._open[place] = DialedPage(socket, key, dialer.origin)
        try:
            await page.run(self._pages)
        except Exception:  # the fault of one page must not end the others
            log.exception("a page that dialed in failed", origin=dialer.origin)
        finally:
            if self._open.get(place) is page:
                del self._open[place]
            self._pages.drop(key, page.gone)


def _take(bucket: TokenBucket) -> bool:
    """Whether there is a token, which is taken; what is refused costs nothing."""
    bucket.refill(now=time.monotonic())
    if bucket.left < 1:
        return False
    bucket.spend(1)
    return True
