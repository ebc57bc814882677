"""Pages that are encoded once and sent many times, each with an ETag.

`CachedApp` is in front of the application and sends a cached page without routing. `Pages.answer` caches a
route's answer until the gateway's version changes, only for callers with the same grant. The ETag is a hash
of the bytes, so that a client need not fetch a page that a new generation left unchanged.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.gateway import Gateway
from maitred.model.access import Grant
from maitred.surfaces.encoding import encode
from maitred.surfaces.http.auth import viewer_in

_MAX_BYTES: Final = 32 * 1024 * 1024
_MAX_PAGES: Final = 20_000
_CACHE_CONTROL: Final = (b"cache-control", b"private, max-age=0, must-revalidate")
_SERVERS: Final = "maitred://server"

_Key = tuple[Grant, str, bytes]
_Header = tuple[bytes, bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class _EncodedPage:
    """An answer ready to be sent. `at` is the state number of the servers that it shows, else `None`."""

    body: bytes
    etag: bytes
    headers: list[_Header]
    headers_unchanged: list[_Header]
    route: Any
    at: int | None

    async def send(self, scope: Scope, send: Send) -> None:
        """Send the page, or status 304 if the client has it already."""
        for name, value in scope["headers"]:
            if name == b"if-none-match" and (self.etag in value or value.strip() == b"*"):
                headers, status, body = self.headers_unchanged, 304, b""
                break
        else:
            headers, status, body = self.headers, 200, self.body
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _path_of(route: Any) -> str:
    return str(getattr(route, "path", ""))


def _key(scope: Scope) -> _Key:
    return viewer_in(scope).grant, scope["path"], scope["query_string"]


class _PageResponse(Response):
    """A page as a route returns it."""

    def __init__(self, page: _EncodedPage) -> None:
        super().__init__()
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._page.send(scope, send)


class CachedApp:
    """Answers with cached pages, and passes all other requests on to an application."""

    def __init__(self, app: ASGIApp, pages: "Pages") -> None:
        self._app = app
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from the cache, or pass the request on."""
        if not await self._pages.send(scope, send):
            await self._app(scope, receive, send)


class Pages:
    """Pages as they were sent, by path and query; bounded in number and bytes.

    `on_use` is called with the path of a route, and `hit` if its page was there, else `miss`.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        max_bytes: int = _MAX_BYTES,
        max_pages: int = _MAX_PAGES,
        on_use: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self._gateway = gateway
        self._on_use = on_use
        self._max_bytes = max_bytes
        self._max_pages = max_pages
        # no LRUCache: there are two bounds, and a map in C is quicker where a page is sent in microseconds
        self._kept: OrderedDict[_Key, _EncodedPage] = OrderedDict()
        self._bytes = 0
        self._version: Hashable = None
        self._snapshot: object = None
        self._settings: object = None
        self._servers = 0
        gateway.listen(lists=lambda: None, resource=self._changed, visibility=self._on_visibility)

    def _changed(self, uri: str, _: object = None) -> None:
        if uri.startswith(_SERVERS):
            self._servers += 1

    def _on_visibility(self) -> None:
        """Forget pages that show which tools make sense now, if there are visibility rules."""
        if self._gateway.has_visibility_rules:
            self._forget()

    def _forget(self) -> None:
        self._kept.clear()
        self._bytes = 0

    async def send(self, scope: Scope, send: Send) -> bool:
        """Answer a GET from the cache; returns whether it could."""
        if scope["type"] == "http" and scope["method"] == "GET":
            self._follow()
            key = _key(scope)
            page = self._kept.get(key)
            if page is not None and page.at in (None, self._servers):
                self._kept.move_to_end(key)
                scope["route"] = page.route
                self._on_use(_path_of(page.route), "hit")
                await page.send(scope, send)
                return True
        return False

    def answer(
        self, request: Request, make: Callable[[], Any], *, keep: bool = True, of_servers: bool = False
    ) -> Response:
        """Encode the value of `make`; with `keep`, cache it for this path and query.

        An answer `of_servers` is cached only until one of them starts, stops, fails or is listed again.
        """
        scope = request.scope
        self._follow()
        at = self._servers if of_servers else None
        body = encode(make())
        etag = b'"%s"' % hashlib.blake2b(body, digest_size=16).hexdigest().encode()
        unchanged = [(b"etag", etag), _CACHE_CONTROL]
        page = _EncodedPage(
            body=body,
            etag=etag,
            headers=[
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                *unchanged,
            ],
            headers_unchanged=unchanged,
            route=scope.get("route"),
            at=at,
        )
        if keep:
            self._keep(_key(scope), page)
            self._on_use(_path_of(page.route), "miss")
        return _PageResponse(page)

    def _keep(self, key: _Key, page: _EncodedPage) -> None:
        if (before := self._kept.pop(key, None)) is not None:
            self._bytes -= len(before.body)
        self._kept[key] = page
        self._bytes += len(page.body)
        while self._bytes > self._max_bytes or len(self._kept) > self._max_pages:
            self._bytes -= len(self._kept.popitem(last=False)[1].body)

    def _follow(self) -> None:
        """Forget all pages when the menu may have changed."""
        gateway = self._gateway
        version, snapshot, settings = gateway.pages_version, gateway.snapshot, gateway.settings
        if version == self._version and snapshot is self._snapshot and settings is self._settings:
            return
        self._version, self._snapshot, self._settings = version, snapshot, settings
        self._forget()
