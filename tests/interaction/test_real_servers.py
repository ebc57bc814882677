"""Eleven real servers at once behind one gateway, over both transports and in both protocol eras."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from tests.interaction.harness import WAIT_S, Front, call, direct, menu, text_of
from tests.interaction.requirements import requirement
from tests.support.corpus import tokens
from tests.support.real_servers import SERVERS, Place, RealServer, require, serving_page, write_config

from maitred.meta_tools.menu import META_TOOLS, definitions
from maitred.wording import count_of

pytestmark = [pytest.mark.real, pytest.mark.anyio, pytest.mark.xdist_group("real-servers")]


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    servers = require()
    return lambda folder: write_config(folder, servers)


@pytest.fixture(scope="module")
def page_url() -> Iterator[str]:
    with serving_page() as url:
        yield url


@requirement("front:era")
async def test_a_client_gets_the_revision_of_its_era(front: Front, client: Client) -> None:
    """A handshake ends in 2025-11-25, a stateless client in 2026-07-28. Source: issue 2."""
    assert client.protocol_version == front.version
    assert client.server_info is not None
    assert client.server_info.name == "maitred"
    assert client.instructions is not None
    assert "search_tools" in client.instructions
    assert all(name in client.instructions for name in SERVERS)
    assert len(client.instructions) <= 512


@requirement("menu:tools", "menu:annotations", "menu:budget")
async def test_the_menu_is_a_few_annotated_tools_of_500_tokens(client: Client) -> None:
    """Eleven servers cost the meta-tools alone, annotated, at most 500 tokens (o200k). Source: issue 2.

    The index of categories in the description of the search has a budget of its own: 200. Source: DESIGN 5.
    """
    page = await client.list_tools(cache_mode="refresh")

    assert [tool.name for tool in page.tools] == list(META_TOOLS)
    assert page.next_cursor is None
    for tool in page.tools:
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is not None
        assert tool.annotations.read_only_hint or tool.annotations.destructive_hint
        assert tool.meta == {"anthropic/alwaysLoad": True}  # for the client, which shows it to no model
    listed = [tool.model_dump(by_alias=True, exclude_none=True, exclude={"meta"}) for tool in page.tools]
    index = listed[0]["description"].removeprefix(definitions()[0]["description"])
    assert " by category: " in index
    assert tokens({"index": index}) <= 200
    listed[0]["description"] = listed[0]["description"].removesuffix(index)
    assert tokens({"tools": listed}) <= 500


@requirement("search:signature", "search:limit")
async def test_search_answers_with_signatures_to_call_from(client: Client) -> None:
    """The best hit stands first, as a signature with the types of its parameters. Source: DESIGN 5."""
    lines = tool_lines(await menu(client, "search_tools", phrases=["add two numbers"], limit=3))

    assert lines[0].startswith("everything__get-sum(a: num, b: num) - ")
    assert len(lines) <= 3
    assert all(tokens({"line": line}) <= 110 for line in lines)


@requirement("search:phrases")
async def test_search_takes_several_phrases_at_once(client: Client) -> None:
    """Each phrase is one capability, and each finds its tool in the same answer. Source: issue 2."""
    phrases = ["convert time between timezones", "commit logs of a git repository", "web page by its URL"]
    answer = await menu(client, "search_tools", phrases=phrases, limit=2)

    names = [line.partition("(")[0].lstrip("~") for line in tool_lines(answer)]
    assert {"time__convert_time", "git__git_log", "fetch__fetch"} <= set(names)
    assert len(names) == len(set(names)) <= 2 * len(phrases)


@requirement("search:server")
async def test_search_can_be_kept_to_one_server(client: Client) -> None:
    """All hits are of the server that was named; an unknown one gets the nearest. Source: issue 2."""
    lines = tool_lines(await menu(client, "search_tools", phrases=["read file"], server="filesystem"))
    unknown = await client.call_tool("search_tools", {"phrases": ["read file"], "server": "filesys"})

    assert lines
    assert all(line.lstrip("~").startswith("filesystem__") for line in lines)
    assert unknown.is_error
    assert "Did you mean 'filesystem'?" in text_of(unknown)


@requirement("browse:servers", "browse:pages")
async def test_browsing_lists_all_servers_and_all_tools_of_one(client: Client) -> None:
    """`servers`: each with its count. `server/<name>`: its tools, by pages. Source: issue 2."""
    first = await menu(client, "list_tools_meta")
    servers = await menu(client, "list_tools_meta", path="servers")
    excel: list[str] = []
    cursor = ""
    for _ in range(10):
        page = await menu(client, "list_tools_meta", path="server/excel", cursor=cursor)
        assert tokens({"page": page}) <= 4_000
        excel += tool_lines(page)
        cursor = page.rpartition("with cursor '")[2].partition("'")[0] if "with cursor '" in page else ""
        if not cursor:
            break
    nowhere = await client.call_tool("list_tools_meta", {"path": "server/exel"})

    hot, categories = first.split("\n\n")
    total = sum(server.tools for server in SERVERS.values())
    assert hot.startswith(("For example:\n", "Often used:\n"))
    assert len(tool_lines(hot)) == len(hot.splitlines()) - 1 > 1
    assert categories.startswith("Categories:\n")
    assert f"{count_of(total, 'tool')} on {len(SERVERS)} servers. Next: list_tools_meta" in categories
    for server in SERVERS.values():
        assert f"server/{server.name}: {count_of(server.tools, 'tool')}" in servers
    assert len(servers.splitlines()) == len(SERVERS)
    assert len({line.partition("(")[0].lstrip("~") for line in excel}) == len(excel) == SERVERS["excel"].tools
    assert nowhere.is_error
    assert "list_tools_meta" in text_of(nowhere)


@requirement("info:brief")
async def test_brief_information_is_short_and_names_server_and_hints(client: Client) -> None:
    """Brief is the default, and under 300 tokens a tool. Source: style notes."""
    names = ["filesystem__write_file", "sequential-thinking__sequentialthinking"]
    write, think = (await menu(client, "tool_info", names=names)).split("\n\n")

    assert write.startswith("filesystem__write_file(")
    facts = r"server: filesystem; category: [a-z_]+; may change or destroy, repeatable"
    assert re.fullmatch(facts, write.splitlines()[2])
    assert re.fullmatch(r"server: sequential-thinking; category: [a-z_]+; read-only", think.splitlines()[2])
    assert all(tokens({"text": text}) < 300 for text in (write, think))


@requirement("info:full")
async def test_full_information_holds_the_definition_as_the_server_wrote_it(
    front: Front, client: Client
) -> None:
    """The schema in `full` is the server's own; only the name is the published one. Source: issue 2."""
    text = await menu(client, "tool_info", names=["memory__open_nodes"], detail="full")
    definition, category, *more = text.splitlines()
    answer = json.loads(definition)
    async with straight(SERVERS["memory"], front) as server:
        tools = (await server.list_tools()).tools

    wanted = next(tool for tool in tools if tool.name == "open_nodes")
    own = wanted.model_dump(by_alias=True, exclude_none=True, mode="json")
    for key in ("title", "description", "inputSchema", "outputSchema", "annotations"):
        assert answer[key] == own[key]
    assert answer["name"] == "memory__open_nodes"
    assert re.fullmatch(r"category: [a-z_]+(, [a-z0-9_:]+)*", category)
    assert all(row.startswith(("used: ", "for: ")) for row in more)


@requirement("info:unknown")
async def test_an_unknown_name_is_answered_with_the_nearest(client: Client) -> None:
    """Beside known names it is a remark, alone an error; both name what was meant. Source: DESIGN 5."""
    mixed = await menu(client, "tool_info", names=["time__convert_time", "git__git_statu"])
    alone = await client.call_tool("tool_info", {"names": ["git_statu"]})
    called = await call(client, "git__git_statu", {})

    assert mixed.startswith("time__convert_time(")
    for text in (mixed, text_of(alone), text_of(called)):
        assert "git__git_status" in text
    assert alone.is_error
    assert called.is_error


@requirement("call:verified", "call:concurrent")
async def test_every_server_answers_its_verified_calls_at_the_same_time(
    front: Front, client: Client, page_url: str
) -> None:
    """All servers are called at once through `call_tool` and answer as they do directly. Source: issue 2."""
    place = Place(folder=front.folder, page_url=page_url, tag=front.tag)
    answered: list[str] = []

    async def one(server: RealServer) -> None:
        for wanted in server.calls(place):
            wanted.assert_answered(await call(client, f"{server.name}__{wanted.tool}", wanted.arguments))
        answered.append(server.name)

    with anyio.fail_after(2 * WAIT_S):
        async with anyio.create_task_group() as tasks:
            for server in SERVERS.values():
                tasks.start_soon(one, server)

    assert sorted(answered) == sorted(SERVERS)


@requirement("call:readers")
async def test_the_read_only_call_reaches_all_that_only_read(
    front: Front, client: Client, page_url: str
) -> None:
    """A tool that its server marks read-only answers through `call_read_only_tool` too. Source: issue 2."""
    place = Place(folder=front.folder, page_url=page_url, tag=front.tag)
    for name in ("everything", "git", "time", "fetch", "sequential-thinking"):
        for wanted in SERVERS[name].calls(place):
            assert wanted.read_only
            arguments = {"name": f"{name}__{wanted.tool}", "arguments": wanted.arguments}
            wanted.assert_answered(await client.call_tool("call_read_only_tool", arguments))


@requirement("call:read-only")
async def test_the_read_only_call_refuses_all_others(front: Front, client: Client) -> None:
    """What is not marked read-only is refused before its server sees it. Source: issue 2."""
    path = anyio.Path(front.folder / "files" / f"{front.tag}-forbidden.txt")
    arguments = {"path": str(path), "content": "written all the same"}

    refused = await client.call_tool(
        "call_read_only_tool", {"name": "filesystem__write_file", "arguments": arguments}
    )

    assert refused.is_error
    assert "call_tool" in text_of(refused)
    assert not await path.exists()


def tool_lines(answer: str) -> list[str]:
    """The lines of an answer that are signatures of tools."""
    return [line for line in answer.splitlines() if "__" in line.partition("(")[0]]


def straight(server: RealServer, front: Front) -> Any:
    """A client of the server itself, without a gateway."""
    entry = server.entry(front.folder)
    log = front.folder / "direct.log"
    return direct(entry["command"], entry["args"], front.mode, log=log, env=entry.get("env"))
