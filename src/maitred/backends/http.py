"""A server that is reached over HTTP: streamable HTTP, or the older HTTP with server-sent events."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from pydantic_core import from_json

from maitred.backends.base import ConnectError, Connection, ConnectOptions, Resolve, find
from maitred.backends.dispatcher import EndingDispatcher
from maitred.backends.session import open_session
from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.settings import Limits
from maitred.model.servers import ServerSpec

_REFUSED = 400
_NOT_FOUND = 404


class HttpBackend:
    """Opens a session with a server at a URL; the references in its headers are resolved each time."""

    pid = None

    def __init__(self, spec: ServerSpec, *, resolve: Resolve, limits: Limits) -> None:
        self.spec = spec
        self._resolve = resolve
        self._limits = limits

    def last_output(self) -> Sequence[str]:
        """A remote server's output is not ours to see."""
        return ()

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Open a session; failures of the network are reported as reasons, not as tracebacks."""
        try:
            url = self._resolve(self.spec.url)
            headers = {key: self._resolve(value) for key, value in self.spec.headers.items()}
        except UnresolvedReferenceError as error:
            raise ConnectError(f"its configuration refers to something missing: {error}") from error
        refused = _Refusals()
        served = False
        try:
            async with AsyncExitStack() as stack:
                read, write = await self._streams(stack, url, headers, refused)
                dispatcher = EndingDispatcher(read, write)
                refused.missing = dispatcher.not_found
                connection = await stack.enter_async_context(
                    open_session(self.spec, dispatcher, dispatcher, options, self._limits)
                )
                yield connection
                served = True
        except Exception as error:
            if served and find(error, anyio.BrokenResourceError):
                return  # the SDK's SSE transport stumbles over its own closing
            if answered := find(error, httpx2.HTTPStatusError):
                refused.note(answered.response.status_code, None)
            if refused.last and not find(error, httpx2.TransportError):
                raise ConnectError(_explain_status(url, refused.last)) from error
            if failure := find(error, httpx2.HTTPError) or find(error, OSError):
                raise ConnectError(f"{url} cannot be reached: {failure or type(failure).__name__}") from error
            raise

    async def _streams(
        self, stack: AsyncExitStack, url: str, headers: dict[str, str], refused: "_Refusals"
    ) -> TransportStreams:
        async def watch(response: httpx2.Response) -> None:
            if response.status_code >= _REFUSED and response.request.method == "POST":
                refused.note(response.status_code, response.request)

        def client(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,  # the SDK's signature
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            patience = httpx2.Timeout(30, read=max(300.0, self.spec.timeouts.call_s + 10))
            made = create_mcp_http_client(headers=headers, timeout=patience, auth=auth)
            made.event_hooks["response"].append(watch)
            return made

        if self.spec.transport == "sse":
            return await stack.enter_async_context(
                sse_client(url, headers=headers, httpx_client_factory=client)
            )
        opened = await stack.enter_async_context(client(headers))
        limit = self._limits.max_message_bytes
        return await stack.enter_async_context(
            streamable_http_client(url, http_client=opened, max_sse_event_size=limit)
        )


class _Refusals:
    """What the server refused: the last status, and whoever wants to know of a 404."""

    def __init__(self) -> None:
        self.last = 0
        self.missing: Callable[[Any], None] = lambda _: None

    def note(self, status: int, request: httpx2.Request | None) -> None:
        self.last = status
        if status == _NOT_FOUND and request is not None and "mcp-session-id" in request.headers:
            self.missing(from_json(request.content).get("id"))


def _explain_status(url: str, status: int) -> str:
    advice = {
        401: "it wants credentials; set `headers` (for instance Authorization)",
        403: "the credentials are not enough; check `headers`",
        404: "nothing is there; check `url`",
        405: "it does not take POST; try `transport: sse`",
    }
    return f"{url} answered HTTP {status}: {advice.get(status, 'its own log may say why')}"
