"""The gateway over servers in this process: what can be found and called, and what is said when not."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server

from maitred.config.settings import Catalog, Disclosure, Mode, Settings
from maitred.errors import (
    ArgumentsError,
    CursorError,
    PathNotFoundError,
    ToolNotFoundError,
    ToolWithheldError,
)
from maitred.gateway import Gateway
from maitred.gateway.search import MAX_LIMIT
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0
LOG = ToolCall(name="git__log", arguments={"path": "/"})
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = {
    "files": {"read_file": "Read a file from disk.", "write_file": "Write a file to disk."},
    "git": {"commit": "Record changes in the repository.", "log": "Show the history."},
    "svn": {"log": "Show the history of a path."},
}
Context = ServerRequestContext[Any, Any]


def make_server(name: str, tools: Mapping[str, str], gate: anyio.Event | None = None) -> Server[Any]:
    """A server whose tools say who they are; it lists them only when the gate is open, if it has one."""
    listed = [types.Tool(name=t, description=about, input_schema=PATH) for t, about in tools.items()]

    async def list_tools(_: Context, __: object) -> types.ListToolsResult:
        if gate is not None:
            await gate.wait()
        return types.ListToolsResult(tools=listed)

    async def call_tool(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = f"{name}/{params.name} {params.arguments}"
        return types.CallToolResult(content=[types.TextContent(text=text)])

    return Server(name, instructions=f"About {name}.", on_list_tools=list_tools, on_call_tool=call_tool)


def settings_of(folder: Path, *names: str, mode: Mode = "auto", **disclosure: Any) -> Settings:
    return Settings(
        source=folder / "maitred.yaml",
        servers={name: ServerSpec(name=name, transport="memory") for name in names},
        disclosure=Disclosure(mode=mode, **disclosure),
        catalog=Catalog(path=str(folder / "c.db")),
    )


def without(settings: Settings, name: str) -> Settings:
    """The settings with a server disabled."""
    return replace(
        settings, servers={**settings.servers, name: replace(settings.servers[name], enabled=False)}
    )


@asynccontextmanager
async def opened(
    settings: Settings, gates: Mapping[str, anyio.Event] | None = None
) -> AsyncIterator[Gateway]:
    """A gateway; without gates all of its servers are known."""
    gates = gates or {}
    servers = {name: make_server(name, TOOLS[name], gates.get(name)) for name in settings.servers}
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process=servers) as gateway:
            assert gates or await gateway.settled(SOON_S)
            yield gateway


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which a gateway outlives tests that only read."""
    return "asyncio"


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """All servers known; for tests that change nothing."""
    settings = settings_of(tmp_path_factory.mktemp("gateway"), *TOOLS)
    servers = {name: make_server(name, tools) for name, tools in TOOLS.items()}
    async with open_gateway(settings, in_process=servers) as opened_gateway:
        assert await opened_gateway.settled(SOON_S)
        yield opened_gateway


def text_of(result: Mapping[str, Any]) -> str:
    return str(result["content"][0]["text"])


# --- finding ----------------------------------------------------------------------------------------------


async def test_search_finds_a_tool_by_what_it_does(gateway: Gateway) -> None:
    """The best result first, as a line to call from."""
    answer = await gateway.search(["read a file"], viewer=LOCAL_USER)

    assert answer.results[0].line == "files__read_file(path: str) - Read a file from disk."


async def test_search_for_several_capabilities_finds_each(gateway: Gateway) -> None:
    """The best of every phrase comes before any second best."""
    answer = await gateway.search(["write file", "record changes"], viewer=LOCAL_USER)

    assert [found.tool.name for found in answer.results[:2]] == ["files__write_file", "git__commit"]


async def test_search_can_be_kept_to_one_server(gateway: Gateway) -> None:
    """A server of another name is not searched; one that does not exist is answered with the nearest."""
    answer = await gateway.search(["show the history"], server="svn", viewer=LOCAL_USER)
    assert [found.tool.name for found in answer.results] == ["svn__log"]

    with pytest.raises(PathNotFoundError, match="Did you mean 'files'"):
        await gateway.search(["anything"], server="file", viewer=LOCAL_USER)


@pytest.mark.parametrize("phrases", [[], [""], ["  ", ""]], ids=str)
async def test_search_for_nothing_finds_nothing_and_says_what_to_do(
    gateway: Gateway, phrases: list[str]
) -> None:
    """No error: other words may help, or the list of servers."""
    answer = await gateway.search(phrases, viewer=LOCAL_USER)

    assert answer.results == []
    assert "list_tools_meta" in answer.text


async def test_search_for_what_nothing_serves_says_so_and_shows_the_nearest_as_weak(gateway: Gateway) -> None:
    """Silence would hide what is near; five confident lines would be a lie."""
    answer = await gateway.search(["zzz qqq"], viewer=LOCAL_USER)

    assert answer.band in ("weak", "none")
    assert answer.text.startswith("Nothing relevant for 'zzz qqq'")
    assert {result.band for result in answer.results} <= {"weak"}
    assert "list_tools_meta" in answer.text


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (0, 1), (-5, 1), (2, 2), (10**9, MAX_LIMIT)])
async def test_a_limit_out_of_range_is_brought_into_range(gateway: Gateway, limit: int, count: int) -> None:
    """At least one result, and never more than there is room for."""
    answer = await gateway.search(["history changes"], limit=limit, viewer=LOCAL_USER)

    assert len(answer.results) == min(
        count, len((await gateway.search(["history changes"], limit=20, viewer=LOCAL_USER)).results)
    )


async def test_browsing_the_servers_lists_them(gateway: Gateway) -> None:
    """Each with its number of tools and what it says of itself, in the order of the configuration."""
    page = gateway.browse("servers", viewer=LOCAL_USER)

    assert page.text.splitlines() == [
        "server/files: 2 tools - About files.",
        "server/git: 2 tools - About git.",
        "server/svn: 1 tool - About svn.",
    ]
    assert page.cursor == ""
    assert gateway.browse("/servers/", viewer=LOCAL_USER).text == page.text


async def test_browsing_without_a_path_gives_the_hot_list_and_the_categories(gateway: Gateway) -> None:
    """T0 and T1 in one answer: lines to call from, then where to look further."""
    text = gateway.browse(viewer=LOCAL_USER).text

    assert text.startswith("For example:\n")
    assert "\ngit__commit(path: str) - Record changes in the repository.\n" in text
    assert "\nCategories:\ncategory/code_analysis: Code analysis & refactoring - 2 tools on 1 server" in text
    assert text.endswith("or search_tools.")
    assert gateway.browse("/", viewer=LOCAL_USER).text == text


async def test_a_category_can_be_browsed_and_searched(gateway: Gateway) -> None:
    """The path of an overview's line opens it; search keeps to it; a slip in its name is corrected."""
    lines = gateway.browse("category/code_analysis", viewer=LOCAL_USER).text.splitlines()
    assert [line.partition("(")[0] for line in lines] == ["git__commit", "git__log"]
    answer = await gateway.search(["file history"], category="code_analysis", viewer=LOCAL_USER)
    assert {found.tool.server for found in answer.results} == {"git"}
    with pytest.raises(PathNotFoundError, match="Did you mean 'code_analysis'"):
        gateway.browse("category/code", viewer=LOCAL_USER)


async def test_browsing_goes_on_behind_a_cursor(gateway: Gateway) -> None:
    """It tells the place and the last name before it, so that it holds when the order changes a little."""
    first = gateway.browse("server/git", size=1, viewer=LOCAL_USER)

    assert first.text.splitlines()[1] == "(1 more: same path with cursor '1:git__commit')"
    assert gateway.browse("server/git", first.cursor, viewer=LOCAL_USER).text.startswith("git__log(")
    assert gateway.browse("servers", "2:git", viewer=LOCAL_USER).text == "server/svn: 1 tool - About svn."
    assert gateway.browse("server/git", "7:gone", viewer=LOCAL_USER).text == "No tools here."
    for path in ("server/git", "servers", "categories", ""):
        with pytest.raises(CursorError, match="start again without one"):
            gateway.browse(path, "zzz", viewer=LOCAL_USER)


@pytest.mark.parametrize("path", ["server/gi", "gi", "tools/git", "server/", "server/git/log"])
async def test_a_path_that_does_not_exist_is_answered_with_the_way_back(gateway: Gateway, path: str) -> None:
    """The text says how to list all categories."""
    with pytest.raises(PathNotFoundError, match="lists all categories"):
        gateway.browse(path, viewer=LOCAL_USER)


async def test_a_tool_can_be_found_by_a_raw_name_that_only_one_server_has(gateway: Gateway) -> None:
    """`commit` is clear; `log` is not, and is answered with both."""
    assert (
        gateway.find("commit", LOCAL_USER).name
        == gateway.find("git__commit", LOCAL_USER).name
        == "git__commit"
    )

    with pytest.raises(ToolNotFoundError) as caught:
        gateway.find("log", LOCAL_USER)
    assert caught.value.nearest == ("git__log", "svn__log")


async def test_info_describes_known_tools_and_corrects_unknown_names(gateway: Gateway) -> None:
    """One wrong name does not cost the others; when all are wrong it is an error."""
    answer = await gateway.info(["git__log", "git__log", "git__comit_changes", "commit"], viewer=LOCAL_USER)

    assert [tool.name for tool in answer.tools] == ["git__log", "git__commit"]
    assert len(answer.problems) == 1
    assert "git__comit_changes" in answer.text
    assert '"inputSchema":' in (await gateway.info(["git__log"], "full", viewer=LOCAL_USER)).text
    with pytest.raises(ToolNotFoundError, match="git__"):
        await gateway.info(["git_log"], viewer=LOCAL_USER)


async def test_info_on_too_many_tools_says_which_were_left_out(gateway: Gateway) -> None:
    """They can be asked for again."""
    answer = await gateway.info(
        ["git__log", *(f"unknown{n}" for n in range(9)), "svn__log"], viewer=LOCAL_USER
    )

    assert answer.left_out == ["svn__log"]
    assert answer.text.endswith("svn__log")


# --- calling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["files__read_file", "read_file"])
async def test_a_call_reaches_the_tool(gateway: Gateway, name: str) -> None:
    """By its published name, or by a raw name that only one server has."""
    result = await gateway.call(ToolCall(name=name, arguments={"path": "/x"}), viewer=LOCAL_USER)

    assert text_of(result) == "files/read_file {'path': '/x'}"


async def test_wrong_arguments_are_answered_with_the_parameters(gateway: Gateway) -> None:
    """So that the next try succeeds."""
    with pytest.raises(ArgumentsError, match=r'Its parameters: .*"required":\["path"\]'):
        await gateway.call(ToolCall(name="read_file", arguments={}), viewer=LOCAL_USER)


async def test_an_unknown_tool_is_answered_with_the_nearest(gateway: Gateway) -> None:
    """A slip in the name is corrected at once."""
    with pytest.raises(ToolNotFoundError, match="Did you mean files__read_file"):
        await gateway.call(ToolCall(name="files__read_files", arguments={}), viewer=LOCAL_USER)


async def test_a_read_only_call_of_another_tool_is_refused(gateway: Gateway) -> None:
    """Its server has not marked it."""
    with pytest.raises(ToolWithheldError, match="read-only"):
        await gateway.call(LOG, read_only=True, viewer=LOCAL_USER)


# --- what is shown ----------------------------------------------------------------------------------------


async def test_few_tools_are_shown_and_too_many_become_the_menu(tmp_path: Path) -> None:
    """Mode `auto` goes by what the definitions cost; `menu` and `all` by the operator alone."""
    settings = settings_of(tmp_path, *TOOLS)
    async with opened(settings) as gateway:
        shown = {}
        cost = sum(tool.cost_tokens for tool in gateway.snapshot.tools)
        for mode, even in (("auto", cost), ("auto", cost + 1), ("menu", cost + 1), ("all", 0)):
            wanted = Disclosure(mode=mode, break_even_tokens=even)  # type: ignore[arg-type]
            await gateway.configure(replace(settings, disclosure=wanted), viewer=LOCAL_USER)
            told, definitions, _ = await gateway.listing(LOCAL_USER)
            assert told == gateway.mode(LOCAL_USER)
            shown[mode, even - cost] = told, len(definitions)

    assert shown == {
        ("auto", 0): ("menu", 0),
        ("auto", 1): ("all", 5),
        ("menu", 1): ("menu", 0),
        ("all", -cost): ("all", 5),
    }


async def test_a_disabled_server_is_withheld_with_the_reason(tmp_path: Path) -> None:
    """Search says what matched and why it is not shown; a call says the same; a list leaves it out."""
    settings = settings_of(tmp_path, "git", "svn")
    async with opened(settings) as gateway:
        await gateway.configure(without(settings, "git"), viewer=LOCAL_USER)
        answer = await gateway.search(["show the history"], viewer=LOCAL_USER)
        mode, definitions, _ = await gateway.listing(LOCAL_USER)

        assert [found.tool.name for found in answer.results] == ["svn__log"]
        assert answer.withheld == {"git": (1, "disabled in the configuration")}
        assert "Withheld: 1 on git (disabled in the configuration)" in answer.text
        assert (mode, [tool.name for tool in definitions]) == ("all", ["svn__log"])
        assert gateway.browse("server/git", viewer=LOCAL_USER).text.startswith(
            "(disabled in the configuration)\n"
        )
        with pytest.raises(ToolWithheldError, match="'git' is disabled"):
            await gateway.call(LOG, viewer=LOCAL_USER)


async def test_listeners_hear_that_a_server_was_disabled(tmp_path: Path) -> None:
    """The catalog stays as it is, but clients have to list again; the same settings once more are no news."""
    settings = settings_of(tmp_path, "git")
    async with opened(settings) as gateway:
        heard: list[str] = []
        gateway.listen(lists=lambda: heard.append("changed"), resource=lambda *_: None)
        await gateway.configure(settings, viewer=LOCAL_USER)
        assert heard == []
        await gateway.configure(without(settings, "git"), viewer=LOCAL_USER)
        assert heard == ["changed"]
        await gateway.configure(settings, viewer=LOCAL_USER)
        assert heard == ["changed"] * 2


async def test_a_tool_of_a_server_that_is_not_known_yet_is_never_unknown(tmp_path: Path) -> None:
    """While it starts, a call waits a while and says so; search names it; once known, it answers."""
    gate = anyio.Event()
    settings = settings_of(tmp_path, "git", first_list_wait_s=0.05)
    call = LOG
    async with opened(settings, {"git": gate}) as gateway:
        with pytest.raises(ToolWithheldError, match="'git' is still starting"):
            await gateway.call(call, viewer=LOCAL_USER)
        answer = await gateway.search(["history"], viewer=LOCAL_USER)
        assert answer.unread == {"git": "still starting"}
        assert answer.note == "the tools of git are not known yet: search again in some seconds"
        assert gateway.browse("server/git", viewer=LOCAL_USER).text.startswith("(still starting)")
        assert (await gateway.listing(LOCAL_USER))[0] == "menu"

        gate.set()
        assert await gateway.settled(SOON_S)
        assert text_of(await gateway.call(call, viewer=LOCAL_USER)) == "git/log {'path': '/'}"
        assert (await gateway.listing(LOCAL_USER))[0] == "all"


async def test_search_says_what_to_do_about_servers_that_could_not_be_read(tmp_path: Path) -> None:
    """Seven servers that do not answer are no reason to search again; the note has bounded length."""
    names = [f"server-{number}" for number in range(7)]
    fine = settings_of(tmp_path, "git")
    missing = {name: ServerSpec(name=name, command="/nonexistent/program") for name in names}
    settings = replace(fine, servers={**fine.servers, **missing})
    async with open_gateway(settings, in_process={"git": make_server("git", TOOLS["git"])}) as gateway:
        await gateway.settled(SOON_S)
        answer = await gateway.search(["history"], viewer=LOCAL_USER)

    five = ", ".join(names[:5])
    note = f"the tools of {five} and 2 more servers are not known: `maitred doctor` says why and what to do"
    assert answer.note == note
    assert f"({note})" in answer.text


async def test_a_call_waits_for_a_server_that_is_just_starting(tmp_path: Path) -> None:
    """The agent need not know that it called a moment too early."""
    gate = anyio.Event()
    results = []
    async with opened(settings_of(tmp_path, "git", first_list_wait_s=SOON_S), {"git": gate}) as gateway:

        async def call() -> None:
            results.append(await gateway.call(LOG, viewer=LOCAL_USER))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            assert results == []
            gate.set()

    assert text_of(results[0]) == "git/log {'path': '/'}"


async def test_a_list_is_cut_into_pages_that_follow_each_other(tmp_path: Path) -> None:
    """A hundred tools a page, by name; the last page has no cursor."""
    many = {f"tool{n:03}": "Does something." for n in range(230)}
    settings = settings_of(tmp_path, "many", mode="all")
    async with open_gateway(settings, in_process={"many": make_server("many", many)}) as gateway:
        assert await gateway.settled(SOON_S)
        sizes: list[int] = []
        names: list[str] = []
        cursor = ""
        while not sizes or cursor:
            _, definitions, cursor = await gateway.listing(LOCAL_USER, after=cursor)
            sizes.append(len(definitions))
            names += [tool.name for tool in definitions]

    assert sizes == [100, 100, 30]
    assert names == [f"many__{name}" for name in many]


async def test_a_server_that_is_configured_no_more_is_forgotten(tmp_path: Path) -> None:
    """Nothing of it can be found, and its tools are unknown."""
    settings = settings_of(tmp_path, "git", "svn")
    async with opened(settings) as gateway:
        await gateway.configure(
            replace(settings, servers={"svn": settings.servers["svn"]}), viewer=LOCAL_USER
        )

        assert [status.name for status in gateway.servers(LOCAL_USER)] == ["svn"]
        assert list(gateway.snapshot.by_name) == ["svn__log"]
        with pytest.raises(ToolNotFoundError):
            await gateway.call(ToolCall(name="git__commit", arguments={}), viewer=LOCAL_USER)
