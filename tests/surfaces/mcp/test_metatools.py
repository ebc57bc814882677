"""The menu: cheap, honest about what its tools do, and forgiving of the mistakes that models make."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import jsonschema_rs
import mcp_types as types
import pytest
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server

from maitred.catalog.counting import count_tokens
from maitred.config.settings import Catalog, Settings
from maitred.gateway import Gateway
from maitred.model.principals import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.surfaces.mcp.metatools import DEFINITIONS, HANDLERS, INSTRUCTIONS
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

ONE = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READS = types.ToolAnnotations(read_only_hint=True)


def make_server() -> Server[Any]:
    """A tool that reads and one that writes."""
    tools = [
        types.Tool(name="read_file", description="Read a file.", input_schema=ONE, annotations=READS),
        types.Tool(name="write_file", description="Write a file.", input_schema=ONE),
    ]

    async def list_tools(_: ServerRequestContext[Any, Any], __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        _: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        text = json.dumps([params.name, params.arguments])
        return types.CallToolResult(content=[types.TextContent(text=text)])

    return Server("files", on_list_tools=list_tools, on_call_tool=call_tool)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateway outlives tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("menu")
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"files": ServerSpec(name="files", transport="memory")},
        catalog=Catalog(path=str(folder / "c.db")),
    )
    async with open_gateway(settings, in_process={"files": make_server()}) as opened:
        assert await opened.settled(30)
        yield opened


async def report(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Nobody follows the progress."""


async def ask(gateway: Gateway, name: str, arguments: Any) -> tuple[bool, str]:
    """Call a tool of the menu; whether the answer is an error, and its text."""
    surface = McpSurface(gateway)
    result = await surface.call_tool({"name": name, "arguments": arguments}, "2025-11-25", report, LOCAL_USER)
    return bool(result.get("isError")), str(result["content"][0]["text"])


def test_the_menu_costs_at_most_500_tokens() -> None:
    """It is paid for in every conversation. Source: DESIGN 5, menu."""
    compact = json.dumps(DEFINITIONS, ensure_ascii=False, separators=(",", ":"))

    assert count_tokens([compact])[0] <= 500


def test_the_instructions_name_only_tools_that_exist() -> None:
    """A model that follows them never calls in vain."""
    named = {word.strip(",.;") for word in INSTRUCTIONS.split() if "_" in word}

    assert named
    assert named <= set(HANDLERS)


def test_the_menu_shows_exactly_the_tools_that_are_answered() -> None:
    """Every definition has a handler and every handler a definition."""
    assert [definition["name"] for definition in DEFINITIONS] == list(HANDLERS)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: str(definition["name"]))
def test_every_tool_of_the_menu_is_valid_and_annotated(definition: Mapping[str, Any]) -> None:
    """Clients ask the user, or do not, by these hints; calls of any tool may change anything."""
    tool = types.Tool.model_validate(definition)
    jsonschema_rs.validator_for(dict(definition["inputSchema"]))

    assert tool.annotations is not None
    changes = tool.name in ("call_tool", "call_tool_chain")
    assert tool.annotations.read_only_hint is (None if changes else True)
    assert tool.annotations.destructive_hint is (True if changes else None)
    assert definition["annotations"].get("openWorldHint") is tool.name.startswith("call_")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search_tools", {}, "`phrases` must be a list of texts"),
        ("search_tools", {"phrases": []}, "`phrases` must be a list of texts"),
        ("search_tools", {"phrases": "  "}, "`phrases` must be a list of texts"),
        ("search_tools", {"phrases": [1]}, "`phrases` must be a list of texts"),
        ("search_tools", {"phrases": ["x"], "limit": float("inf")}, "`limit` must be a number"),
        ("search_tools", {"phrases": ["x"], "limit": float("nan")}, "`limit` must be a number"),
        ("search_tools", {"phrases": ["x"], "limit": 0}, "`limit` must be a number"),
        ("search_tools", {"phrases": ["x"], "limit": 10**30}, "`limit` must be a number"),
        ("search_tools", {"phrases": ["x"], "limit": "five"}, "`limit` must be a number"),
        ("search_tools", {"phrases": ["x"], "limit": True}, "`limit` must be a number"),
        ("search_tools", {"phrases": ["x"], "server": ["files"]}, "`server` must be a text"),
        ("search_tools", {"phrases": ["x"], "server": "file"}, "server/files"),
        ("list_tools_meta", {"path": 5}, "`path` must be a text"),
        ("list_tools_meta", {"cursor": {}}, "`cursor` must be a text"),
        ("list_tools_meta", {"path": "server/none"}, "There is no page"),
        ("tool_info", {}, "`names` must be a list of texts"),
        ("tool_info", {"names": {"a": 1}}, "`names` must be a list of texts"),
        ("tool_info", {"names": ["read_file"], "detail": "all"}, "`detail` is brief or full"),
        ("tool_info", {"names": ["files__read"]}, "files__read_file"),
        ("call_tool", {}, "`name` is missing"),
        ("call_tool", None, "`name` is missing"),
        ("call_tool", {"name": 5}, "`name` must be a text"),
        ("call_tool", {"name": "read_file", "arguments": [1]}, "`arguments` must be an object"),
        ("call_tool", {"name": "read_file", "arguments": "[1]"}, "`arguments` must be an object"),
        ("call_tool", {"name": "read_file", "arguments": "{path"}, "does not parse"),
        ("call_tool", {"name": "read_file", "arguments": {}}, '"required":["path"]'),
        ("call_tool", {"name": "files__red_file"}, "Did you mean files__read_file"),
        ("call_read_only_tool", {"arguments": {}}, "`name` is missing"),
        ("call_tool_chain", {}, "`code` is missing"),
        ("call_tool_chain", {"code": " \n"}, "`code` is missing"),
        ("call_tool_chain", {"code": 5}, "`code` must be a text"),
        ("call_tool_chain", {"code": ["1"]}, "`tool` must name a tool"),
        ("call_tool_chain", {"code": "1", "dry_run": "yes"}, "`dry_run` must be true or false"),
        ("call_tool_chain", {"code": "1", "timeout_ms": 0}, "`timeout_ms` must be a number"),
        ("call_tool_chain", {"code": "1", "max_output_size": "all"}, "`max_output_size` must be a number"),
        ("call_tool_chain", {"code": "return (", "dry_run": True}, "Syntax error"),
        ("call_tool_chain", {"code": 'await call_tool("files__red_file", {})'}, "Did you mean"),
        ("call_read_only_tool", {"name": "write_file", "arguments": {"path": "/"}}, "use `call_tool`"),
    ],
)
async def test_a_mistake_in_the_arguments_is_answered_in_words(
    gateway: Gateway, name: str, arguments: Any, said: str
) -> None:
    """An error result that a model can act on, never a protocol error."""
    is_error, text = await ask(gateway, name, arguments)

    assert is_error
    assert said in text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_tools", {"phrases": "read a file"}),
        ("search_tools", {"query": "read a file", "limit": 2.0}),
        ("search_tools", {"queries": ["read a file"], "server": None, "limit": 999_999}),
        ("tool_info", {"name": "files__read_file"}),
        ("tool_info", {"names": "read_file", "detail": None}),
        ("list_tools_meta", {"path": "server/files"}),
    ],
)
async def test_what_a_model_clearly_meant_is_answered(
    gateway: Gateway, name: str, arguments: dict[str, Any]
) -> None:
    """One text for a list of one, a key of another name, a number with a point."""
    is_error, text = await ask(gateway, name, arguments)

    assert not is_error
    assert "files__read_file(path: str)" in text


@pytest.mark.parametrize("arguments", [{"path": "/x"}, '{"path": "/x"}'], ids=["object", "JSON text"])
@pytest.mark.parametrize("name", ["call_tool", "call_read_only_tool"])
async def test_a_tool_can_be_called_through_the_menu(gateway: Gateway, name: str, arguments: Any) -> None:
    """Its arguments may come as JSON text, as some models send them."""
    is_error, text = await ask(gateway, name, {"name": "files__read_file", "arguments": arguments})

    assert (is_error, json.loads(text)) == (False, ["read_file", {"path": "/x"}])


@pytest.mark.parametrize("arguments", [None, "", "  ", {}])
async def test_missing_arguments_are_no_arguments(gateway: Gateway, arguments: Any) -> None:
    """The tool's schema then says what is missing."""
    is_error, text = await ask(gateway, "call_tool", {"name": "write_file", "arguments": arguments})

    assert is_error
    assert '"path" is a required property' in text
