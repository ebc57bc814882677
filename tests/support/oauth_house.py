"""A real authorization server and an MCP server that it guards, in a thread, at one address on loopback.

The SDK's server side does the protocol, PKCE and the audience included. A refresh token is good for one use.
What was sent is kept in `posts`; `pages` puts other answers in the place of what a path has, and `reset`
forgets everything. `person` is somebody in a browser, who agrees to whatever is asked.
"""

import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import certifi
import httpx2
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    IdentityAssertionParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METADATA = "/.well-known/oauth-authorization-server"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
DOCUMENT = "https://maitred.example/client.json"
LONG_S = 3600


@dataclass
class Post:
    """A request with a body, as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Page:
    """An answer in the place of another one."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class OAuthHouse:
    """Both servers; it is the provider of the authorization server as well.

    `lifetime_s` is how long the next tokens are good, and `refuses` whether people are turned away.
    """

    origin: str
    lifetime_s: int = LONG_S
    refuses: bool = False
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    posts: list[Post] = field(default_factory=list)
    asked: list[AuthorizationParams] = field(default_factory=list)
    pages: dict[str, Page] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def reset(self) -> None:
        self.lifetime_s, self.refuses = LONG_S, False
        for kept in (self.clients, self.codes, self.access, self.refresh, self.pages):
            kept.clear()
        for seen in (self.posts, self.asked, self.paths):
            seen.clear()

    def sent(self, path: str, grant_type: str = "") -> list[Post]:
        """What was posted to a path, of one kind of grant if it is named."""
        found = [post for post in self.posts if post.path == path]
        return [post for post in found if not grant_type or post.body.get("grant_type") == grant_type]

    def metadata(self) -> dict[str, Any]:
        """What the authorization server says of itself."""
        with httpx2.Client(verify=False) as client:
            return dict(client.get(f"{self.origin}{METADATA}").json())

    def end_access(self) -> None:
        """The access tokens are good no more; the refresh tokens are."""
        self.access.clear()

    def knows_documents(self) -> None:
        """Say that clients may be documents, and know the one that there is."""
        metadata = self.metadata()
        self.pages[METADATA] = Page({**metadata, "client_id_metadata_document_supported": True})
        self.clients[DOCUMENT] = _Anywhere(
            client_id=DOCUMENT, redirect_uris=[AnyUrl("http://127.0.0.1/callback")], scope="use"
        )
        self.clients[DOCUMENT].token_endpoint_auth_method = "none"

    # --- the provider of the authorization server -------------------------------------------------------

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.asked.append(params)
        if self.refuses:
            raise AuthorizeError("access_denied", "the person said no")
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant", "the refresh token was used before")
        return self._issue(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OAuthToken:
        raise TokenError("unsupported_grant_type", "not here")

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.clear()
        self.refresh.clear()

    def _issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        made = AccessToken(
            token=f"access-{secrets.token_hex(16)}", client_id=client_id, scopes=scopes, resource=resource
        )
        again = RefreshToken(
            token=f"refresh-{secrets.token_hex(16)}", client_id=client_id, scopes=scopes, resource=resource
        )
        self.access[made.token], self.refresh[again.token] = made, again
        return OAuthToken(
            access_token=made.token,
            refresh_token=again.token,
            expires_in=self.lifetime_s,
            scope=" ".join(scopes),
        )


class _Anywhere(OAuthClientInformationFull):
    """A client on somebody's machine: the port that it comes back to is another one each time (RFC 8252)."""

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        assert redirect_uri is not None
        return redirect_uri


class _Watched:
    """Keeps what is sent, and answers from `pages` first."""

    def __init__(self, app: ASGIApp, house: OAuthHouse) -> None:
        self._app = app
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, body, more = scope["path"], b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        self._house.paths.append(path)
        if body:
            self._house.posts.append(Post(path, headers, _parsed(headers, body)))
        if page := self._house.pages.get(path):
            await _answer(page, send)
            return
        replayed = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return replayed.pop() if replayed else await receive()

        await self._app(scope, again, send)


def _parsed(headers: dict[str, str], body: bytes) -> dict[str, Any]:
    if "json" in headers.get("content-type", ""):
        return dict(json.loads(body))
    return {key: values[0] for key, values in parse_qs(body.decode()).items()}


async def _answer(page: Page, send: Send) -> None:
    headers = {"content-type": "application/json", **page.headers}
    raw = [(key.encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": page.status, "headers": raw})
    body = b"" if page.body is None else json.dumps(page.body).encode()
    await send({"type": "http.response.body", "body": body})


def _app(house: OAuthHouse) -> ASGIApp:
    server = MCPServer(
        "guarded",
        auth_server_provider=house,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(house.origin),
            resource_server_url=AnyHttpUrl(house.url),
            required_scopes=["use"],
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["use", "more"]),
            revocation_options=RevocationOptions(enabled=True),
        ),
    )

    @server.tool()
    def whisper(text: str) -> str:
        """Say something that only those hear who have logged in."""
        return f"psst: {text}"

    return _Watched(server.streamable_http_app(), house)


@contextmanager
def oauth_house() -> Iterator[OAuthHouse]:
    listener = socket.create_server(("127.0.0.1", 0))
    house = OAuthHouse(origin=f"http://127.0.0.1:{listener.getsockname()[1]}")
    config = uvicorn.Config(_app(house), log_level="critical", ws="none", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield house
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        listener.close()


def few_certificates(folder: Path) -> Path:
    """A file with one authority: reading the certificates of all takes longer than a login."""
    path = folder / "one.pem"
    end = "-----END CERTIFICATE-----\n"
    bundle = Path(certifi.where()).read_text(encoding="utf-8")
    path.write_text(bundle.partition(end)[0] + end, encoding="utf-8")
    return path


def person(page: str) -> bool:
    """Open a page, agree, and come back to where the page sends; as `webbrowser.open` would."""
    with httpx2.Client(verify=False, follow_redirects=True) as browser:  # certificates take time to read
        answer = browser.get(page)
    return answer.status_code == 200
