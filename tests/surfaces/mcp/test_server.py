"""The surface as a client sees it in both eras, and the parts of the SDK that it uses at its own risk."""

import base64
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.server import ServerRequestContext
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner, aclose_shielded, serve_one
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, InboundModernRoute, classify_inbound_request
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INVALID_PARAMS,
    PROTOCOL_VERSION_META_KEY,
)
from mcp_types.version import LATEST_MODERN_VERSION

from maitred.backends.base import NOT_ASKED
from maitred.config.settings import Catalog, Disclosure, Mode, Settings
from maitred.meta_tools.menu import definitions
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0
Context = ServerRequestContext[Any, Any]
both_eras = pytest.mark.parametrize("era", ["legacy", LATEST_MODERN_VERSION])


def make_server(count: int) -> Server[Any]:
    """A server with some tools, of which each answers with its name."""
    tools = [types.Tool(name=f"tool{n:03}", input_schema={"type": "object"}) for n in range(count)]

    async def list_tools(_: Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=params.name)])

    return Server("s", on_list_tools=list_tools, on_call_tool=call_tool)


@asynccontextmanager
async def surface_of(folder: Path, mode: Mode, count: int) -> AsyncIterator[McpSurface]:
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"s": ServerSpec(name="s", transport="memory")},
        disclosure=Disclosure(mode=mode),
        catalog=Catalog(path=str(folder / "c.db")),
    )
    async with open_gateway(settings, in_process={"s": make_server(count)}) as gateway:
        assert await gateway.settled(SOON_S)
        yield McpSurface(gateway)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateways outlive tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def menu(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[McpSurface]:
    """A surface that shows the menu."""
    async with surface_of(tmp_path_factory.mktemp("menu"), "menu", 3) as surface:
        yield surface


@pytest.fixture(scope="module")
async def everything(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[McpSurface]:
    """A surface that shows all of its 120 tools."""
    async with surface_of(tmp_path_factory.mktemp("all"), "all", 120) as surface:
        yield surface


@asynccontextmanager
async def client_of(surface: McpSurface, era: str) -> AsyncIterator[Client]:
    with anyio.fail_after(SOON_S):
        async with Client(surface.server, mode=era) as client:
            yield client


def text_of(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


# --- behaviour --------------------------------------------------------------------------------------------


@both_eras
async def test_the_menu_is_listed_as_it_is_defined(menu: McpSurface, era: str) -> None:
    """The same tools for every client, in one page; the first says what there is to be found."""
    async with client_of(menu, era) as client:
        listed = await client.list_tools()

    shown = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
    index = shown[0]["description"].removeprefix(definitions()[0]["description"])
    assert shown == definitions(index)
    assert index.startswith(" 3 tools on 1 server by category: ")
    assert listed.next_cursor is None


@both_eras
async def test_the_answer_of_a_tool_that_is_called_by_its_name_is_in_the_ledger(
    everything: McpSurface, era: str
) -> None:
    """As that by `call_tool` is; the client gets it as its server sent it."""
    gateway = everything._gateway
    before = await gateway.spending_stats(1, LOCAL_USER)
    async with client_of(everything, era) as client:
        answer = await client.call_tool("s__tool001", {})
    after = await gateway.spending_stats(1, LOCAL_USER)
    results = [sum(row.results for row in one.spending) for one in (before, after)]
    assert results[1] == results[0] + 1
    assert sum(row.result_tokens for row in after.spending) > 0
    assert text_of(answer) == "tool001"
    assert "maitred/tokens" not in (answer.meta or {})


@pytest.mark.parametrize("era", ["legacy", "auto"])  # which asks for the introduction of the stateless era
async def test_a_client_is_introduced_to_what_there_is(
    menu: McpSurface, everything: McpSurface, era: str
) -> None:
    """It says how to go on with what its list shows; only our own tools ask to be loaded always."""
    async with client_of(menu, era) as client:
        behind_the_menu, own = client.instructions, (await client.list_tools()).tools
    async with client_of(everything, era) as client:
        directly, others = client.instructions, (await client.list_tools()).tools

    assert behind_the_menu is not None
    assert directly is not None
    assert behind_the_menu.startswith("Gateway to 1 server: s. Categories: ")
    assert directly.startswith("Gateway to 1 server: s. Categories: ")
    assert "search_tools" in behind_the_menu
    assert "search_tools" not in directly
    assert {str(tool.meta) for tool in own} == {"{'anthropic/alwaysLoad': True}"}
    assert {tool.meta for tool in others} == {None}


@both_eras
async def test_tools_are_called_directly_and_through_the_menu(menu: McpSurface, era: str) -> None:
    """The published name works as the name of the call, listed or not."""
    async with client_of(menu, era) as client:
        direct = await client.call_tool("s__tool001", {})
        through = await client.call_tool("call_tool", {"name": "s__tool001"})

    assert text_of(direct) == text_of(through) == "tool001"


@both_eras
async def test_an_unknown_tool_is_a_protocol_error_that_names_the_nearest(menu: McpSurface, era: str) -> None:
    """-32602, as the protocol asks."""
    async with client_of(menu, era) as client:
        with pytest.raises(MCPError, match="Did you mean s__tool001") as caught:
            await client.call_tool("s_tool001", {})

    assert caught.value.code == INVALID_PARAMS


@both_eras
async def test_an_unknown_tool_through_the_menu_is_a_result_that_the_model_sees(
    menu: McpSurface, era: str
) -> None:
    """Clients do not show protocol errors to the model, which made the mistake and can mend it."""
    async with client_of(menu, era) as client:
        result = await client.call_tool("call_tool", {"name": "s_tool001"})

    assert result.is_error
    assert "Did you mean s__tool001" in text_of(result)


@both_eras
async def test_a_cursor_leads_to_the_next_page(everything: McpSurface, era: str) -> None:
    """Every tool once, in order, whatever the number of pages."""
    names: list[str] = []
    cursor = None
    async with client_of(everything, era) as client:
        while not names or cursor:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor

    assert names == [f"s__tool{n:03}" for n in range(120)]


@both_eras
@pytest.mark.parametrize("cursor", ["%%%", "abc", "é", base64.b64encode("é".encode()).decode()])
async def test_a_cursor_that_is_none_of_ours_is_refused(
    everything: McpSurface, era: str, cursor: str
) -> None:
    """-32602, with the way out."""
    async with client_of(everything, era) as client:
        with pytest.raises(MCPError, match="list from the start") as caught:
            await client.list_tools(cursor=cursor)

    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    "params", [{}, {"name": 5}, {"name": None}, {"name": "call_tool", "arguments": "{}"}], ids=str
)
async def test_a_malformed_call_is_a_protocol_error(menu: McpSurface, params: dict[str, Any]) -> None:
    """-32602 and what a call needs; nothing is called."""
    with pytest.raises(MCPError, match="a text `name` and an object `arguments`") as caught:
        await menu.call_tool(params, LATEST_MODERN_VERSION, NOT_ASKED, LOCAL_USER)

    assert caught.value.code == INVALID_PARAMS


# --- the parts of the SDK that are provisional or private -------------------------------------------------


async def test_contract_middleware_sees_every_request_before_its_handler() -> None:
    """A list on the server of functions of `(ctx, call_next)`, whose result goes to the client as it is."""
    seen: list[tuple[str, Any]] = []

    async def middleware(ctx: Context, call_next: Callable[[Context], Any]) -> Any:
        if ctx.method == "tools/call":
            seen.append((ctx.protocol_version, ctx.params))
            return {"content": [{"type": "text", "text": "by the middleware"}]}
        return await call_next(ctx)

    server = make_server(1)
    assert isinstance(server.middleware, list)
    server.middleware.append(middleware)
    with anyio.fail_after(SOON_S):
        async with Client(server, mode="legacy") as client:
            result = await client.call_tool("anything", {"a": 1})

    assert text_of(result) == "by the middleware"
    [(version, params)] = seen
    assert version == "2025-11-25"
    assert (params["name"], params["arguments"]) == ("anything", {"a": 1})


async def test_contract_a_session_has_its_connection_when_the_client_is_initialized() -> None:
    """`session._connection` is how handshake-era clients are found that want to hear of changes."""
    connections: list[Any] = []
    initialized = anyio.Event()

    async def middleware(ctx: Context, call_next: Callable[[Context], Any]) -> Any:
        result = await call_next(ctx)
        if ctx.method == "notifications/initialized":
            assert ctx.request_id is None
            connections.append(ctx.session._connection)
            initialized.set()
        return result

    server = make_server(1)
    server.middleware.append(middleware)
    with anyio.fail_after(SOON_S):
        async with Client(server, mode="legacy"):
            await initialized.wait()

    [connection] = connections
    assert isinstance(connection, Connection)
    sends = ("tool_list_changed", "resource_list_changed", "prompt_list_changed", "resource_updated")
    for name in sends:
        assert inspect.iscoroutinefunction(getattr(connection, f"send_{name}"))
    assert connection.initialize_accepted
    assert connection.protocol_version == "2025-11-25"


async def test_contract_a_session_asks_on_the_stream_of_its_request() -> None:
    """`session._request_outbound` is how a server's question finds the client of the call."""
    answers: list[Any] = []

    async def middleware(ctx: Context, call_next: Callable[[Context], Any]) -> Any:
        if ctx.method == "tools/list":
            link = ctx.session._request_outbound
            assert link.can_send_request
            answers.append(await link.send_raw_request("ping", None))
        return await call_next(ctx)

    server = make_server(1)
    server.middleware.append(middleware)
    with anyio.fail_after(SOON_S):
        async with Client(server, mode="legacy") as client:
            await client.list_tools()

    assert answers == [{}]


async def test_contract_a_connection_runs_what_was_left_with_it_when_it_ends() -> None:
    """`exit_stack` is where subscriptions end with the client that made them."""
    ended = anyio.Event()

    async def middleware(ctx: Context, call_next: Callable[[Context], Any]) -> Any:
        if ctx.method == "tools/list":
            ctx.session._connection.exit_stack.callback(ended.set)
        return await call_next(ctx)

    server = make_server(1)
    server.middleware.append(middleware)
    with anyio.fail_after(SOON_S):
        async with Client(server, mode="legacy") as client:
            await client.list_tools()
            assert not ended.is_set()
        await ended.wait()


@pytest.mark.parametrize(
    ("function", "positional", "keyword"),
    [
        (ServerRunner, ["server", "connection", "lifespan_state"], []),
        (serve_one, ["server", "dctx", "method", "params"], ["connection", "lifespan_state"]),
        (aclose_shielded, ["connection"], []),
        (Connection.for_loop, ["outbound"], []),
        (
            Connection.from_envelope,
            ["protocol_version", "client_info", "client_capabilities"],
            ["outbound"],
        ),
        (NotifyOnlyOutbound, ["outbound"], []),
        (classify_inbound_request, ["body"], []),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_contract_what_serves_standard_streams_has_the_signature_that_is_used(
    function: Callable[..., Any], positional: list[str], keyword: list[str]
) -> None:
    """`stdio.py` calls them like this; an update of the SDK that changes them fails here."""
    signature = inspect.signature(function)

    signature.bind(*positional, **dict.fromkeys(keyword))
    required = [p.name for p in signature.parameters.values() if p.default is p.empty]
    assert len(required) <= len(positional) + len(keyword)
    assert required[: len(positional)] == positional[: len(required)]


def test_contract_a_request_is_classified_by_its_envelope() -> None:
    """With it, the revision and what the client says of itself; without it, a code and a message."""
    meta = {
        PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        CLIENT_INFO_META_KEY: {"name": "c", "version": "1"},
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    route = classify_inbound_request({"method": "tools/list", "params": {"_meta": meta}})
    rejected = classify_inbound_request({"method": "tools/list", "params": {}})

    assert isinstance(route, InboundModernRoute)
    assert route.protocol_version == LATEST_MODERN_VERSION
    assert (route.client_info, route.client_capabilities) == ({"name": "c", "version": "1"}, {})
    assert isinstance(rejected, InboundLadderRejection)
    assert isinstance(rejected.code, int)
    assert rejected.message


def test_contract_a_runner_answers_requests_and_takes_notices() -> None:
    """Its two methods take a context, a method and parameters, and are awaited, as the two functions are."""
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None)
    runner: ServerRunner[Any] = ServerRunner(make_server(1), connection, None)

    for method in (runner.on_request, runner.on_notify):
        inspect.signature(method).bind("context", "tools/list", None)
        assert inspect.iscoroutinefunction(method)
    assert inspect.iscoroutinefunction(serve_one)
    assert inspect.iscoroutinefunction(aclose_shielded)
