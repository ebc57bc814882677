"""Arguments in HTTP headers on both faces: what clients must send, and what servers get."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from starlette.types import ASGIApp

from maitred.access.tokens import TokenRequest
from maitred.config.settings import Catalog, Disclosure, Http, Mode, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Scope
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall
from maitred.surfaces.http.app import application
from maitred.surfaces.http.serve import serve_http
from maitred.surfaces.mcp.http import mcp_app
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0
MISMATCH = -32020
Context = ServerRequestContext[Any, Any]
ARGUMENTS = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "count": {"type": "integer", "x-mcp-header": "Count"},
    "dry": {"type": "boolean", "x-mcp-header": "Dry"},
    "where": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
}


class Upstream:
    """A server over HTTP that writes down the parameter headers of each call, and refuses wrong ones."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.lists = 0
        self.server: Server[Any] = Server("s", on_list_tools=self._tools, on_call_tool=self._call)

    async def _tools(self, _: Context, __: object) -> types.ListToolsResult:
        self.lists += 1
        good = {"type": "object", "properties": ARGUMENTS}
        bad = {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}
        listed = {"good": good, "bad": bad}
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema=schema) for name, schema in listed.items()]
        )

    async def _call(self, ctx: Context, _: types.CallToolRequestParams) -> types.CallToolResult:
        sent = dict(ctx.request.headers) if ctx.request is not None else {}
        self.headers.append({k: v for k, v in sent.items() if k.startswith("mcp-param-")})
        return types.CallToolResult(content=[types.TextContent(text="done")])


@asynccontextmanager
async def served(app: ASGIApp, settings: Http) -> AsyncIterator[str]:
    address, ready, stop = list[str](), anyio.Event(), anyio.Event()

    def listens(url: str) -> None:
        address.append(url)
        ready.set()

    async def serve() -> None:
        await serve_http(app, settings, stop=stop, ready=listens)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await ready.wait()
        yield address[0]
        stop.set()


@asynccontextmanager
async def between(folder: Path, mode: Mode) -> AsyncIterator[tuple[Gateway, Upstream, str]]:
    """A gateway with an HTTP server behind it, its server, and its address."""
    upstream = Upstream()
    with anyio.fail_after(SOON_S):
        async with served(upstream.server.streamable_http_app(), Http(port=0)) as url:
            settings = Settings(
                source=folder / "maitred.yaml",
                servers={"s": ServerSpec(name="s", transport="http", url=f"{url}/mcp")},
                disclosure=Disclosure(mode=mode),
                catalog=Catalog(path=str(folder / "c.db")),
                http=Http(port=0),
            )
            async with open_gateway(settings) as gateway:
                assert await gateway.settled(SOON_S)
                surface = McpSurface(gateway)
                app = application(gateway, settings.http, mcp_app(surface, settings.http))
                async with served(app, settings.http) as own:
                    yield gateway, upstream, own


async def post(
    url: str, arguments: Mapping[str, Any], headers: Mapping[str, str], token: str = ""
) -> dict[str, Any]:
    """Call `good` as a stateless client with headers of its own choice."""
    about = "io.modelcontextprotocol/"
    meta = {f"{about}protocolVersion": "2026-07-28", f"{about}clientCapabilities": {}}
    params = {"name": "s__good", "arguments": arguments, "_meta": meta}
    always = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "s__good",
    }
    always |= {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(verify=False, timeout=SOON_S) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = await client.post(f"{url}/mcp", json=body, headers={**always, **headers})
    answer: dict[str, Any] = response.json()
    assert response.status_code == (400 if "error" in answer else 200)
    return answer


WRONG: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"region": "eu"}, {}),
    ({"region": "eu"}, {"Mcp-Param-Region": "us"}),
    ({"region": "eu"}, {"Mcp-Param-Region": "=?base64?!!!?="}),
    ({"region": None}, {"Mcp-Param-Region": "eu"}),
    ({}, {"Mcp-Param-Region": "eu"}),
    ({"count": 7}, {"Mcp-Param-Count": "8"}),
    ({"where": {"zone": "a"}}, {}),
]
RIGHT: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {}),
    ({"region": "eu"}, {"mcp-param-region": "eu"}),
    ({"region": "Zürich"}, {"Mcp-Param-Region": "=?base64?WsO8cmljaA==?="}),
    ({"count": 7}, {"Mcp-Param-Count": "7.0"}),
    ({"where": {"zone": "a"}}, {"Mcp-Param-Zone": "a"}),
    ({}, {"Mcp-Param-Unknown": "eu"}),
]


async def test_a_stateless_client_must_send_the_headers_that_its_list_declares(tmp_path: Path) -> None:
    """A proxy may have routed by them. Source: 2026-07-28, streamable HTTP, server validation."""
    async with between(tmp_path, "all") as (gateway, upstream, url):
        wrong = [await post(url, *one) for one in WRONG]
        before = len(upstream.headers)
        right = [await post(url, *one) for one in RIGHT]
        made = await gateway.make_token(
            TokenRequest(name="ann", role="agent", scope=Scope(read_only=True)), LOCAL_USER
        )
        hidden = await post(url, {"region": "eu"}, {}, token=made.token)

    assert [answer["error"]["code"] for answer in wrong] == [MISMATCH] * len(WRONG)
    assert before == 0
    assert [answer["result"]["content"][0]["text"] for answer in right] == ["done"] * len(RIGHT)
    assert hidden["result"]["isError"]  # the headers of a tool that she may not see are no matter of hers


async def test_a_server_gets_the_headers_that_it_wants(tmp_path: Path) -> None:
    """Text, numbers and nested values, encoded where HTTP needs it; nothing for what is not there."""
    async with between(tmp_path, "all") as (gateway, upstream, url):
        for arguments in (
            {"region": "eu", "count": 7, "dry": None},
            {"region": "Zürich", "where": {"zone": " a\n"}},
            {"region": "=?base64?x?="},
            {},
        ):
            await gateway.call(ToolCall(name="s__good", arguments=arguments), viewer=LOCAL_USER)
        async with Client(f"{url}/mcp", mode="auto") as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
            through_us = await client.call_tool("s__good", {"region": "Zürich"})

    assert upstream.headers == [
        {"mcp-param-region": "eu", "mcp-param-count": "7"},
        {"mcp-param-region": "=?base64?WsO8cmljaA==?=", "mcp-param-zone": "=?base64?IGEK?="},
        {"mcp-param-region": "=?base64?PT9iYXNlNjQ/eD89?="},
        {},
        {"mcp-param-region": "=?base64?WsO8cmljaA==?="},
    ]
    assert not through_us.is_error
    assert listed == ["s__good"]


async def test_a_new_connection_learns_the_headers_before_its_first_call(tmp_path: Path) -> None:
    """A gateway that knows the tools from its catalog sends the headers too. Source: 2026-07-28."""
    async with between(tmp_path, "all"):
        pass
    async with between(tmp_path, "all") as (gateway, upstream, _):
        answer = await gateway.call(ToolCall(name="s__good", arguments={"region": "eu"}), viewer=LOCAL_USER)

    assert answer["content"][0]["text"] == "done"
    assert upstream.headers == [{"mcp-param-region": "eu"}]


async def test_behind_the_menu_a_client_needs_no_headers_of_tools_that_it_has_not_listed(
    tmp_path: Path,
) -> None:
    """It cannot know of them; those that it sends must be right. The server gets them from the gateway."""
    async with between(tmp_path, "menu") as (_, upstream, url):
        direct = await post(url, {"region": "eu"}, {})
        wrong = await post(url, {"region": "eu"}, {"Mcp-Param-Region": "us"})
        async with Client(f"{url}/mcp", mode="auto") as client:
            through = await client.call_tool("call_tool", {"name": "s__good", "arguments": {"region": "eu"}})

    assert direct["result"]["content"][0]["text"] == "done"
    assert wrong["error"]["code"] == MISMATCH
    assert not through.is_error
    assert upstream.headers == [{"mcp-param-region": "eu"}] * 2
