"""The menu: cheap, honest about what its tools do, and forgiving of the mistakes that models make."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import jsonschema_rs
import mcp_types as types
import pytest
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server

from maitred.backends.base import NOT_ASKED
from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Catalog, Settings
from maitred.disclosure.budget import for_model
from maitred.gateway import Gateway
from maitred.meta_tools.menu import META_TOOLS, definitions
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

ONE = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
RUN = {
    "type": "object",
    "properties": {"args": {"type": "array"}, "input": {"type": "object"}, "server": {"type": "string"}},
}
READS = types.ToolAnnotations(read_only_hint=True)


def make_server() -> Server[Any]:
    """A tool that reads, one that writes, and one whose parameters are called like keys of `call_tool`."""
    tools = [
        types.Tool(name="read_file", description="Read a file.", input_schema=ONE, annotations=READS),
        types.Tool(name="write_file", description="Write a file.", input_schema=ONE),
        types.Tool(name="run", description="Start a job.", input_schema=RUN),
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
        assert await opened.settled(120)
        yield opened


async def ask(gateway: Gateway, name: str, arguments: Any) -> tuple[bool, str]:
    """Call a tool of the menu; whether the answer is an error, and its text."""
    surface = McpSurface(gateway)
    result = await surface.call_tool(
        {"name": name, "arguments": arguments}, "2025-11-25", NOT_ASKED, LOCAL_USER
    )
    return bool(result.get("isError")), str(result["content"][0]["text"])


def test_the_menu_costs_at_most_500_tokens() -> None:
    """It is paid for in every conversation. Source: DESIGN 5, menu."""
    [whole], each = count_tokens([for_model(definitions())]), [for_model([one]) for one in definitions()]
    shares = dict(zip(META_TOOLS, count_tokens(each), strict=True))

    assert whole <= 500, f"{whole - 500} tokens too many: make descriptions shorter; {shares}"


def test_a_client_that_defers_tools_keeps_the_menu_loaded() -> None:
    """A deferred menu is hardly used. What says so is for the client, which shows it to no model."""
    assert [one["_meta"] for one in definitions()] == [{"anthropic/alwaysLoad": True}] * len(META_TOOLS)
    assert '"_meta"' not in for_model(definitions())


async def test_the_menu_shows_exactly_the_tools_that_are_answered(gateway: Gateway) -> None:
    """No other name is a meta-tool's, and each of them answers: here with what is wrong about an argument."""
    shown = [definition["name"] for definition in definitions()]
    for name in shown:
        is_error, text = await ask(gateway, name, {"no_such_argument": 1})
        assert is_error
        assert "There is no tool" not in text

    assert shown == list(META_TOOLS)


@pytest.mark.parametrize("definition", definitions(), ids=lambda definition: str(definition["name"]))
def test_every_tool_of_the_menu_is_valid_and_annotated(definition: Mapping[str, Any]) -> None:
    """Clients ask the user, or do not, by these hints; calls of any tool may change anything."""
    tool = types.Tool.model_validate(definition)
    jsonschema_rs.validator_for(dict(definition["inputSchema"]))

    assert tool.annotations is not None
    entry = META_TOOLS[tool.name]
    assert tool.annotations.read_only_hint is (True if entry.reads_only else None)
    assert tool.annotations.destructive_hint is (None if entry.reads_only else True)
    assert tool.annotations.open_world_hint is entry.open_world
    if tool.name.startswith("call_"):
        assert entry.open_world
        assert entry.reads_only is (tool.name == "call_read_only_tool")


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
        ("search_tools", {"phrases": ["x"], "limit": "five"}, "`limit` must be a number"),
        ("search_tools", {"phrases": ["x"], "limit": True}, "`limit` must be a number"),
        ("search_tools", {"phrases": ["x"], "server": ["files"]}, "`server` must be a text"),
        ("search_tools", {"phrases": ["x"], "server": "file"}, "no server 'file'. Did you mean 'files'?"),
        ("search_tools", {"phrases": ["x"], "category": "dta"}, "no category 'dta'. Did you mean 'data'?"),
        ("list_tools_meta", {"path": 5}, "`path` must be a text"),
        ("list_tools_meta", {"cursor": {}}, "`cursor` must be a text"),
        ("list_tools_meta", {"path": "server/none"}, "There is no server 'none'"),
        ("list_tools_meta", {"path": "nowhere"}, "There is no page 'nowhere'"),
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
        ("call_tool", {"name": "read_file", "arguments": "[" * 100_000}, "does not parse"),
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
        ("search_tools", {"phrases": ["x"], "limit": 0}, "from 1 to 20"),
        ("search_tools", {"phrases": ["x"], "limit": 2.5}, "from 1 to 20"),
        ("search_tools", {"phrases": ["x"], "limit": "2 or 3"}, "from 1 to 20"),
        ("search_tools", {"phrases": ["x"], "limits": 3}, "no argument `limits`; did you mean `limit`?"),
        ("search_tools", {"phrases": ["x"], "top": 3}, "no argument `top`; it takes `phrases`, `server`,"),
        ("search_tools", {"phrases": ["x"], "query": "y"}, "`phrases` and `query` mean the same"),
        ("list_tools_meta", {"server": "files", "path": "servers"}, "`path` and `server`"),
        ("list_tools_meta", {"page_size": 0}, "from 1 to 50"),
        ("list_tools_meta", {"page": 2}, "no argument `page`"),
        ("tool_info", {"names": ["read_file"], "full": True}, "no argument `full`"),
        ("tool_info", {"names": ["search_tools"]}, "`search_tools` is a tool beside `tool_info`"),
        ("call_tool", {"name": "search_tools", "arguments": {}}, "beside `call_tool`: call it directly"),
        ("call_tool", {"name": "mcp__maitred__tool_info", "arguments": {}}, "`tool_info` is a tool beside"),
        ("call_tool", {"name": "read_file", "tool": "write_file"}, "`name` and `tool` mean the same"),
        (
            "call_tool",
            {"name": "read_file", "arguments": {"path": "/x"}, "path": "/y"},
            "you sent `path` beside `arguments`",
        ),
        ("call_tool", {"name": "read_file", "file": "/x"}, "you sent `file` beside `name`"),
        ("call_tool", {"name": "read_file", "file": "/x"}, '"required":["path"]'),
        ("call_tool", {"name": "red_file", "path": "/x"}, "Did you mean files__read_file"),
        ("call_tool_chain", {"code": "1", "dry": True}, "no argument `dry`"),
        ("call_tool_chain", {"code": "1", "timeout_ms": -1}, "from 1 to 60,000"),
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
        ("list_tools_meta", {"server": "files"}),
        ("list_tools_meta", {"category": "files_text"}),
        ("list_tools_meta", {"path": "server/files", "page_size": "3"}),
        ("search_tools", {"phrases": "read a file", "limit": "3"}),
        ("search_tools", {"phrases": "read a file", "limit": 10**30}),
        ("search_tools", {"phrases": '["read a file"]', "limit": " 3 ", "read_only": "true"}),
        ("search_tools", {"phrase": "read a file", "server": "server/files"}),
        ("tool_info", {"tools": ["files.read_file"]}),
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


@pytest.mark.parametrize(
    "name",
    [
        *("files.read_file", "files/read_file", "files:read_file", "mcp__files__read_file"),
        *("mcp__maitred__files__read_file", "read_file"),
    ],
)
async def test_a_name_that_can_mean_one_tool_only_is_taken(gateway: Gateway, name: str) -> None:
    """Models write names as their client or their training has them. Source: docs/tools.md, names."""
    called = await ask(gateway, "call_tool", {"name": name, "arguments": {"path": "/x"}})
    described = await ask(gateway, "tool_info", {"names": [name]})

    assert (called[0], json.loads(called[1])) == (False, ["read_file", {"path": "/x"}])
    assert "files__read_file(path: str)" in described[1]


async def test_a_name_with_a_character_that_nobody_sees_is_refused(gateway: Gateway) -> None:
    """What stands in a log must be what was called."""
    is_error, text = await ask(gateway, "call_tool", {"name": "files.read\u200b_file", "arguments": {}})

    assert is_error
    assert "There is no tool named" in text


@pytest.mark.parametrize(
    "arguments",
    [
        {"tool": "files__read_file", "arguments": {"path": "/x"}},
        {"tool_name": "files__read_file", "arguments": {"path": "/x"}},
        {"name": "files__read_file", "args": {"path": "/x"}},
        {"name": "files__read_file", "parameters": '{"path": "/x"}'},
        {"name": "files__read_file", "path": "/x"},
        {"name": "files__read_file", "arguments": {}, "path": "/x"},
        {"name": "files__read_file", "arguments": {"path": "/x"}, "path": "/x"},
        {"name": "files__read_file", "arguments": {"path": "/x"}, "reason": None},
        {"name": "read_file", "server": "files", "arguments": {"path": "/x"}},
        {"name": "files__read_file", "server": "files", "path": "/x"},
    ],
    ids="-".join,
)
async def test_what_stands_beside_the_arguments_is_taken_where_it_is_clear(
    gateway: Gateway, arguments: dict[str, Any]
) -> None:
    """Models name keys otherwise, or put the tool's own beside them; none is dropped."""
    is_error, text = await ask(gateway, "call_tool", arguments)

    assert (is_error, json.loads(text)) == (False, ["read_file", {"path": "/x"}])


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ({"input": {"a": 1}}, {"input": {"a": 1}}),
        ({"args": ["-l"], "server": "prod"}, {"args": ["-l"], "server": "prod"}),
        ({"params": {"input": {"a": 1}}}, {"input": {"a": 1}}),
    ],
    ids=["input", "args-server", "params"],
)
async def test_a_key_that_is_a_parameter_of_the_tool_is_that_parameter(
    gateway: Gateway, sent: dict[str, Any], received: dict[str, Any]
) -> None:
    """Though it could be another name for `arguments`, or the server's."""
    is_error, text = await ask(gateway, "call_tool", {"name": "files__run", **sent})

    assert (is_error, json.loads(text)) == (False, ["run", received])


@pytest.mark.parametrize("arguments", [None, "", "  ", {}])
async def test_missing_arguments_are_no_arguments(gateway: Gateway, arguments: Any) -> None:
    """The tool's schema then says what is missing."""
    is_error, text = await ask(gateway, "call_tool", {"name": "write_file", "arguments": arguments})

    assert is_error
    assert '"path" is a required property' in text
