"""Authentication over HTTP, and a guard in front of everything that is served, MCP and API alike.

A bearer token gives a viewer or a refusal. There are three kinds: that of `http.token`, those of `maitred
tokens`, and those of an authorization server (`http.jwt`; maitred is a resource server of RFC 9728). Without
a token, a caller on this machine gets the role of `http.anonymous`; a wrong token gives nothing. The guard
checks Host and Origin, because a page can point a foreign name at loopback (DNS rebinding). Paths in `OPEN`
need no token and no allowed name: probes have no token and call by address. Pages of the web interface have
sessions of their own (`maitred.surfaces.web.session`), and their forms a check of their own. So have the
pages by which a principal logs in to a server (`maitred.surfaces.http.logins`).
"""

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maitred.config.sections import is_any, is_loopback
from maitred.config.settings import Http, Jwt
from maitred.errors import MaitredError
from maitred.gateway.authorization import VIEWER
from maitred.model.access import LOCAL, Grant, RefusedAccess, Viewer
from maitred.surfaces.encoding import encode
from maitred.surfaces.http.errors import Refusal, refusal_of
from maitred.surfaces.loopback import is_of_this_machine
from maitred.surfaces.web.mount import is_page, refusal_page

HTTP: Final = "http"
"""The principal of a request with `http.token`."""

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_MCP: Final = "/mcp"
_UNGUARDED: Final = Viewer(grant=Grant(principal=LOCAL, role="operator"))

Headers = Mapping[bytes, bytes]
GrantOf = Callable[[str], Awaitable[Grant | RefusedAccess]]
Hold = Callable[[str], AbstractContextManager[None]]
"""Runs a request of a principal, and leaves it early when that is suspended."""


def viewer_of(request: Request) -> Viewer:
    """The viewer of a request, as the guard identified it; without a guard, the local operator."""
    return replace(viewer_in(request.scope), surface="http")


def viewer_in(scope: Scope) -> Viewer:
    """The viewer in the scope of a request; without a guard, the local operator."""
    viewer = scope.get(VIEWER, _UNGUARDED)
    return viewer if isinstance(viewer, Viewer) else _UNGUARDED


def anonymous(settings: Http) -> Viewer | None:
    """The viewer of requests without a token; `None` if they are refused."""
    if settings.anonymous == "none" or settings.token or not is_loopback(settings.host):
        return None
    return Viewer(grant=Grant(principal=LOCAL, role=settings.anonymous))


class Authentication:
    """Identifies the sender of a request; `grant_of` knows all tokens except that of the settings."""

    def __init__(self, settings: Http, grant_of: GrantOf) -> None:
        self._token = settings.token.encode()
        self._jwt = settings.jwt
        self._grant_of = grant_of
        self._bearer = Viewer(grant=Grant(principal=HTTP, role="admin"))
        self._anonymous = anonymous(settings)

    @property
    def anonymous(self) -> Grant | None:
        """The grant of a person on this machine without a token; `None` if they are refused."""
        return self._anonymous.grant if self._anonymous else None

    async def grant_of(self, token: str) -> Grant | RefusedAccess:
        """The grant of any token, that of the settings too.

        Raises:
            MaitredError: It cannot be checked now.
        """
        if self._token and hmac.compare_digest(token.encode(), self._token):
            return self._bearer.grant
        return await self._grant_of(token)

    async def viewer(self, headers: Headers) -> Viewer | Response:
        """The viewer of a request with these headers, or the answer that refuses it."""
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        token = token.strip()
        if scheme.lower() != b"bearer":
            here = self._anonymous if is_of_this_machine(headers.get(b"host", b"")) else None
            return here or self._refusal(headers, "a token is needed")
        if self._token and hmac.compare_digest(token, self._token):
            return self._bearer
        try:
            grant = await self._grant_of(token.decode("ascii", "replace"))
        except MaitredError as error:
            return refusal_of(error)
        if isinstance(grant, Grant):
            return Viewer(grant=grant)
        if grant.unavailable:
            return Refusal(503, "unavailable", grant.reason, headers={"Retry-After": "5"})
        return self.invalid_token(headers, grant.reason)

    def invalid_token(self, headers: Headers, reason: str) -> Refusal:
        """The answer to a request whose token is refused."""
        return self._refusal(headers, reason, error="invalid_token")

    def _refusal(self, headers: Headers, reason: str, *, error: str = "") -> Refusal:
        """The answer 401, which names the place that issues tokens if it is known."""
        said = [f'error="{error}"'] if error else []
        if self._jwt:
            resource = urlsplit(_resource(self._jwt, headers))
            where = f"{resource.scheme}://{resource.netloc}{_WELL_KNOWN}{resource.path.rstrip('/')}"
            said.append(f'resource_metadata="{where}"')
        challenge = f"Bearer {', '.join(said)}".rstrip()
        text = f"{reason}; send a valid one as `Authorization: Bearer TOKEN`"
        return Refusal(401, "unauthorized", text, headers={"WWW-Authenticate": challenge})

    # --- what clients of an authorization server have to know ---------------------------------------------

    def metadata(self, path: str, headers: Headers) -> Response | None:
        """The metadata of the protected resource (RFC 9728); `None` if the path is another."""
        if not self._jwt or path not in (_WELL_KNOWN, _WELL_KNOWN + _MCP):
            return None
        described = {
            "resource": _resource(self._jwt, headers),
            "authorization_servers": [self._jwt.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "maitred",
        }
        return Response(encode(described), media_type="application/json")


def _resource(jwt: Jwt, headers: Headers) -> str:
    """The name of the MCP endpoint: the first audience that is a URL, else its URL at the request's Host."""
    for audience in jwt.audience:
        if audience.startswith(("https://", "http://")):
            return audience
    return f"http://{headers.get(b'host', b'').decode('ascii', 'replace')}{_MCP}"


MODULE: Final = "/tool-categories.js"
"""The JavaScript module for authors of pages; pages of any origin may load it."""

OPEN: Final = frozenset({"/healthz", "/readyz", "/", "/docs", MODULE})
_ONCE: Final = frozenset({b"host", b"origin", b"authorization", b"content-type", b"content-length"})
_SENT_BY_PAGES: Final = frozenset(
    {b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data"}
)
_LONGEST_PORT: Final = 5
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Passes allowed requests on, and answers the rest with 400, 401, 403, 415, 421 or 503.

    `grant_of` returns the grant of a token, except that of the settings. `hold` ends a request when its
    principal is suspended.
    """

    def __init__(self, app: ASGIApp, settings: Http, grant_of: GrantOf, *, hold: Hold | None = None) -> None:
        self._app = app
        self._hold = hold
        self._authentication = Authentication(settings, grant_of)
        hosts = [*_LOOPBACK, *(f"{host}:*" for host in _LOOPBACK)]
        origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
        if not is_any(settings.host):
            own = f"[{settings.host}]" if ":" in settings.host else settings.host
            hosts += [own, f"{own}:*"]
        self._anywhere = is_any(settings.host) and not settings.allowed_hosts
        self._hosts = _HostNames([*hosts, *settings.allowed_hosts])
        self._origins = _HostNames([*origins, *settings.allowed_origins])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request or pass it on; white space around a header is not part of its value."""
        if scope["type"] == "http":
            scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        if scope["type"] == "http" and scope["path"] not in OPEN:
            headers = dict(scope["headers"])
            early = _repeated(scope["headers"]) or self._refusal(headers)
            if is_page(scope["path"]):
                page = refusal_page(early.status_code, early.message) if early else self._app
                await page(scope, receive, send)
                return
            asks = (
                early
                or _misled(scope["method"], headers)
                or self._authentication.metadata(scope["path"], headers)
                or await self._authentication.viewer(headers)
            )
            if not isinstance(asks, Viewer):
                await asks(scope, receive, send)
                return
            scope[VIEWER] = asks
            if self._hold is not None and asks.principal not in (LOCAL, HTTP):
                await self._held(asks.principal, self._hold, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _held(self, principal: str, hold: Hold, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and end it when its principal is suspended."""
        has_begun = is_bounded = is_complete = False

        async def noting(message: Message) -> None:
            nonlocal has_begun, is_bounded, is_complete
            if message["type"] == "http.response.start":
                has_begun = True
                is_bounded = any(name.lower() == b"content-length" for name, _ in message["headers"])
            elif message["type"] == "http.response.body":
                is_complete = not message.get("more_body", False)
            await send(message)

        with hold(principal):
            await self._app(scope, receive, noting)
            return
        if not has_begun:
            headers = dict(scope["headers"])
            answer = self._authentication.invalid_token(headers, f"{principal!r} is suspended")
            await answer(scope, receive, send)
        elif not is_bounded and not is_complete:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _refusal(self, headers: Headers) -> Refusal | None:
        host, origin = headers.get(b"host", b"").lower(), headers.get(b"origin", b"").lower()
        if not self._anywhere and host not in self._hosts:
            return Refusal(
                421, "host_refused", "the gateway does not serve this Host; see `http.allowed_hosts`"
            )
        own = self._anywhere and origin.partition(b"://")[2] == host
        if origin and not own and origin not in self._origins:
            return Refusal(
                403, "origin_refused", "pages of this Origin may send no requests; see `http.allowed_origins`"
            )
        return None


def _repeated(headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
    """Refuse a repeated header that another server on the way may read differently."""
    names = [name for name, _ in headers if name in _ONCE]
    for name in names if len(names) > len(set(names)) else ():
        if names.count(name) > 1:
            title = name.decode().title()
            return Refusal(400, "header_repeated", f"the header {title} came twice; send it once")
    return None


def _misled(method: str, headers: Headers) -> Response | None:
    """Refuse a body of a type that any page may send without a CORS preflight."""
    has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if method in ("GET", "HEAD", "OPTIONS") or not (has_body or b"origin" in headers):
        return None
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind and kind not in _SENT_BY_PAGES:
        return None
    told = "send the type of the body: Content-Type: application/json, or application/yaml for a manifest"
    return Refusal(415, "media_type_refused", told)


class _HostNames:
    """Names of hosts or origins; a name that ends in `:*` matches with any port, but not without one."""

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [name.lower().encode("utf-8", "replace") for name in names]
        self._exact = frozenset(name for name in encoded if not name.endswith(b":*"))
        self._with_port = frozenset(name[:-1] for name in encoded if name.endswith(b":*"))

    def __contains__(self, name: bytes) -> bool:
        if name in self._exact:
            return True
        before, _, port = name.rpartition(b":")
        return before + b":" in self._with_port and port.isdigit() and len(port) <= _LONGEST_PORT
