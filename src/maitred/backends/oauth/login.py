"""An operator logs in to a server in a browser, or out of it again.

The SDK's client speaks the protocol. This module listens on this machine for the browser's return. It
takes one answer, which must have the `state` that was sent. `BrowserReturn` is the same without a port, where
the gateway is reached over HTTP.
It also words the errors. It repeats nothing that a token endpoint answered, since that may contain tokens.
"""

import html
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from urllib.parse import parse_qs, urlsplit, urlunsplit

import anyio
import anyio.abc
import httpx2
from anyio.abc import SocketAttribute
from mcp.client.auth import OAuthFlowError, OAuthTokenError
from mcp.shared.auth import AuthorizationCodeResult
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError
from pydantic_core import from_json

from maitred.backends.base import ConnectError
from maitred.backends.listing import clean
from maitred.backends.oauth.client import Client, LoginTarget, SendRequest
from maitred.backends.oauth.grants import LoginGrant
from maitred.background import Background
from maitred.config.redaction import SECRETS, redact
from maitred.errors import LoginError, VaultError
from maitred.model.transports import transport_kind

Browse = Callable[[str], Awaitable[None]]
"""Opens an address in the operator's browser."""

_MAX_HEAD = 16_384
_HEAD_S = 10.0
_LONGEST = 300
_UNAUTHORIZED = 401
_FORBIDDEN = 403


async def log_in(
    access: LoginTarget, browse: Browse, *, timeout_s: float, at: "BrowserReturn | None" = None
) -> LoginGrant:
    """Let a person log in, and store the grant for the principal of `access`.

    Args:
        access: The server, and where its login is stored.
        browse: Opens the page of the authorization server; called once.
        timeout_s: How long the person may take, in seconds.
        at: Where the browser returns to; by default a port of this machine, while this function runs.

    Raises:
        LoginError: The login failed; the text says why.
        VaultError: The login cannot be stored.
    """
    name = access.spec.name
    try:
        grant = await _logged_in(access, browse, timeout_s, at)
    except (ConnectError, OAuthFlowError, httpx2.HTTPError, ValidationError, OSError) as error:
        raise LoginError(name, _plain(error)) from error
    SECRETS.learn_named(grant.credentials)
    await access.store.save(name, grant.to_bytes())
    return grant


async def log_out(access: LoginTarget) -> str | None:
    """Delete the login to a server, and end it at its authorization server.

    Returns:
        Why the tokens may stay valid for a while, empty if they are revoked; None if there was no login.
    """
    name = access.spec.name
    try:
        kept = await access.store.load(name)
        told = await _revoked(access, LoginGrant.from_bytes(kept.body)) if kept else ""
    except VaultError as error:
        told = error.reason
    return told if await access.store.forget(name) else None


async def _revoked(access: LoginTarget, grant: LoginGrant) -> str:
    try:
        url, auth = await access.resolved()
        SECRETS.learn_named(grant.credentials)
        client = Client(url, auth, redirect_uri=auth.redirect_uri)
        client.resume(grant)
        request = client.revocation()
        if request is None:
            return "its authorization server cannot revoke tokens"
        async with access.sending() as send:
            response = await send(request)
    except (ConnectError, OAuthFlowError, httpx2.HTTPError, ValidationError) as error:
        return _plain(error)
    return "" if response.is_success else f"its authorization server answered HTTP {response.status_code}"


async def _logged_in(
    access: LoginTarget, browse: Browse, timeout_s: float, at: "BrowserReturn | None"
) -> LoginGrant:
    url, auth = await access.resolved()
    arrival = _coming_back(auth.redirect_uri, timeout_s) if at is None else nullcontext(at)
    async with arrival as place, access.sending() as send:

        async def going(page: str) -> None:
            place.expect(page)
            await browse(page)

        client = Client(url, auth, redirect_uri=place.uri, browse=going, returned=place.returned)
        status = await _drive(
            client, _probe(url, sse=transport_kind(access.spec.transport).opened_by == "GET"), send
        )
    grant = client.grant()
    if grant is None:
        raise ConnectError(f"{url} answered HTTP {status} and asks for no login; is `url` right?")
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        raise ConnectError(f"{url} answered HTTP {status} to the token that the login brought")
    return grant


def _probe(url: str, *, sse: bool) -> httpx2.Request:
    """A request that changes nothing and that a server with logins refuses."""
    if sse:
        return httpx2.Request("GET", url, headers={"Accept": "text/event-stream"})
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION,
    }
    return httpx2.Request("POST", url, headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})


async def _drive(client: Client, probe: httpx2.Request, send: SendRequest) -> int:
    """Send the requests of the SDK's client; returns the status of the last answer."""
    flow = client.async_auth_flow(probe)
    outgoing = await anext(flow)
    try:
        while True:
            response = await send(outgoing, whole=outgoing is not probe)
            outgoing = await flow.asend(response)
    except StopAsyncIteration:
        return response.status_code
    finally:
        await flow.aclose()


_PAGE = """<!doctype html><meta charset="utf-8"><title>maitred</title>
<p style="font: 16px sans-serif; margin: 3em">{}</p>
"""
_HEAD = (
    "HTTP/1.1 {}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n"
    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none';"
    " style-src 'unsafe-inline'\r\n\r\n"
)


class BrowserReturn:
    """Where the browser returns to, for one login. Only the first request with the right state counts."""

    def __init__(self, uri: str, timeout_s: float) -> None:
        self.uri = uri
        self._timeout_s = timeout_s
        self._state = ""
        self._answer: Mapping[str, str] = {}
        self._came = anyio.Event()

    def expect(self, page: str) -> None:
        """Read the state from the address that the browser is sent to."""
        self._state = _values(page).get("state", "")

    def is_of(self, state: str) -> bool:
        """Whether a browser that returns with this state belongs to the login."""
        return bool(self._state) and secrets.compare_digest(state.encode(), self._state.encode())

    def take(self, values: Mapping[str, str]) -> tuple[bool, str]:
        """Take the query of the browser's return; returns whether it counts, and what to show."""
        if not self.is_of(values.get("state", "")):
            return False, "This does not belong to the login that maitred waits for."
        if self._answer:
            return False, "This login has been answered before."
        self._answer = dict(values)
        if "code" not in values:
            return (
                True,
                "The login was refused. The program that asked for it shows why. You can close this tab.",
            )
        return True, "maitred continues where you were asked to log in. You can close this tab."

    def arrived(self) -> None:
        """Let `returned` go on, if an answer was taken."""
        if self._answer:
            self._came.set()

    async def returned(self) -> AuthorizationCodeResult:
        """Wait until the browser returns.

        Raises:
            OAuthFlowError: The browser did not return in time, or the login was refused.
        """
        with anyio.move_on_after(self._timeout_s):
            await self._came.wait()
        answer = self._answer
        if not answer:
            raise OAuthFlowError(f"the browser did not return within {self._timeout_s:g} s")
        if "code" not in answer:
            told = ": ".join(answer[key] for key in ("error", "error_description") if key in answer)
            raise OAuthFlowError(f"the authorization server answered {told or 'without a code'}")
        return AuthorizationCodeResult(code=answer["code"], state=answer["state"], iss=answer.get("iss"))


class _Place(BrowserReturn):
    """A port of this machine that the browser returns to."""

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        """Answer one connection; browsers open some that they never use."""
        with anyio.move_on_after(_HEAD_S):
            async with stream:
                try:
                    status, text = self._look(await _head(stream))
                    body = _PAGE.format(html.escape(text)).encode()
                    await stream.send(_HEAD.format(status, len(body)).encode() + body)
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return
        self.arrived()

    def _look(self, head: str) -> tuple[str, str]:
        method, _, rest = head.partition("\r\n")[0].partition(" ")
        target = rest.partition(" ")[0]
        if method != "GET" or urlsplit(target).path != (urlsplit(self.uri).path or "/"):
            return "404 Not Found", "There is nothing here."
        counts, text = self.take(_values(target))
        return "200 OK" if counts else "400 Bad Request", text


async def _head(stream: anyio.abc.SocketStream) -> str:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD:
        head += await stream.receive()
    return head.decode("latin-1")


def _values(address: str) -> dict[str, str]:
    """The query of an address; of a repeated key, the first value."""
    return {key: values[0] for key, values in parse_qs(urlsplit(address).query).items()}


@asynccontextmanager
async def _coming_back(redirect_uri: str, timeout_s: float) -> AsyncIterator[_Place]:
    """Listen where the browser is to return to; without a port in the address, take a free one."""
    parts = urlsplit(redirect_uri)
    host = parts.hostname or ""
    local = "127.0.0.1" if host == "localhost" else host
    try:
        listener = await anyio.create_tcp_listener(local_host=local, local_port=parts.port or 0)
    except OSError as error:
        told = f"maitred cannot listen at {redirect_uri} ({error.strerror or error}); see `auth.redirect_uri`"
        raise ConnectError(told) from error
    failure: Exception | None = None
    async with listener, Background() as background:
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610  # an attribute of a socket
        shown = f"[{host}]" if ":" in host else host
        place = _Place(urlunsplit(parts._replace(netloc=f"{shown}:{port}")), timeout_s)
        background.start(listener.serve, place.serve)
        try:
            yield place
        except Exception as error:  # noqa: BLE001  # raised below: the task group would put it in a group
            failure = error
    if failure is not None:
        raise failure


def _plain(error: Exception) -> str:
    """The error's text without what may contain tokens, and without its last full stop."""
    head, _, rest = str(error).partition(": ")
    if isinstance(error, ValidationError) or head.startswith("Invalid "):
        return "its metadata or its answer about tokens is not valid"
    try:
        told = from_json(rest)
    except ValueError:
        told = None
    if isinstance(told, dict):
        rest = ": ".join(str(told[key]) for key in ("error", "error_description") if told.get(key))
    elif isinstance(error, OAuthTokenError):
        rest = ""
    text = f"{head}: {rest}" if rest else head
    return redact(clean(text or type(error).__name__))[:_LONGEST].rstrip(".")
