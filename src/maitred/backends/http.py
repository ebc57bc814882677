"""A server that is reached over HTTP: streamable HTTP, or the older HTTP with server-sent events."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

from maitred.backends.base import ConnectError, Connection, ConnectOptions, Resolve, find
from maitred.backends.session import SESSION_FORGOTTEN, open_session
from maitred.config.interpolate import UnresolvedReferenceError
from maitred.config.settings import Limits
from maitred.model.servers import ServerSpec

_REFUSED = 400


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
        refused: list[int] = []
        try:
            async with AsyncExitStack() as stack:
                read, write = await self._streams(stack, url, headers, refused)
                dispatcher = _HttpDispatcher(read, write)
                connection = await stack.enter_async_context(
                    open_session(self.spec, dispatcher, dispatcher, options, self._limits)
                )
                yield connection
        except Exception as error:
            if refused and not find(error, httpx2.TransportError):
                raise ConnectError(_explain_status(url, refused[-1])) from error
            if failure := find(error, httpx2.HTTPError) or find(error, OSError):
                raise ConnectError(f"{url} cannot be reached: {failure or type(failure).__name__}") from error
            raise

    async def _streams(
        self, stack: AsyncExitStack, url: str, headers: dict[str, str], refused: list[int]
    ) -> TransportStreams:
        async def watch(response: httpx2.Response) -> None:
            if response.status_code >= _REFUSED and response.request.method == "POST":
                refused.append(response.status_code)

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
        return await stack.enter_async_context(streamable_http_client(url, http_client=opened))


class _HttpDispatcher(JSONRPCDispatcher[Any]):
    """The SDK's dispatcher, which also tells when the server has forgotten the session."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._ended = anyio.Event()
        self._reason = "the connection was closed"

    async def run(self, *args: Any, **kwargs: Any) -> None:
        try:
            await super().run(*args, **kwargs)
        finally:
            self._ended.set()

    async def send_raw_request(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            return await super().send_raw_request(*args, **kwargs)
        except MCPError as error:
            if error.code == INVALID_REQUEST and error.message == "Session terminated":
                self._reason = SESSION_FORGOTTEN
                self._ended.set()
                raise MCPError(CONNECTION_CLOSED, SESSION_FORGOTTEN) from error
            raise

    async def closed(self) -> str:
        """Wait for the end and return the reason."""
        await self._ended.wait()
        return self._reason


def _explain_status(url: str, status: int) -> str:
    advice = {
        401: "it wants credentials; set `headers` (for instance Authorization)",
        403: "the credentials are not enough; check `headers`",
        404: "nothing is there; check `url`",
        405: "it does not take POST; try `transport: sse`",
    }
    return f"{url} answered HTTP {status}: {advice.get(status, 'its own log may say why')}"
