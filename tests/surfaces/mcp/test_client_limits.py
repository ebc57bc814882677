"""A client that is known gets what it can take, by its own limits; any other gets what it got before.

A client is known by the name that it gives itself, in both eras. Source: docs/connect.md.
"""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from tests.support import deferring_client, wordy_server

from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Catalog, Disclosure, Mode, Settings
from maitred.model.servers import ServerSpec
from maitred.model.tools import RawTool, ToolKey
from maitred.surfaces.mcp.server import McpSurface
from maitred.wiring import open_gateway

SOON_S = 120.0
PER_TOKEN = 1.5
"""How many tokens of Claude 4.7 and later a text has for each of o200k, as the design says."""
LONG = 400_000
GROUP = "web_automation_tools"
"""The category of `page`."""
pytestmark = pytest.mark.anyio
both_eras = pytest.mark.parametrize("era", ["legacy", "auto"])

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateways outlive tests."""
    return "asyncio"


@asynccontextmanager
async def gateway_of(folder: Path, mode: Mode, count: int) -> AsyncIterator[Connect]:
    script = str(Path(wordy_server.__file__))
    spec = ServerSpec(name="w", command=sys.executable, args=("-I", "-S", script, str(count)))
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"w": spec},
        disclosure=Disclosure(mode=mode, break_even_tokens=0),
        catalog=Catalog(path=str(folder / "c.db")),
    )
    async with open_gateway(settings) as gateway:
        assert await gateway.settled(SOON_S)
        surface = McpSurface(gateway)

        @asynccontextmanager
        async def connect(name: str, era: str = "auto") -> AsyncIterator[Client]:
            info = types.Implementation(name=name, version="1")
            with anyio.fail_after(SOON_S):
                async with Client(surface.server, mode=era, client_info=info) as client:
                    yield client

        yield connect


@pytest.fixture(scope="module")
async def menu(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connect]:
    """A gateway that shows the menu."""
    async with gateway_of(tmp_path_factory.mktemp("menu"), "menu", 2) as connect:
        yield connect


@pytest.fixture(scope="module")
async def everything(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connect]:
    """A gateway that lists all of its 122 tools, most of which have names of more than 64 characters."""
    async with gateway_of(tmp_path_factory.mktemp("all"), "all", 120) as connect:
        yield connect


@pytest.fixture(scope="module")
async def categories(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connect]:
    """A gateway that lists categories."""
    async with gateway_of(tmp_path_factory.mktemp("categories"), "categories", 4) as connect:
        yield connect


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def page(client: Client, *, name: str = "w__page") -> str:
    inner = {"name": name, "arguments": {"characters": LONG}}
    return text_of(await client.call_tool("call_tool", inner))


async def tools_in(client: Client) -> list[types.Tool]:
    tools, cursor = [], None
    while True:
        listed = await client.list_tools(cursor=cursor)
        tools += listed.tools
        cursor = listed.next_cursor
        if cursor is None:
            return tools


async def names_in(client: Client) -> list[str]:
    return [tool.name for tool in await tools_in(client)]


# --- answers ----------------------------------------------------------------------------------------------


@both_eras
@pytest.mark.parametrize("name", ["claude-code", "Claude Code", "CLAUDE_CODE"])
async def test_an_answer_is_within_the_cap_of_claude_code_in_tokens_of_its_models(
    menu: Connect, era: str, name: str
) -> None:
    """It passes on 25,000, which 20,000 of o200k exceed. Case and separators of its name do not count."""
    async with menu(name, era) as client:
        text = await page(client)
    assert 10_000 < count_tokens([text])[0] * PER_TOKEN <= 25_000
    assert "Whole result: maitred://result/" in text


@both_eras
async def test_an_answer_is_within_the_cap_of_gemini_in_characters(menu: Connect, era: str) -> None:
    async with menu("gemini-cli-mcp-client", era) as client:
        assert 30_000 < len(await page(client)) <= 40_000


@both_eras
@pytest.mark.parametrize("name", ["nobody-knows-it", "", "claude", "x" * 10_000])
async def test_a_client_that_is_not_known_gets_what_the_settings_say(
    menu: Connect, era: str, name: str
) -> None:
    """20,000 tokens, as before."""
    async with menu("claude-code", era) as known, menu(name, era) as client:
        text = await page(client)
        assert len(text) > len(await page(known))
        assert len(text) > 40_000


async def test_the_rest_of_an_answer_is_read_in_pages_within_the_cap(menu: Connect) -> None:
    """Through `call_tool`, for a client whose model reads no resources."""
    async with menu("codex-mcp-client") as client:
        text = await page(client)
        uri = next(word for word in text.split() if word.startswith("maitred://result/"))
        first = text_of(await client.call_tool("call_tool", {"name": uri}))
    assert count_tokens([text])[0] <= 10_000
    assert wordy_server.WORDS in first
    assert count_tokens([first])[0] <= 10_000


async def test_a_chain_answers_within_the_cap(menu: Connect) -> None:
    """Whatever it asks for."""
    code = 'return await call_tool("w__page", {"characters": 150000})'
    async with menu("codex-mcp-client") as client:
        result = await client.call_tool("call_tool_chain", {"code": code, "max_output_size": 200_000})
    assert 2_000 < count_tokens([text_of(result)])[0] <= 10_000


async def test_a_tool_that_is_called_by_its_name_answers_within_the_cap_too(everything: Connect) -> None:
    """What the client would cut is stored whole; one without a known cap gets what the server sent."""
    async with everything("codex-mcp-client") as known, everything("other") as other:
        short = text_of(await known.call_tool("w__page", {"characters": LONG}))
        whole = text_of(await other.call_tool("w__page", {"characters": LONG}))
    assert count_tokens([short])[0] <= 10_000
    assert "maitred://result/" in short
    assert len(whole) == LONG


@both_eras
async def test_no_form_of_answers_is_declared_to_a_client_that_cuts_them(
    everything: Connect, era: str
) -> None:
    """It would check the form, and refuse an answer that was cut. Any other client gets both whole."""
    async with everything("codex-mcp-client", era) as known, everything("other", era) as other:
        forms = [
            {tool.name for tool in await tools_in(client) if tool.output_schema} for client in (known, other)
        ]
        short = await known.call_tool("w__shaped", {"characters": LONG})
        whole = await other.call_tool("w__shaped", {"characters": LONG})
    assert forms == [set(), {"w__shaped"}]
    assert short.structured_content is None
    assert count_tokens([text_of(short)])[0] <= 10_000
    assert "maitred://result/" in text_of(short)
    assert len(whole.structured_content["text"]) == LONG


@both_eras
async def test_claude_code_is_asked_to_take_long_answers_of_servers_whole(menu: Connect, era: str) -> None:
    """By a hint in `_meta` of the tools that call servers; no other client gets it."""
    key = "anthropic/maxResultSizeChars"
    async with menu("claude-code", era) as client, menu("other", era) as other:
        tools = (await client.list_tools()).tools
        hints: dict[str, int] = {
            tool.name: tool.meta[key] for tool in tools if tool.meta and key in tool.meta
        }
        for tool in (await other.list_tools()).tools:
            assert tool.meta == {"anthropic/alwaysLoad": True}
        longest = len(await page(client))
    assert hints.keys() == {"call_tool", "call_read_only_tool", "call_tool_chain"}
    assert all(longest <= hint <= 500_000 for hint in hints.values())


# --- names ------------------------------------------------------------------------------------------------


@both_eras
@pytest.mark.parametrize(
    ("name", "prefix", "most"),
    [
        ("claude-code", "mcp__maitred__", 64),
        ("codex-mcp-client", "mcp__maitred__", 64),
        ("gemini-cli-mcp-client", "mcp_maitred_", 63),
        ("cursor-vscode", "maitred", 60),
        ("Roo Code", "mcp--maitred--", 64),
    ],
)
async def test_names_fit_with_the_prefix_of_the_client_and_can_be_called(
    everything: Connect, era: str, name: str, prefix: str, most: int
) -> None:
    """Each is unique, and leads to its own tool; the published name works too."""
    async with everything("other", era) as other:
        published = await names_in(other)
    async with everything(name, era) as client:
        names = await names_in(client)
        one, whole = next(
            (short, long) for short, long in zip(names, published, strict=True) if short != long
        )
        answers = [text_of(await client.call_tool(called, {})) for called in (one, whole)]
    assert max(map(len, published)) == 64
    assert max(len(prefix + one) for one in names) <= most
    assert len(set(names)) == len(names) == 122
    assert {"w__page", "w__shaped"} <= set(names)
    assert answers[0] == answers[1]
    assert answers[0].startswith("list_everything")


async def test_a_shortened_name_works_in_call_tool(everything: Connect) -> None:
    """A model may take it from its list."""
    async with everything("claude-code") as client:
        short = next(name for name in await names_in(client) if "subject" not in name and "list_" in name)
        result = await client.call_tool("call_tool", {"name": short})
    assert not result.is_error
    assert text_of(result).startswith("list_everything")


async def test_a_client_that_reads_one_page_gets_all_tools_in_it(everything: Connect) -> None:
    """Zed follows no cursor; others get 100 at a time."""
    async with everything("Zed") as zed, everything("other") as other:
        assert len((await zed.list_tools()).tools) == 122
        assert len((await other.list_tools()).tools) == 100


async def test_a_client_that_ignores_changed_lists_is_told_how_to_call(categories: Connect) -> None:
    """Continue does not read its list again; others get names alone, since their list has the rest."""
    async with categories("continue-client", "legacy") as client, categories("other", "legacy") as other:
        assert GROUP in await names_in(other)
        told = text_of(await client.call_tool(GROUP, {}))
        names = text_of(await other.call_tool(GROUP, {}))
    assert "w__page(characters: int)" in told
    assert "call_tool" in told
    assert "w__page(" not in names


# --- instructions -----------------------------------------------------------------------------------------


@both_eras
async def test_a_client_that_shows_more_learns_what_the_categories_are_for(menu: Connect, era: str) -> None:
    """Claude Code cuts at 2 KB; what matters most is within the first 512 characters all the same."""
    async with menu("claude-code", era) as client, menu("other", era) as other, menu("codex", era) as codex:
        texts = {one: text.instructions or "" for one, text in
                 {"claude": client, "other": other, "codex": codex}.items()}  # fmt: skip
    head = texts["claude"][:512]
    assert len(texts["claude"].encode()) <= 2_048
    assert "w. Categories: " in head
    assert "load them first" in head
    assert "never instructions" in head
    (category,) = head.split("Categories: ")[1].split(". ")[0].split(", ")[:1]
    assert f"\n{category}: " in texts["claude"]
    assert len(texts["codex"]) <= 512
    assert "load them first" in texts["codex"]
    assert len(texts["other"]) <= 512
    assert "load them" not in texts["other"]


# --- deferral ---------------------------------------------------------------------------------------------

SERVERS = {
    "time": {"convert_time": "Convert a time between time zones", "get_current_time": "The time in a zone"},
    "kubectl": {"kubectl_get": "List pods and other resources of a Kubernetes cluster in a namespace or all"},
    "kubernetes-containers": {"pods_list": "List all the Kubernetes pods in the cluster from all namespaces"},
    "gmail-autoauth": {"send_email": "Send a new email to recipients", "search_emails": "Search the mailbox"},
    "trello": {"add_card_to_list": "Add a card to a list of a board", "get_lists": "The lists of a board"},
    "airbnb": {"airbnb_search": "Search Airbnb listings in a place, for dates and guests"},
    "playwright": {"browser_take_screenshot": "Take a screenshot of the page", "browser_click": "Click"},
    "sqlite": {"read_query": "Run a SELECT query", "write_query": "Run INSERT, UPDATE or DELETE"},
}


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_client_that_defers_reaches_the_right_tool_in_its_first_turn(era: Any) -> None:
    """In 6 of 6 tasks where it loads the menu, in none where not; by instructions it takes two turns.

    `python -m bench --only deferral` does the same over the tools of 129 real servers.
    """
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    tools = [
        RawTool(key=ToolKey(server=server, name=name), description=text, input_schema=schema)
        for server, own in SERVERS.items()
        for name, text in own.items()
    ]
    found = await deferring_client.measure(tools, era)

    turns = {(ways.loads, ways.instructs): list(each) for ways, each in found.items()}
    assert turns[True, True] == [1] * 6
    assert turns[False, True] == [2] * 6
    assert 1 not in turns[False, False]
    assert 0 in turns[False, False]
