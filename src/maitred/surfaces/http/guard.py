"""Who may talk to a gateway that listens: the names under which it may be reached, and who asks.

A page in a browser can be made to ask for a foreign name that points at loopback (DNS rebinding), so Host and
Origin are checked for everything that is served, MCP and API alike. Who asks is found out here too, for
both, and travels in the scope of the request. That the process lives, whether it is ready and what the API
looks like may be asked by anybody under any name: probes know no token and call by address.
"""

from collections.abc import Iterable
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.config.http import is_any
from maitred.config.settings import Http
from maitred.gateway.access import VIEWER
from maitred.model.principals import Viewer
from maitred.surfaces.http.access import Authentication, GrantOf, Headers
from maitred.surfaces.http.errors import Refusal

OPEN: Final = frozenset({"/healthz", "/readyz", "/", "/docs"})
_ONCE: Final = frozenset({b"host", b"origin", b"authorization", b"content-type", b"content-length"})
_SENT_BY_PAGES: Final = frozenset(
    {b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data"}
)
_LONGEST_PORT: Final = 5
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Passes on what may pass, and answers the rest with 400, 401, 403, 415, 421 or 503.

    `grant_of` is what a token gives, besides that of the settings.
    """

    def __init__(self, app: ASGIApp, settings: Http, grant_of: GrantOf) -> None:
        self._app = app
        self._authentication = Authentication(settings, grant_of)
        hosts = [*_LOOPBACK, *(f"{host}:*" for host in _LOOPBACK)]
        origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
        if not is_any(settings.host):
            own = f"[{settings.host}]" if ":" in settings.host else settings.host
            hosts += [own, f"{own}:*"]
        self._anywhere = is_any(settings.host) and not settings.allowed_hosts
        self._hosts = _Names([*hosts, *settings.allowed_hosts])
        self._origins = _Names([*origins, *settings.allowed_origins])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal, or pass the request on; white space around a header is no part of its value."""
        if scope["type"] == "http":
            scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        if scope["type"] == "http" and scope["path"] not in OPEN:
            headers = dict(scope["headers"])
            asks = (
                _repeated(scope["headers"])
                or self._refusal(headers)
                or _misled(scope["method"], headers)
                or self._authentication.metadata(scope["path"], headers)
                or await self._authentication.viewer(headers)
            )
            if not isinstance(asks, Viewer):
                await asks(scope, receive, send)
                return
            scope[VIEWER] = asks
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        host, origin = headers.get(b"host", b"").lower(), headers.get(b"origin", b"").lower()
        if not self._anywhere and host not in self._hosts:
            return Refusal(421, "host_refused", "this Host is not served; see `http.allowed_hosts`")
        own = self._anywhere and origin.partition(b"://")[2] == host
        if origin and not own and origin not in self._origins:
            return Refusal(
                403, "origin_refused", "pages of this Origin may not ask; see `http.allowed_origins`"
            )
        return None


def _repeated(headers: Iterable[tuple[bytes, bytes]]) -> Response | None:
    """Refuse what another server on the way may have read otherwise than this one does."""
    names = [name for name, _ in headers if name in _ONCE]
    for name in names:
        if names.count(name) > 1:
            title = name.decode().title()
            return Refusal(400, "header_repeated", f"the header {title} came twice; send it once")
    return None


def _misled(method: str, headers: Headers) -> Response | None:
    """Refuse a body of a type that any page may send without asking its browser whether it may."""
    has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if method in ("GET", "HEAD", "OPTIONS") or not (has_body or b"origin" in headers):
        return None
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind and kind not in _SENT_BY_PAGES:
        return None
    told = "say what the body is: Content-Type: application/json, or application/yaml for a manifest"
    return Refusal(415, "media_type_refused", told)


class _Names:
    """Names of hosts or origins; one that ends in `:*` holds with any port, and without one not at all."""

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [name.lower().encode("utf-8", "replace") for name in names]
        self._exact = frozenset(name for name in encoded if not name.endswith(b":*"))
        self._with_port = frozenset(name[:-1] for name in encoded if name.endswith(b":*"))

    def __contains__(self, name: bytes) -> bool:
        if name in self._exact:
            return True
        before, _, port = name.rpartition(b":")
        return before + b":" in self._with_port and port.isdigit() and len(port) <= _LONGEST_PORT
