"""What `tools/list` shows: the disclosure modes, pages, hints for caches, equal bytes, a known catalog."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from tests.interaction.harness import (
    Json,
    Mode,
    RawClient,
    call,
    cli,
    faulty,
    listed,
    menu,
    over_stdio,
    own_command,
    raw,
    serve_command,
    server_processes,
    serving,
    text_of,
    write_settings,
)
from tests.interaction.requirements import requirement
from tests.support import corpus
from tests.support.real_servers import require

from maitred.disclosure.compact import compact
from maitred.meta_tools.menu import META_TOOLS

pytestmark = pytest.mark.anyio

MENU = set(META_TOOLS)
MODES: list[Mode] = ["legacy", "auto"]
PATIENT: Json = {"first_list_wait_s": 60}


@pytest.fixture(scope="session")
def records() -> list[Json]:
    """Made definitions of five servers, 260 tools in all."""
    return corpus.generate(seed=7, servers=5, tools=260)


def replayed(folder: Path, records: list[Json], *options: str) -> dict[str, Json]:
    """Entries for servers that list these definitions."""
    path = folder / "records.jsonl"
    corpus.write(records, path)
    commands = {
        name: corpus.replay_command(path, name, offset, *options)
        for name, offset in corpus.offsets(path).items()
    }
    return {name: {"command": command[0], "args": command[1:]} for name, command in commands.items()}


# --- modes ------------------------------------------------------------------------------------------------


@requirement("mode:auto-all")
@pytest.mark.real
async def test_few_tools_are_shown_as_their_servers_registered_them(tmp_path: Path) -> None:
    """Below the break-even: under other names, and without what says nothing. Source: docs/menu.md."""
    [time] = require("time")
    entry = time.entry(tmp_path)
    config = write_settings(tmp_path, {"time": entry, "counter": faulty("count")}, disclosure=PATIENT)
    async with raw([entry["command"], *entry["args"]], modern=True, cwd=tmp_path) as own:
        registered = (await own.request("tools/list"))["result"]["tools"]

    async with gateway(config, modern=True) as client:
        shown = (await client.request("tools/list"))["result"]["tools"]
        added = await client.call("counter__add", {"a": 2, "b": 40})

    assert [tool["name"] for tool in shown] == [
        "counter__add",
        "counter__echo",
        "counter__pid",
        "time__convert_time",
        "time__get_current_time",
    ]
    by_name = {tool["name"]: tool for tool in shown}
    assert [by_name[f"time__{tool['name']}"] for tool in registered] == [
        compact({**tool, "name": f"time__{tool['name']}"}) for tool in registered
    ]
    assert added["content"][0]["text"] == "42"


@requirement("mode:order")
@pytest.mark.real
async def test_parameters_are_shown_in_the_order_of_their_server(tmp_path: Path) -> None:
    """`path` comes before `content` where the server says so, in lists and signatures. Source: DESIGN 5."""
    [filesystem] = require("filesystem")
    config = write_settings(
        tmp_path,
        {"filesystem": filesystem.entry(tmp_path)},
        disclosure=PATIENT | {"break_even_tokens": 100_000},
    )

    async with over_stdio(config, "auto") as client:
        tools = {tool.name: tool for tool in await listed(client)}
        brief = await menu(client, "tool_info", names=["filesystem__write_file"])

    assert list(tools["filesystem__write_file"].input_schema["properties"]) == ["path", "content"]
    assert brief.startswith("filesystem__write_file(path: str, content: str)")


@requirement("mode:auto-menu")
@pytest.mark.parametrize("mode", MODES)
async def test_more_tools_than_the_break_even_turn_into_the_menu(tmp_path: Path, mode: Mode) -> None:
    """The same server is passed through or behind the menu, by `break_even_tokens` alone. Source: issue 2."""
    config = write_settings(
        tmp_path, {"counter": faulty("count")}, disclosure=PATIENT | {"break_even_tokens": 20}
    )

    async with over_stdio(config, mode) as client:
        names = {tool.name for tool in await listed(client)}
        result = await call(client, "counter__add", {"a": 2, "b": 40})

    assert names == MENU
    assert text_of(result) == "42"


@requirement("mode:menu")
async def test_the_menu_comes_at_once_and_says_which_servers_are_still_starting(tmp_path: Path) -> None:
    """The menu waits for no server, and nothing is silently missing. Source: DESIGN 5, rule 1."""
    servers = {"counter": faulty("count"), "sleeper": faulty("slow-start", "1000")}
    config = write_settings(tmp_path, servers, disclosure={"mode": "menu"})

    async with over_stdio(config, "auto") as client:
        names = {tool.name for tool in await listed(client)}
        answer = await menu(client, "search_tools", phrases=["add two numbers"])
        first_page = await menu(client, "list_tools_meta")
        servers_page = await menu(client, "list_tools_meta", path="servers")

    assert names == MENU
    assert "Not searched: sleeper (still starting)" in answer
    assert "Next: list_tools_meta with path category/<name>, server/<name> or servers" in first_page
    assert [line.partition(":")[0] for line in servers_page.splitlines()] == [
        "server/counter",
        "server/sleeper",
    ]
    assert "server/sleeper: 0 tools - still starting" in servers_page


# --- pages ------------------------------------------------------------------------------------------------


@requirement("page:all", "page:cursor")
async def test_all_tools_come_page_by_page_each_once_and_in_order(
    tmp_path: Path, records: list[Json]
) -> None:
    """260 tools: no page above 100, no tool twice or missing, both eras alike. Source: issue 2."""
    sections = {"disclosure": PATIENT | {"mode": "all"}, "admission": {"scan": "off"}}  # some texts are evil
    config = write_settings(tmp_path, replayed(tmp_path, records), **sections)
    expected = {record["server"]: {tool["name"] for tool in record["tools"]} for record in records}
    found: dict[Mode, list[str]] = {}

    with serving(config) as http:
        for mode in MODES:
            async with http.connect(mode) as client:
                pages = await pages_of(client)
                names = [tool.name for page in pages for tool in page]
                found[mode] = names
                called = await client.call_tool(names[150], {})
                with pytest.raises(MCPError) as caught:
                    await client.list_tools(cursor="no such page", cache_mode="refresh")
            assert [len(page) for page in pages] == [100, 100, 60]
            assert names == sorted(set(names))
            assert caught.value.code == -32602
            assert called.content

    assert found["legacy"] == found["auto"]
    for server, tools in expected.items():
        assert len([name for name in found["auto"] if name.startswith(f"{server}__")]) == len(tools)


# --- hints and bytes --------------------------------------------------------------------------------------


@requirement("cache:hints")
async def test_stateless_lists_say_how_long_they_may_be_kept(tmp_path: Path) -> None:
    """`ttlMs` and `cacheScope` are required in 2026-07-28, and unknown before. Source: SEP-2549."""
    config = write_settings(tmp_path, {"counter": faulty("count")})
    async with gateway(config, modern=True) as client:
        discovered = (await client.request("server/discover"))["result"]
        modern = (await client.request("tools/list"))["result"]
    async with gateway(config, modern=False) as client:
        legacy = (await client.request("tools/list"))["result"]

    for result in (discovered, modern):
        assert isinstance(result["ttlMs"], int)
        assert result["ttlMs"] >= 0
        assert result["cacheScope"] in ("public", "private")
        assert result["resultType"] == "complete"
    assert "ttlMs" not in legacy
    assert "cacheScope" not in legacy
    assert legacy["tools"] == modern["tools"]


@requirement("bytes:equal")
async def test_the_same_servers_give_the_same_bytes(tmp_path: Path, records: list[Json]) -> None:
    """Neither the order of the configuration nor a new start changes a byte of the list. Source: issue 2."""
    seen: dict[bool, list[list[bytes]]] = {False: [], True: []}
    entries = replayed(tmp_path, records[2:])
    for name, servers in (("one", entries), ("two", dict(reversed(entries.items())))):
        (tmp_path / name).mkdir()
        config = write_settings(tmp_path / name, servers, disclosure=PATIENT | {"mode": "all"})
        for modern, pages in seen.items():
            async with gateway(config, modern=modern) as client:
                first = await client.request_bytes("tools/list")
                pages.append([first, await next_page(client, first)])

    for pages in seen.values():
        assert pages[0] == pages[1]
        assert all(len(json.loads(page)["result"]["tools"]) == 100 for page in pages[0])


# --- a known catalog --------------------------------------------------------------------------------------


@requirement("catalog:known")
@pytest.mark.parametrize(("disclosure", "modern"), [("menu", False), ("all", True)])
async def test_a_known_catalog_is_served_without_starting_a_server(
    tmp_path: Path, records: list[Json], disclosure: str, *, modern: bool
) -> None:
    """The second start lists, searches and describes; only a call starts its server. Source: issue 2."""
    servers = {**replayed(tmp_path, records[:2]), "counter": faulty("count")}
    config = write_settings(tmp_path, servers, disclosure={"mode": disclosure})
    assert cli(config, "list", "--json").returncode == 0

    async with gateway(config, modern=modern, command=own_command) as client:
        tools = (await client.request("tools/list"))["result"]["tools"]
        answer = await client.call("search_tools", {"phrases": ["add two numbers"], "server": "counter"})
        await client.call("tool_info", {"names": ["counter__add"], "detail": "full"})
        before = server_processes(client.pid)
        await client.call("call_tool", {"name": "counter__add", "arguments": {"a": 2, "b": 40}})
        after = server_processes(client.pid)

    assert len(tools) == (len(MENU) if disclosure == "menu" else 15)
    assert "counter__add(a: num, b: num)" in answer["content"][0]["text"]
    assert before == []
    assert len(after) == 1
    assert "faulty_server.py count" in after[0]


@requirement("catalog:unknown")
async def test_a_tool_of_a_server_that_is_still_starting_is_never_an_unknown_tool(tmp_path: Path) -> None:
    """A call that comes too early waits, or is told why it cannot be made yet. Source: DESIGN 5, rule 1."""
    servers = {"counter": faulty("count"), "sleeper": faulty("slow-start", "1000")}
    config = write_settings(tmp_path, servers, disclosure={"mode": "menu"})

    async with over_stdio(config, "legacy") as client:
        ready = await call(client, "counter__add", {"a": 2, "b": 40})
        asleep = await call(client, "sleeper__echo", {"text": "awake?"})

    assert text_of(ready) == "42" or "still starting" in text_of(ready)
    assert asleep.is_error
    assert "still starting" in text_of(asleep)


@requirement("catalog:first")
async def test_the_first_list_waits_for_servers_that_are_not_known_yet(tmp_path: Path) -> None:
    """A client that lists once, at its start, sees a server that needs a moment. Source: maitred."""
    servers = {"counter": faulty("count"), "late": faulty("slow-start", "1")}
    config = write_settings(tmp_path, servers, disclosure=PATIENT)

    async with over_stdio(config, "legacy") as client:
        names = [tool.name for tool in await listed(client)]

    assert names == ["counter__add", "counter__echo", "counter__pid", "late__echo"]


@requirement("start:slow")
@pytest.mark.real
async def test_a_stateless_server_may_take_all_of_its_start_limit(tmp_path: Path) -> None:
    """The SDK gives a probe 10 s; the configured limit is what counts. Source: issue 2, start timeouts."""
    [time] = require("time")
    entry = time.entry(tmp_path)
    late = ["-c", 'sleep 11; exec "$0" "$@"', entry["command"], *entry["args"]]
    server = {"command": "/bin/sh", "args": late, "era": "stateless"}

    done = await anyio.to_thread.run_sync(cli, write_settings(tmp_path, {"time": server}), "doctor", "--json")

    [found] = json.loads(done.stdout)["servers"]
    assert (found["error"], found["tools"]) == ("", 2)


# --- helpers ----------------------------------------------------------------------------------------------


async def pages_of(client: Any) -> list[list[Any]]:
    pages: list[list[Any]] = []
    cursor = None
    with anyio.fail_after(120):
        while True:
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            pages.append(page.tools)
            cursor = page.next_cursor
            if cursor is None:
                return pages


async def next_page(client: RawClient, page: bytes) -> bytes:
    return await client.request_bytes("tools/list", {"cursor": json.loads(page)["result"]["nextCursor"]})


@asynccontextmanager
async def gateway(
    config: Path, *, modern: bool, command: Callable[[Path], list[str]] = serve_command
) -> AsyncIterator[RawClient]:
    """The gateway over standard streams, message by message."""
    async with raw(command(config), modern=modern, cwd=config.parent) as client:
        yield client
