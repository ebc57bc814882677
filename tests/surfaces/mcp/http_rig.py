"""A gateway that listens on HTTP, with one server behind it, and clients that send what a test wants."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from tests.support.cut_line import CutLine, cut_line

from maitred.config.settings import Catalog, Disclosure, Http, Settings
from maitred.gateway import Gateway
from maitred.model.servers import ServerSpec
from maitred.surfaces.http.app import application
from maitred.surfaces.http.serve import serve_http
from maitred.surfaces.mcp.http import mcp_app
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

SOON_S = 120.0
Context = ServerRequestContext[Any, Any]
URI = "note://one"


class Upstream:
    """A server whose tool `slow` answers once `gate` is set, with a text of the length it is asked for.

    Before that it reports progress. `cancelled` is set if it was ended instead.
    """

    def __init__(self) -> None:
        self.reached, self.gate, self.unfollowed = anyio.Event(), anyio.Event(), anyio.Event()
        self.cancelled = anyio.Event()
        self._names = ["slow"]
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self.server: Server[Any] = Server(
            "s",
            on_list_tools=self._tools,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_read_resource=self._read,
            on_subscriptions_listen=self._listen,
        )

    async def add_tool(self, name: str) -> None:
        self._names.append(name)
        await self._bus.publish(ToolsListChanged())

    async def _tools(self, _: Context, __: object) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema=schema) for name in self._names]
        )

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        await ctx.session.report_progress(1)
        self.reached.set()
        try:
            await self.gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        text = "x" * int((params.arguments or {}).get("size", 1))
        return types.CallToolResult(content=[types.TextContent(text=text)])

    async def _resources(self, _: Context, __: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri=URI, name="one")])

    async def _read(self, _: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        content = types.TextResourceContents(uri=params.uri, text="one")
        return types.ReadResourceResult(contents=[content])

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        try:
            return await self._streams(ctx, params)
        finally:
            if params.notifications.resource_subscriptions:
                self.unfollowed.set()


@dataclass(frozen=True, kw_only=True)
class Rig:
    """A gateway that listens, its one server, and a line to it that can be cut."""

    gateway: Gateway
    upstream: Upstream
    line: CutLine
    url: str
    surface: McpSurface

    @asynccontextmanager
    async def session(self, token: str = "") -> AsyncIterator["RawSession"]:
        """A session of its own, opened by hand."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(
            base_url=self.url, headers=headers, timeout=SOON_S, verify=False
        ) as http:
            session = RawSession(http)
            await session.open()
            yield session

    @asynccontextmanager
    async def stateless(self) -> AsyncIterator["RawStateless"]:
        """A client of the stateless era."""
        async with httpx2.AsyncClient(base_url=self.url, timeout=SOON_S, verify=False) as http:
            yield RawStateless(http)


class RawSession:
    """A client that sends what a test wants, and sees what comes as it is on the wire."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self.headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}

    async def open(self, capabilities: Mapping[str, Any] = {}) -> None:
        about = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        response = await self.post("initialize", about, number=0)
        assert response.status_code == 200, response.text
        self.headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
        await self.post("notifications/initialized", {})

    async def post(
        self, method: str, params: Mapping[str, Any], number: int | None = None
    ) -> httpx2.Response:
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        body |= {} if number is None else {"id": number}
        return await self._http.post("/mcp", json=body, headers=self.headers)

    async def get(self, last_event_id: str) -> httpx2.Response:
        return await self._http.get("/mcp", headers={**self.headers, "Last-Event-ID": last_event_id})

    async def delete(self) -> httpx2.Response:
        return await self._http.delete("/mcp", headers=self.headers)

    @asynccontextmanager
    async def stream(self, last_event_id: str = "") -> AsyncIterator[AsyncIterator[dict[str, str]]]:
        """The events of a stream that is opened by GET."""
        headers = {**self.headers, **({"Last-Event-ID": last_event_id} if last_event_id else {})}
        async with self._http.stream("GET", "/mcp", headers=headers) as response:
            assert response.status_code == 200
            yield events_of(response)

    async def settle(self, number: Any, result: Mapping[str, Any]) -> httpx2.Response:
        """Answer a question of the gateway."""
        body = {"jsonrpc": "2.0", "id": number, "result": result}
        return await self._http.post("/mcp", json=body, headers=self.headers)

    def call(self, size: int) -> AbstractAsyncContextManager[AsyncIterator[dict[str, str]]]:
        """The events of a call of `slow`."""
        return self.call_named("s__slow", {"size": size})

    @asynccontextmanager
    async def call_named(
        self, name: str, arguments: Mapping[str, Any] = {}
    ) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
        """The events of a call, whose number is 7."""
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with self._http.stream("POST", "/mcp", json=body, headers=self.headers) as response:
            assert response.status_code == 200
            yield events_of(response)


class RawStateless:
    """A client of the stateless era that sends what a test wants; a header of `None` is left out."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    def body(self, method: str, params: Mapping[str, Any] = {}, *, meta: Mapping[str, Any] = {}) -> Any:
        about = "io.modelcontextprotocol/"
        own = {f"{about}protocolVersion": "2026-07-28", f"{about}clientCapabilities": {}, **meta}
        return {"jsonrpc": "2.0", "id": 5, "method": method, "params": {**params, "_meta": own}}

    def headers(self, body: Any, **other: str | None) -> dict[str, str]:
        """The headers of a message; others are named with underscores."""
        params = body.get("params") or {}
        headers: dict[str, str | None] = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": body.get("method"),
            "mcp-name": params.get("name"),
            **{name.replace("_", "-"): value for name, value in other.items()},
        }
        return {name: value for name, value in headers.items() if value is not None}

    async def post(self, body: Any, **headers: str | None) -> httpx2.Response:
        return await self.http.post("/mcp", json=body, headers=self.headers(body, **headers))


async def events_of(response: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name.rstrip(":")] = value
        elif not line and event:
            yield event
            event = {}


@asynccontextmanager
async def listening(folder: Path, http: Http | None = None) -> AsyncIterator[Rig]:
    http = http or Http(port=0)
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"s": ServerSpec(name="s", transport="memory")},
        disclosure=Disclosure(mode="all"),
        catalog=Catalog(path=str(folder / "c.db")),
        http=http,
    )
    upstream = Upstream()
    address, ready, stop = list[str](), anyio.Event(), anyio.Event()

    def listens(url: str) -> None:
        address.append(url)
        ready.set()

    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process={"s": upstream.server}) as gateway:
            assert await gateway.settled(SOON_S)
            surface = McpSurface(gateway)
            app = application(gateway, http, mcp_app(surface, http))
            async with anyio.create_task_group() as tasks:

                async def serve() -> None:
                    await serve_http(app, http, stop=stop, ready=listens, ending=surface.close)

                tasks.start_soon(serve)
                await ready.wait()
                port = urlsplit(address[0]).port or 0
                async with cut_line("127.0.0.1", port) as line:
                    yield Rig(gateway=gateway, upstream=upstream, line=line, url=address[0], surface=surface)
                stop.set()
