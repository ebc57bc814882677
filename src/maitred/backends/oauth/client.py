"""maitred as an OAuth client: the SDK's client with the settings of the configuration.

It also sends the requests of a login. Their addresses come from documents that a server wrote. Hosts that
the operator named may be anywhere. The gateway checks every other host, and requires https of it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from maitred.backends.base import Resolve
from maitred.backends.connection_faults import reference_error
from maitred.backends.oauth.grants import GrantStore, LoginGrant
from maitred.backends.references import resolve_aside
from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.redaction import SECRETS
from maitred.model.servers import OAuth, ServerSpec, TokenExchange
from maitred.tls import tls_context

_PATIENCE_S = 30.0
_MAX_BYTES = 1_000_000


class SendRequest(Protocol):
    """Sends a request; the body of an error is always read, that of a success only if `whole` is true."""

    async def __call__(self, request: httpx2.Request, *, whole: bool = True) -> httpx2.Response:
        """Raises `httpx2.HTTPError` for every failure on the way."""
        ...


@dataclass(frozen=True, kw_only=True)
class LoginTarget:
    """What a login to one server needs: how to reach the server, and where its logins are stored.

    `principal` is whose login it is; empty if it is the gateway's, for all callers. `store` has the logins of
    this principal only.
    """

    spec: ServerSpec
    principal: str = ""
    resolve: Resolve
    store: GrantStore
    make_transport: Callable[[], httpx2.AsyncBaseTransport]

    async def resolved(self) -> tuple[str, OAuth]:
        """The server's address and its OAuth settings, with references resolved.

        Raises:
            ConnectError: A reference has no value.
        """
        auth = self.spec.auth or OAuth()
        own = auth.exchange
        more = (own.token_url, own.client_id, own.client_secret, own.audience) if own else ()
        return await resolve_aside((self.spec.url, auth.client_id, auth.client_secret, *more), self._resolved)

    def _resolved(self) -> tuple[str, OAuth]:
        auth = self.spec.auth or OAuth()
        try:
            known = replace(
                auth,
                client_id=self.resolve(auth.client_id),
                client_secret=self.resolve(auth.client_secret),
                exchange=self._exchange(auth.exchange) if auth.exchange else None,
            )
            url = self.resolve(self.spec.url)
        except UnresolvedReferenceError as error:
            raise reference_error(error) from error
        SECRETS.learn_named({"client_secret": known.client_secret})
        SECRETS.learn_address(url, {})
        return url, known

    def _exchange(self, exchange: TokenExchange) -> TokenExchange:
        known = replace(
            exchange,
            token_url=self.resolve(exchange.token_url),
            client_id=self.resolve(exchange.client_id),
            client_secret=self.resolve(exchange.client_secret),
            audience=self.resolve(exchange.audience),
        )
        SECRETS.learn_named({"client_secret": known.client_secret})
        return known

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[SendRequest]:
        """Send the requests of a login or a renewal."""
        url, auth = await self.resolved()
        own = auth.exchange.token_url if auth.exchange else ""
        named = () if self.spec.registered else (url, auth.issuer, own)
        near = {httpx2.URL(one).host for one in named if one}
        clients: dict[bool, httpx2.AsyncClient] = {}
        async with AsyncExitStack() as stack:

            async def send(request: httpx2.Request, *, whole: bool = True) -> httpx2.Response:
                is_near = request.url.host in near
                if not is_near and request.url.scheme != "https":
                    told = f"{request.url.host} is not the server itself, and its address has no https"
                    raise httpx2.ConnectError(told, request=request)
                if is_near not in clients:
                    transport = None if is_near else self.make_transport()
                    made = httpx2.AsyncClient(transport=transport, verify=tls_context())
                    clients[is_near] = await stack.enter_async_context(made)
                return await _exchanged(clients[is_near], request, whole=whole)

            yield send


async def _exchanged(client: httpx2.AsyncClient, request: httpx2.Request, *, whole: bool) -> httpx2.Response:
    """One exchange with limits of time and size."""
    try:
        with anyio.fail_after(_PATIENCE_S):
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                body = b"" if response.is_success and not whole else await _read(response)
            finally:
                await response.aclose()
    except TimeoutError:
        told = f"{request.url.host} did not answer within {_PATIENCE_S:g} s"
        raise httpx2.ReadTimeout(told, request=request) from None
    headers = [(k, v) for k, v in response.headers.items() if k not in ("content-encoding", "content-length")]
    read = httpx2.Response(response.status_code, headers=headers, content=body, request=request)
    read.next_request = response.next_request
    return read


async def _read(response: httpx2.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise httpx2.ReadError(f"the answer has more than {_MAX_BYTES:,} bytes", request=response.request)
    return body


class Client(OAuthClientProvider):
    """The SDK's client, for one login, or to renew or revoke an earlier login.

    Args:
        url: The server.
        auth: The operator's settings, with references resolved.
        redirect_uri: Where the browser returns to, with its port.
        browse: Opens an address in the operator's browser.
        returned: Waits until the browser returns.
    """

    def __init__(
        self,
        url: str,
        auth: OAuth,
        *,
        redirect_uri: str,
        browse: Callable[[str], Awaitable[None]] | None = None,
        returned: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
    ) -> None:
        self._auth = auth
        super().__init__(
            url,
            OAuthClientMetadata(client_name="maitred", redirect_uris=[AnyUrl(redirect_uri)]),
            _Nothing(auth, redirect_uri),
            redirect_handler=browse,
            callback_handler=returned,
            client_metadata_url=auth.client_metadata_url or None,
        )

    def _select_authorization_server(self, advertised: list[str]) -> str:
        if not self._auth.issuer:
            return super()._select_authorization_server(advertised)
        for one in advertised:
            if one.rstrip("/") == self._auth.issuer.rstrip("/"):
                return one
        told = ", ".join(one.rstrip("/") for one in advertised)
        raise OAuthFlowError(f"it names {told} for logins, and `auth.issuer` names another server")

    async def _perform_authorization(self) -> httpx2.Request:
        """Ask the operator to log in; by now the SDK has read all metadata of the server."""
        known, client = self.context.oauth_metadata, self.context.client_info
        if known is not None and "S256" not in (known.code_challenge_methods_supported or ()):
            raise OAuthFlowError("its authorization server does not protect logins by PKCE (S256)")
        if self._auth.scopes:
            self.context.client_metadata.scope = " ".join(self._auth.scopes)
        if self._auth.client_id and client is not None:
            offered = known.token_endpoint_auth_methods_supported if known else None
            by_header = not offered or "client_secret_basic" in offered
            method = "client_secret_basic" if by_header else "client_secret_post"
            client.token_endpoint_auth_method = method if self._auth.client_secret else "none"
        return await super()._perform_authorization()

    def grant(self) -> LoginGrant | None:
        """The grant of the login, or None if there was none."""
        context = self.context
        if (tokens := context.current_tokens) is None or context.client_info is None:
            return None
        not_kept = {"client_secret"} if self._auth.client_secret else None
        return LoginGrant(
            url=context.server_url,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or "",
            scope=tokens.scope or context.client_metadata.scope or "",  # RFC 6749, 5.1
            expires_at=context.token_expiry_time,
            client=context.client_info.model_dump(mode="json", exclude_none=True, exclude=not_kept),
            issuer=_dumped(context.oauth_metadata),
            resource=_dumped(context.protected_resource_metadata),
        )

    def resume(self, grant: LoginGrant) -> None:
        """Restore the state of the end of the login."""
        context = self.context
        secret = {"client_secret": self._auth.client_secret} if self._auth.client_secret else {}
        context.client_info = OAuthClientInformationFull.model_validate({**grant.client, **secret})
        context.current_tokens = OAuthToken(
            access_token=grant.access_token,
            refresh_token=grant.refresh_token or None,
            scope=grant.scope or None,
        )
        if grant.issuer:
            context.oauth_metadata = OAuthMetadata.model_validate(grant.issuer)
        if grant.resource:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(grant.resource)

    async def renewal(self) -> httpx2.Request:
        """The request for new tokens, after `resume`."""
        return await self._refresh_token()

    def revocation(self) -> httpx2.Request | None:
        """The request that ends the login at the authorization server, after `resume`.

        None if that server has no endpoint for it.
        """
        known, tokens, client = (
            self.context.oauth_metadata,
            self.context.current_tokens,
            self.context.client_info,
        )
        if known is None or known.revocation_endpoint is None or tokens is None or client is None:
            return None
        kind = "refresh_token" if tokens.refresh_token else "access_token"
        data = {"token": tokens.refresh_token or tokens.access_token, "token_type_hint": kind}
        data, headers = self.context.prepare_token_auth({**data, "client_id": client.client_id}, {})
        return httpx2.Request("POST", str(known.revocation_endpoint), data=data, headers=headers)


def _dumped(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True) if model is not None else {}


class _Nothing:
    """The SDK's storage, empty: each login starts from nothing, and the caller stores its grant."""

    def __init__(self, auth: OAuth, redirect_uri: str) -> None:
        self._auth = auth
        self._redirect_uri = redirect_uri

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Ignored: the caller reads them from the client at the end."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client that the operator has registered, if there is one."""
        if not self._auth.client_id:
            return None
        return OAuthClientInformationFull(
            client_id=self._auth.client_id,
            client_secret=self._auth.client_secret or None,
            redirect_uris=[AnyUrl(self._redirect_uri)],
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Ignored: the caller reads it from the client at the end."""
