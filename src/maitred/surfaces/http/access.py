"""Who asks over HTTP: a bearer token in, the viewer that it stands for out, or the refusal.

Three kinds of tokens are taken: that of `http.token`, those that `maitred tokens` makes, and those of an
authorization server (`http.jwt`), for which maitred is a resource server as RFC 9728 describes it. Without a
token somebody on this machine gets what `http.anonymous` says; a wrong token gives nothing, even there.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import Response
from starlette.types import Scope

from maitred.config.http import is_loopback
from maitred.config.settings import Http, Jwt
from maitred.errors import MaitredError
from maitred.gateway.access import VIEWER
from maitred.model.access import LOCAL, Grant, Refused
from maitred.model.principals import Viewer
from maitred.surfaces.http.encoding import encode
from maitred.surfaces.http.errors import Refusal, refusal_of

HTTP: Final = "http"
"""The principal who sends `http.token`."""

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_MCP: Final = "/mcp"
_UNGUARDED: Final = Viewer(grant=Grant(principal=LOCAL, role="operator"))

Headers = Mapping[bytes, bytes]
GrantOf = Callable[[str], Awaitable[Grant | Refused]]


def viewer_of(request: Request) -> Viewer:
    """Who asks, as the guard found out; where none stands before the API, somebody without a token."""
    return replace(viewer_in(request.scope), surface="http")


def viewer_in(scope: Scope) -> Viewer:
    """The same, of the scope of a request."""
    viewer = scope.get(VIEWER, _UNGUARDED)
    return viewer if isinstance(viewer, Viewer) else _UNGUARDED


def anonymous(settings: Http) -> Viewer | None:
    """Who sends no token; `None` if that is not taken."""
    if settings.anonymous == "none" or settings.token or not is_loopback(settings.host):
        return None
    return Viewer(grant=Grant(principal=LOCAL, role=settings.anonymous))


def _is_of_this_machine(headers: Headers) -> bool:
    """Whether a request came under a name of loopback; by any other name it came through a proxy."""
    host = headers.get(b"host", b"").decode("latin-1")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return not host or is_loopback(name.strip("[]"))


class Authentication:
    """Tells who sends a request; `grant_of` knows all tokens but that of the settings."""

    def __init__(self, settings: Http, grant_of: GrantOf) -> None:
        self._token = settings.token.encode()
        self._jwt = settings.jwt
        self._grant_of = grant_of
        self._bearer = Viewer(grant=Grant(principal=HTTP, role="admin"))
        self._anonymous = anonymous(settings)

    async def viewer(self, headers: Headers) -> Viewer | Response:
        """Who sends a request with these headers, or what to answer instead."""
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        token = token.strip()
        if scheme.lower() != b"bearer":
            here = self._anonymous if _is_of_this_machine(headers) else None
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
        return self._refusal(headers, grant.reason, error="invalid_token")

    def _refusal(self, headers: Headers, reason: str, *, error: str = "") -> Refusal:
        """The answer 401, which says where tokens are to be had if that is known."""
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
        """The metadata of the protected resource (RFC 9728); `None` if that is not what stands at a path."""
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
    """What names the MCP endpoint: the first audience that is an address, else where it was asked."""
    for audience in jwt.audience:
        if audience.startswith(("https://", "http://")):
            return audience
    return f"http://{headers.get(b'host', b'').decode('ascii', 'replace')}{_MCP}"
