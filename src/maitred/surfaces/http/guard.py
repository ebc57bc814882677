"""Who may talk to a gateway that listens: the token, and the names under which it may be reached.

A page in a browser can be made to ask for a foreign name that points at loopback (DNS rebinding), so Host and
Origin are checked for everything that is served, MCP and API alike. On any address but loopback a token is
required, sent as `Authorization: Bearer`; on loopback it is optional. That the process lives and whether it
is ready may be asked by anybody under any name: probes know no token and call by address.
"""

import hmac
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from maitred.config.http import is_any
from maitred.config.settings import Http
from maitred.surfaces.http.errors import Refusal

OPEN: Final = frozenset({"/healthz", "/readyz"})
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Passes on what may pass, and answers the rest with 401, 421 or 403."""

    def __init__(self, app: ASGIApp, settings: Http) -> None:
        self._app = app
        self._expected = settings.token.encode()
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
            refusal = self._refusal(dict(scope["headers"]))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Mapping[bytes, bytes]) -> Refusal | None:
        if self._expected and not self._knows_token(headers.get(b"authorization", b"")):
            return Refusal(
                401,
                "unauthorized",
                "send the token as `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        host, origin = headers.get(b"host", b"").lower(), headers.get(b"origin", b"").lower()
        if not self._anywhere and host not in self._hosts:
            return Refusal(421, "host_refused", "this Host is not served; see `http.allowed_hosts`")
        own = self._anywhere and origin.partition(b"://")[2] == host
        if origin and not own and origin not in self._origins:
            return Refusal(
                403, "origin_refused", "pages of this Origin may not ask; see `http.allowed_origins`"
            )
        return None

    def _knows_token(self, authorization: bytes) -> bool:
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._expected)


class _Names:
    """Names of hosts or origins; one that ends in `:*` holds with any port."""

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [name.lower().encode("utf-8", "replace") for name in names]
        self._exact = frozenset(name for name in encoded if not name.endswith(b":*"))
        self._with_port = tuple(name[:-1] for name in encoded if name.endswith(b":*"))

    def __contains__(self, name: bytes) -> bool:
        return name in self._exact or name.startswith(self._with_port)
