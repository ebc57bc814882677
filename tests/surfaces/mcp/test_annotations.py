"""What clients are told about answers and resources: who should read them, how much they matter, how used."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.version import LATEST_MODERN_VERSION

from maitred.chains.saved_chain import parse_saved
from maitred.config.sections import saved_spec
from maitred.config.settings import SAVED, Catalog, Disclosure, Results, SavedEntry, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0
Context = ServerRequestContext[Any, Any]
both_eras = pytest.mark.parametrize("era", ["legacy", LATEST_MODERN_VERSION])
SHORT = {"audience": ["assistant"], "priority": 0.7}
LONG = {"audience": ["assistant"], "priority": 0.3}
OWN = types.Annotations(audience=["user"], priority=1.0)
CONTENT: dict[str, list[types.ContentBlock]] = {
    "short": [types.TextContent(text="x" * 2_000)],
    "long": [types.TextContent(text="x" * 2_000), types.TextContent(text="y")],
    "own": [types.TextContent(text="for people", annotations=OWN), types.TextContent(text="for models")],
    "picture": [types.ImageContent(data="AAAA", mime_type="image/png")],
}
SAVED_TEXT = "description: Say it twice.\ncode: |\n  return 'z' * {count}\n"


def make_server() -> Server[Any]:
    """A server that answers with texts of any length, with annotations of its own, or with a picture."""

    async def list_tools(_: Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=f"Answer {name}.", input_schema={"type": "object"})
                for name in CONTENT
            ]
        )

    async def call_tool(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=CONTENT[params.name])

    return Server("s", on_list_tools=list_tools, on_call_tool=call_tool)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateway outlives tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("annotations")
    entries = {}
    for name, count in (("brief", 10), ("wordy", 3_000)):
        text = SAVED_TEXT.format(count=count)
        (folder / f"{name}.yaml").write_text(text)
        entries[name] = SavedEntry(file=f"{name}.yaml", hash=parse_saved(name, text).hash)
    source = folder / "maitred.yaml"
    settings = Settings(
        source=source,
        servers={"s": ServerSpec(name="s", transport="memory"), SAVED: saved_spec(source, entries)},
        chains=entries,
        disclosure=Disclosure(mode="menu"),
        results=Results(max_tokens=2_000),
        catalog=Catalog(path=str(folder / "c.db")),
    )
    async with open_gateway(settings, in_process={"s": make_server()}) as opened:
        assert await opened.settled(SOON_S)
        yield opened


async def answer(gateway: Gateway, era: str, name: str, /, **arguments: Any) -> list[Any]:
    """The annotations of each block of an answer, as a client of an era reads them."""
    with anyio.fail_after(SOON_S):
        async with Client(McpSurface(gateway).server, mode=era) as client:
            result = await client.call_tool(name, arguments)
    return [
        block.annotations.model_dump(by_alias=True, exclude_none=True) if block.annotations else None
        for block in result.content
    ]


@both_eras
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_tools", {"phrases": ["answer short"]}),
        ("list_tools_meta", {}),
        ("list_tools_meta", {"path": "server/s"}),
        ("tool_info", {"names": ["s__short"]}),
        ("tool_info", {"names": ["no_such_tool"]}),
        ("search_tools", {"no_such_argument": 1}),
        ("call_tool_chain", {"code": "return 1"}),
        ("call_tool", {"name": "s__nothing"}),
        ("call_tool", {"name": "chains__brief"}),
        ("chains__brief", {}),
    ],
)
async def test_each_answer_of_the_menu_is_for_the_agent(
    gateway: Gateway, era: str, name: str, arguments: dict[str, Any]
) -> None:
    """Short answers, errors too, matter more than long ones. Source: document 001, task 1.4."""
    assert await answer(gateway, era, name, **arguments) == [SHORT]


@both_eras
async def test_a_long_answer_matters_less(gateway: Gateway, era: str) -> None:
    """Above 2,000 characters in all: of a server, of a chain, of a saved chain. Source: the same."""
    code = "return 'z' * 3000"

    assert await answer(gateway, era, "call_tool", name="s__short") == [SHORT]
    assert await answer(gateway, era, "call_tool", name="s__long") == [LONG, LONG]
    assert await answer(gateway, era, "call_tool_chain", code=code) == [LONG]
    assert await answer(gateway, era, "call_tool", name="chains__wordy") == [LONG]
    assert await answer(gateway, era, "chains__wordy") == [LONG]


@both_eras
async def test_what_a_server_says_of_its_answer_is_kept(gateway: Gateway, era: str) -> None:
    """Only blocks without annotations get some; by its own name a tool answers with nothing of ours."""
    own = OWN.model_dump(by_alias=True, exclude_none=True)

    assert await answer(gateway, era, "call_tool", name="s__own") == [own, SHORT]
    assert await answer(gateway, era, "s__own") == [own, None]
    assert await answer(gateway, era, "s__long") == [None, None]


@both_eras
async def test_a_picture_is_for_people_too(gateway: Gateway, era: str) -> None:
    """A client that heeds the audience still shows it to its user."""
    [picture] = await answer(gateway, era, "call_tool", name="s__picture")

    assert picture == {"audience": ["user", "assistant"], "priority": 0.7}


@both_eras
async def test_resources_say_how_their_tools_are_used(gateway: Gateway, era: str) -> None:
    """Calls, the share that succeeded, and the last time, of a tool and of its server. Source: task 4.3."""
    await answer(gateway, era, "call_tool", name="s__picture")
    await gateway.update_tiers(LOCAL_USER)
    usage: dict[str, Any] = {}
    with anyio.fail_after(SOON_S):
        async with Client(McpSurface(gateway).server, mode=era) as client:
            for path in ("tool/s__picture", "server/s", "server/s/tools", "overview"):
                [content] = (await client.read_resource(f"maitred://{path}")).contents
                usage[path] = (content.meta or {}).get("maitred/usage")

    of_tool = usage["tool/s__picture"]
    assert of_tool is not None
    assert of_tool["calls"] >= 1
    assert of_tool["success_rate"] == 1
    assert of_tool["last_used"] > "2026"
    assert usage["server/s"] == usage["server/s/tools"]
    assert usage["server/s"]["calls"] >= of_tool["calls"]
    assert usage["overview"] is None
