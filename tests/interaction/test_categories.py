"""Categories as tools, and tools that results bring, as clients of both eras find them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from tests.interaction.harness import (
    SUPPORT,
    WAIT_S,
    HttpGateway,
    Json,
    Mode,
    call,
    cli,
    listed,
    menu,
    over_stdio,
    raw,
    sdk_server,
    serve_command,
    serving,
    text_of,
    write_settings,
)
from tests.interaction.listening import Listener, listening
from tests.interaction.requirements import requirement
from tests.support.team_server import LEARNED, PAGES, USERS

pytestmark = pytest.mark.anyio

MODES: list[Mode] = ["legacy", "auto"]
CLOSED = ["call_tool", "team__admin_tools", "team__content_tools", "team__learn"]
CATEGORIES: Json = {"mode": "categories", "break_even_tokens": 0, "first_list_wait_s": 60}


def team(**more: Any) -> dict[str, Json]:
    """The entry of the server of a team."""
    return {"team": {**sdk_server(SUPPORT / "team_server.py"), **more}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    """A gateway in mode `categories` that several clients share."""
    config = write_settings(tmp_path_factory.mktemp("gateway"), team(), disclosure=CATEGORIES)
    assert cli(config, "list", "--json").returncode == 0
    with serving(config) as http:
        yield http


async def names(client: Client) -> list[str]:
    return [tool.name for tool in await listed(client)]


async def told_of(listener: Listener, wanted: list[str], start: int) -> None:
    """The client was told that its list changed, and finds in it what it should."""
    await listener.hears("tools", start)
    with anyio.fail_after(WAIT_S):
        assert await names(listener.client) == wanted


# --- categories -------------------------------------------------------------------------------------------


@requirement("category:list")
@pytest.mark.parametrize("mode", MODES)
async def test_a_list_shows_categories_with_their_counts_and_what_calls_what_is_behind(
    gateway: HttpGateway, mode: Mode
) -> None:
    """Marked in `_meta`, told in words, without arguments, read-only. Source: issue 6."""
    async with gateway.connect(mode) as client:
        tools = {tool.name: tool for tool in await listed(client)}

    admin = tools["team__admin_tools"]
    assert list(tools) == CLOSED
    assert admin.meta == {"isCategory": True, "toolCount": 6}
    assert admin.description == "List 6 tools: User and permission management."
    assert tools["team__content_tools"].description == "List 3 tools: Write and publish pages."
    assert admin.input_schema == {"type": "object", "properties": {}}
    assert admin.annotations is not None
    assert admin.annotations.read_only_hint is True
    assert tools["team__learn"].meta is None


@requirement("category:open")
async def test_opening_a_category_lists_its_tools_for_that_connection_until_it_is_collapsed(
    gateway: HttpGateway,
) -> None:
    """Told by list_changed; another connection of the same user hears and sees nothing. Source: issue 6."""

    def connect(**options: Any) -> Any:
        return gateway.connect("legacy", **options)

    opened = sorted([*(f"team__{name}" for name in USERS), "team__learn"])
    async with listening(connect, "legacy") as mine, listening(connect, "legacy") as other:
        assert await names(mine.client) == await names(other.client) == CLOSED
        answer = await mine.client.call_tool("team__admin_tools", {})
        await told_of(mine, [*CLOSED[:-1], *opened], 0)
        again = await mine.client.call_tool("team__admin_tools", {})
        direct = await mine.client.call_tool("team__find_user", {"name": "ada"})
        heard = len(mine.told)
        await mine.client.call_tool("team__admin_tools", {"collapse": True})
        await told_of(mine, CLOSED, heard)
        assert await names(other.client) == CLOSED
        assert other.told == []

    named = ", ".join(sorted(USERS))
    assert text_of(answer) == f"Now in your list: {named}.\nMissing? Call again."
    assert "team__find_user(name?: str) - Find a user." in text_of(again)
    assert text_of(direct) == 'find_user {"name": "ada"}'


@requirement("category:stateless")
async def test_without_a_connection_the_list_stays_and_call_tool_reaches_everything(
    gateway: HttpGateway,
) -> None:
    """In 2026-07-28 a call must not change a list. Source: MCP specification, issue 6."""

    def connect(**options: Any) -> Any:
        return gateway.connect("auto", **options)

    async with listening(connect, "auto") as listener:
        client = listener.client
        before = await names(client)
        answer = await client.call_tool("team__admin_tools", {})
        through = await call(client, "team__content_tools")
        reached = [text_of(await call(client, f"team__{name}")) for name in (*USERS, *PAGES)]
        found = await menu(client, "search_tools", phrases=["suspend a user"])

        assert before == await names(client) == CLOSED
        assert listener.told == []
    assert "call them with call_tool:" in text_of(answer)
    assert text_of(through).startswith("3 tools in team__content_tools")
    assert reached == [f"{name} {{}}" for name in (*USERS, *PAGES)]
    assert "team__suspend_user" in found


@requirement("category:tools-field")
@pytest.mark.parametrize("mode", MODES)
async def test_the_answer_of_a_category_has_the_definitions_for_programs(tmp_path: Path, mode: Mode) -> None:
    """In the field `tools`, and in `_meta` for the SDK's clients, which drop it. Source: issue 6."""
    config = write_settings(tmp_path, team(), disclosure=CATEGORIES)
    assert cli(config, "list", "--json").returncode == 0
    async with raw(serve_command(config), modern=mode == "auto", cwd=tmp_path) as wire:
        answer = await wire.call("team__content_tools", {})
    async with over_stdio(config, mode) as client:
        result = await client.call_tool("team__content_tools", {})

    assert [tool["name"] for tool in answer["tools"]] == sorted(f"team__{name}" for name in PAGES)
    assert answer["tools"][0]["inputSchema"]["properties"] == {"name": {"type": "string"}}
    assert answer["_meta"]["maitred/tools"] == answer["tools"]
    assert result.meta is not None
    assert result.meta["maitred/tools"] == answer["tools"]
    assert result.structured_content is None


@requirement("category:few")
@pytest.mark.parametrize("mode", MODES)
async def test_tools_that_cost_less_than_the_break_even_are_listed_without_categories(
    tmp_path: Path, mode: Mode
) -> None:
    """Where categories would save nothing there are none. Source: issue 6, design document 000."""
    config = write_settings(tmp_path, team(), disclosure={"mode": "categories", "first_list_wait_s": 60})
    async with over_stdio(config, mode) as client:
        shown = await names(client)

    assert shown == sorted(f"team__{name}" for name in (*USERS, *PAGES, "learn"))


@requirement("category:cli")
def test_a_category_is_called_from_the_command_line_like_a_tool(tmp_path: Path) -> None:
    """Its tools are printed, a line each. Source: docs/categories.md, "Opening and collapsing"."""
    config = write_settings(tmp_path, team(), disclosure=CATEGORIES)
    assert cli(config, "list").returncode == 0
    done = cli(config, "call", "team__admin_tools")

    assert done.returncode == 0, done.stderr
    assert [line.partition("(")[0] for line in done.stdout.splitlines()[1:]] == [
        f"team__{name}" for name in sorted(USERS)
    ]


# --- tools that results bring -----------------------------------------------------------------------------


@requirement("result:tools-dropped")
@pytest.mark.parametrize("mode", MODES)
async def test_tools_in_a_result_are_dropped_if_the_operator_did_not_allow_them(
    tmp_path: Path, mode: Mode
) -> None:
    """The field does not reach the client, nor the tools the catalog. Source: issue 6."""
    config = write_settings(tmp_path, team(), disclosure=CATEGORIES)
    assert cli(config, "list", "--json").returncode == 0
    async with raw(serve_command(config), modern=mode == "auto", cwd=tmp_path) as wire:
        answer = await wire.call("team__learn", {})
        unknown = await wire.call("call_tool", {"name": "team__brew_tea"})

    assert answer["content"] == [{"type": "text", "text": "learn"}]
    assert "tools" not in answer
    assert unknown["isError"]


@requirement("result:tools-allowed")
async def test_tools_in_a_result_are_listed_and_callable_if_the_operator_allowed_them(tmp_path: Path) -> None:
    """Handshake-era clients are told that their list changed. Source: issue 6."""
    disclosure = {"mode": "all", "first_list_wait_s": 60}
    config = write_settings(tmp_path, team(result_tools=True), disclosure=disclosure)

    def connect(**options: Any) -> Any:
        return over_stdio(config, "legacy", **options)

    async with listening(connect, "legacy") as listener:
        before = await names(listener.client)
        result = await listener.client.call_tool("team__learn", {})
        await told_of(listener, sorted([*before, *(f"team__{name}" for name in LEARNED)]), 0)
        brewed = await listener.client.call_tool("team__brew_tea", {})

    assert result.meta is not None
    assert [tool["name"] for tool in result.meta["maitred/tools"]] == [f"team__{name}" for name in LEARNED]
    assert text_of(brewed) == "brew_tea"
