"""A server that is reached over HTTP: streamable HTTP, or the older HTTP with server-sent events.

The client follows a redirect only to the same scheme, host and port. If destinations must be checked, it
uses the given transport. After a login, requests carry the token.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, cast
from urllib.parse import quote

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from pydantic_core import from_json

from maitred.backends.base import (
    Backend,
    ConnectError,
    Connection,
    ConnectOptions,
    LoginNeededError,
    Resolve,
    find,
)
from maitred.backends.connection_faults import reference_error
from maitred.backends.dispatcher import EndingDispatcher
from maitred.backends.http_bounds import BoundedClient
from maitred.backends.listing import clean
from maitred.backends.references import resolve_aside
from maitred.backends.session import open_session
from maitred.config.interpolate import UnresolvedReferenceError, resolve_named
from maitred.config.redaction import SECRETS
from maitred.config.settings import Limits
from maitred.model.servers import FaultCode, ServerSpec
from maitred.model.transports import transport_kind
from maitred.tls import tls_context

MakeTransport = Callable[[], httpx2.AsyncBaseTransport]
"""Makes a transport that checks where it connects to."""

_AFTER_CLOSING = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_REFUSED = 400
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_NOT_FOUND = 404
_LONGEST = 300
_BETWEEN = re.compile(r"[/?&=:@#]")


class TokenSource(Protocol):
    """Provides the access token of a server's login. The texts of its errors are ready to be shown."""

    @property
    def scope(self) -> str:
        """The scopes of the last token, separated by blanks; empty if they are not known."""
        ...

    @property
    def remedy(self) -> str:
        """What helps if the server refuses the tokens, after "run" or the like: `run COMMAND`."""
        ...

    async def token(self) -> str:
        """A token that is valid as far as the gateway knows.

        Raises:
            LoginNeededError: The operator has not logged in, or not with these settings.
            ConnectError: No token can be had for now.
        """
        ...

    async def renewed(self, refused: str) -> str:
        """A token other than `refused`, which the server has refused.

        Raises:
            LoginNeededError: The operator must log in again.
            ConnectError: No token can be had for now.
        """
        ...


TokensOf = Callable[[str], TokenSource]
"""The tokens of a principal; those of the gateway, for an empty name."""


class HttpBackend(Backend):
    """Opens sessions with a server at a URL; the references in its headers are resolved each time.

    With `tokens_of`, all requests of a session carry the tokens of the principal that the session is for.
    """

    def __init__(
        self,
        spec: ServerSpec,
        *,
        resolve: Resolve,
        limits: Limits,
        make_transport: MakeTransport | None = None,
        tokens_of: TokensOf | None = None,
    ) -> None:
        self.spec = spec
        self._resolve = resolve
        self._limits = limits
        self._make_transport = make_transport
        self._tokens_of = tokens_of

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Open a session; failures of the network become reasons, not tracebacks."""
        url, headers = await resolve_aside((self.spec.url, *self.spec.headers.values()), self._target)
        tokens = self._tokens_of(options.principal) if self._tokens_of else None
        if tokens is not None:
            await tokens.token()
        refused = Refusals(self.spec, url, tokens)
        served = False
        try:
            async with AsyncExitStack() as stack:
                read, write = await self._streams(stack, url, headers, refused, tokens)
                dispatcher = EndingDispatcher(read, write)
                refused.missing, refused.locked_out = dispatcher.not_found, dispatcher.locked_out
                connection = await stack.enter_async_context(
                    open_session(self.spec, dispatcher, dispatcher, options, self._limits)
                )
                yield connection
                served = True
        except Exception as error:
            if served and any(find(error, kind) for kind in _AFTER_CLOSING):
                return  # the SDK's transports fail on their own closing if an answer comes at that moment
            if reason := refused.reason(error):
                raise reason from error
            kinds = (httpx2.HTTPError, httpx2.InvalidURL, OSError)
            if failure := next(filter(None, (find(error, kind) for kind in kinds)), None):
                told = _unresolved(str(failure), self.spec, url) or type(failure).__name__
                raise ConnectError(f"{self.spec.url} cannot be reached: {told}") from error
            raise

    def _target(self) -> tuple[str, dict[str, str]]:
        """The address and the headers, with references resolved."""
        try:
            url = self._resolve(self.spec.url)
            headers = resolve_named(self.spec.headers, "headers", self._resolve)
        except UnresolvedReferenceError as error:
            raise reference_error(error) from error
        SECRETS.learn_address(url, headers)
        return url, headers

    async def _streams(
        self,
        stack: AsyncExitStack,
        url: str,
        headers: dict[str, str],
        refused: "Refusals",
        tokens: TokenSource | None,
    ) -> TransportStreams:
        async def watch(response: httpx2.Response) -> None:
            refused.note(response)

        auth = TokenAuth(tokens, refused) if tokens is not None else None
        limit = self._limits.max_message_bytes

        def client(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,  # the SDK's signature
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            del timeout
            return BoundedClient(
                limit,
                headers=headers,
                timeout=httpx2.Timeout(30, read=max(300.0, self.spec.timeouts.call_s + 10)),
                auth=auth,
                transport=self._make_transport() if self._make_transport else None,
                verify=tls_context(),
                event_hooks={"response": [watch]},
            )

        if transport_kind(self.spec.transport).opened_by == "GET":
            return await stack.enter_async_context(
                sse_client(url, headers=headers, httpx_client_factory=client, auth=auth)
            )
        opened = await stack.enter_async_context(client(headers, auth=auth))
        return await stack.enter_async_context(
            streamable_http_client(url, http_client=opened, max_sse_event_size=limit)
        )


class TokenAuth(httpx2.Auth):
    """Sends the token of a login, and a renewed one after a refusal.

    It never raises, since that would end the session. It keeps the problem for the request, which the
    server then refuses.
    """

    def __init__(self, tokens: TokenSource, refused: "Refusals") -> None:
        self._tokens = tokens
        self._refused = refused
        self._last = ""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sign a request; see `httpx2.Auth`."""
        problem: ConnectError | None = None
        try:
            self._last = await self._tokens.token()
        except ConnectError as error:
            problem = error
        sent = self._last
        response = yield _signed(request, sent)
        if response.status_code == _UNAUTHORIZED and problem is None:
            try:
                self._last = await self._tokens.renewed(sent)
            except ConnectError as error:
                problem = error
            else:
                await _dropped(response)
                response = yield _signed(request, self._last)
        if response.status_code in (_UNAUTHORIZED, _FORBIDDEN):
            self._refused.lock_out(request, problem or self._refused.unwanted(response))


async def _dropped(response: httpx2.Response) -> None:
    """Replace the body of a refusal by an empty one: the client reads it to its end, which may never come."""
    await cast("httpx2.AsyncByteStream", response.stream).aclose()
    response.stream = httpx2.ByteStream(b"")


def _signed(request: httpx2.Request, token: str) -> httpx2.Request:
    request.headers["Authorization"] = f"Bearer {token}"
    return request


class Refusals:
    """Records why the server refused the last request, and notifies the dispatcher."""

    def __init__(self, spec: ServerSpec, url: str, tokens: TokenSource | None) -> None:
        self._spec = spec
        self._url = url
        self._tokens = tokens
        self._last: ConnectError | None = None
        self._is_locked_out = False
        self.missing: Callable[[Any], None] = lambda _: None
        self.locked_out: Callable[[Any, str], None] = lambda _, __: None

    def note(self, response: httpx2.Response) -> None:
        """Inspect an answer; the last one explains why a session cannot be opened."""
        request, status = response.request, response.status_code
        if request.method == "POST" or transport_kind(self._spec.transport).opened_by == "GET":
            self._look(response)
        if request.method != "POST":
            return
        if status == _NOT_FOUND and "mcp-session-id" in request.headers:
            self.missing(_id(request))
        elif status == _UNAUTHORIZED and self._spec.auth is None:
            self.lock_out(request, self._explained(status))

    def _look(self, response: httpx2.Response) -> None:
        if response.status_code >= _REFUSED:
            if not self._is_locked_out:  # what the server says of the next attempt explains less
                self._last = self._explained(response.status_code)
            return
        self._last, self._is_locked_out = None, False
        if response.has_redirect_location:
            sent = response.request.url
            target = sent.join(response.headers["location"])
            if (target.scheme, target.host, target.port) == (sent.scheme, sent.host, sent.port):
                return
            shown = str(target.copy_with(userinfo=b"", query=None, fragment=None))
            shown = clean(_unresolved(shown, self._spec, self._url))[:_LONGEST]
            self._last = ConnectError(
                f"{self._spec.url} redirects to {shown}, which the gateway does not follow;"
                " if you mean that server, set `url` to it"
            )

    def lock_out(self, request: httpx2.Request, problem: ConnectError) -> None:
        """Record that the server wants other credentials for a request."""
        self._last, self._is_locked_out = problem, True
        if request.method == "POST":
            self.locked_out(_id(request), str(problem))

    @property
    def _has_scope(self) -> str:
        return self._tokens.scope if self._tokens else ""

    @property
    def _remedy(self) -> str:
        return self._tokens.remedy if self._tokens else ""

    def unwanted(self, response: httpx2.Response) -> ConnectError:
        """Why the server refuses a token that was just renewed, or that lacks a scope beside those it has."""
        if response.status_code == _UNAUTHORIZED:
            return LoginNeededError(f"it refuses the token of its login: {self._remedy}")
        told = response.headers.get("www-authenticate", "")
        if "insufficient_scope" not in told:
            return self._explained(response.status_code)
        scope = clean(told.partition('scope="')[2].partition('"')[0])[:_LONGEST]
        wanted = ", ".join(dict.fromkeys([*self._has_scope.split(), *scope.split()]))
        choice = f"servers.{self._spec.name}.auth.scopes"
        lacks = f"the scope {scope!r}: set {choice} to [{wanted}]"
        if not scope:
            lacks = f"a scope that the server does not name: add it to {choice}, beside [{wanted}],"
        return LoginNeededError(f"its login lacks {lacks} and {self._remedy}")

    def reason(self, error: Exception) -> ConnectError | None:
        """What the server refused, if that is why a session failed."""
        return None if find(error, httpx2.TransportError) else self._last

    def _explained(self, status: int) -> ConnectError:
        weak = "the account of the login may not do this" if self._spec.auth else "check `headers`"
        advice = {
            _UNAUTHORIZED: _locked(self._spec),
            _FORBIDDEN: f"the credentials are not enough; {weak}",
            _NOT_FOUND: "there is nothing at this path; check `url`",
            405: "it does not take POST; try `transport: sse`",
        }
        told = advice.get(status, "its own log may say why")
        fault: FaultCode = "unauthorized" if status == _UNAUTHORIZED else ""
        return ConnectError(f"{self._spec.url} answered HTTP {status}: {told}", fault=fault)


def _unresolved(text: str, spec: ServerSpec, url: str) -> str:
    """Mask the resolved references of a server's URL in a text."""
    if url == spec.url:
        return text
    text = text.replace(url, spec.url)
    pieces = {piece for piece in _BETWEEN.split(url) if piece and piece not in spec.url}
    pieces |= {quote(piece, safe="") for piece in pieces} | {quote(piece) for piece in pieces}
    for piece in sorted(pieces, key=len, reverse=True):
        text = text.replace(piece, "***")
    return text


def _locked(spec: ServerSpec) -> str:
    if spec.registered:
        return "it wants credentials; set `headers` in its manifest (for instance Authorization)"
    return (
        f"it wants credentials; set servers.{spec.name}.auth to oauth and run `maitred login {spec.name}`,"
        " or set `headers` (for instance Authorization)"
    )


def _id(request: httpx2.Request) -> Any:
    """The id of the JSON-RPC request in an HTTP request; `None` if it has none."""
    message = from_json(request.content)
    return message.get("id") if isinstance(message, dict) else None
