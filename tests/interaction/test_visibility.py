"""Tools that make sense now, as clients meet them: a real server of 23 tools, whose calls change its state.

What is to be seen is told by the state in the server's answers, not by the rules.
"""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from mcp import Client
from tests.disclosure.test_visibility import MANIFEST, expected_in
from tests.interaction.harness import (
    SUPPORT,
    HttpGateway,
    Mode,
    Transport,
    call,
    cli,
    know_as,
    listed,
    menu,
    over_stdio,
    serving,
    text_of,
)
from tests.interaction.listening import Listener, listening
from tests.interaction.requirements import requirement
from tests.support import prefork
from tests.support.debugger_server import TOOLS

pytestmark = pytest.mark.anyio

SECTION = MANIFEST.read_text(encoding="utf-8").partition("visibility:\n")[2]
STEP = "debugger__debugger_step_over"
ARGUMENTS = {"chrome_connect": {"connection_id": "one"}, "chrome_launch": {"connection_id": "two"},
             "chrome_disconnect": {"connection_id": "two"}}  # fmt: skip
WALK: Sequence[tuple[str, int]] = [
    ("chrome_connect", 12), ("debugger_enable", 15), ("debugger_pause", 17), ("chrome_launch", 13),
    ("debugger_enable", 16), ("debugger_pause", 18), ("debugger_resume", 16), ("chrome_disconnect", 17),
]  # fmt: skip
"""Calls, and how many tools there are to be seen after each; there are 3 before."""
Connect = Callable[..., Any]


def write(folder: Path, section: str = SECTION, also: str = "disclosure: {mode: all}\n") -> Path:
    """Write a configuration with the debugging server, and what is declared of it, in one step."""
    program, *arguments = prefork.script(SUPPORT / "debugger_server.py")
    text = (
        f"servers:\n  debugger:\n    command: {program}\n"
        f"    args: {json.dumps(arguments)}\n    visibility:\n{indent(section, '    ')}\n"
        f"catalog: {{path: catalog.db}}\n{also}"
    )
    fresh = folder / "fresh.tmp"
    fresh.write_text(text, encoding="utf-8")
    return fresh.replace(folder / "maitred.yaml")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration that knows the server, so that no list changes because it becomes known."""
    config = write(tmp_path_factory.mktemp("known"))
    done = cli(config, "list")
    assert done.returncode == 0, done.stderr
    return config


@pytest.fixture
def folder(known: Path, tmp_path: Path) -> Path:
    """A folder for a configuration that knows the server."""
    know_as(known, tmp_path)
    return tmp_path


@asynccontextmanager
async def front(folder: Path, transport: Transport, mode: Mode, **how: str) -> AsyncIterator[Connect]:
    """Opens clients of one era at a gateway of its own, `connect(**options)`."""
    config = write(folder, **how)
    if transport == "stdio":
        yield lambda **options: over_stdio(config, mode, **options)
        return
    with serving(config) as gateway:
        yield lambda **options: gateway.connect(mode, **options)


async def names(client: Client) -> frozenset[str]:
    return frozenset(tool.name.removeprefix("debugger__") for tool in await listed(client))


async def step(client: Client, tool: str) -> Any:
    """Call a tool directly; its result, which must be no error."""
    result = await client.call_tool(f"debugger__{tool}", ARGUMENTS.get(tool, {}))
    assert not result.is_error, text_of(result)
    return result


def sensible(state: Any) -> frozenset[str]:
    """What makes sense in the state that an answer of the server tells."""
    enabled, paused = state["debugger"]["enabled"], state["debugger"]["paused"]
    return expected_in(state["connections"], active=state["active"], enabled=enabled, paused=paused)


# --- lists ------------------------------------------------------------------------------------------------


@requirement("visibility:list")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_handshake_client_lists_what_makes_sense_and_hears_of_each_change_once(
    folder: Path, transport: Transport
) -> None:
    """3, 12, 15, 17 tools, and one more with two connections. Source: issue 6."""
    async with (
        front(folder, transport, "legacy") as connect,
        listening(connect, "legacy") as listener,
    ):
        assert await names(listener.client) == expected_in(0, active=False, enabled=False, paused=False)
        begun = listener.told.count("tools")
        for number, (tool, count) in enumerate(WALK):
            start = len(listener.told)
            result = await step(listener.client, tool)
            await listener.hears("tools", start)
            shown = await names(listener.client)
            assert (len(shown), shown) == (count, sensible(result.structured_content))
            assert listener.told.count("tools") - begun == number + 1


@requirement("visibility:stateless")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_stateless_client_has_one_list_whatever_it_calls(folder: Path, transport: Transport) -> None:
    """And hears of no change; its calls are held to the rules all the same. Source: specification."""
    async with front(folder, transport, "auto") as connect, listening(connect, "auto") as listener:
        client = listener.client
        before = [tool.model_dump_json() for tool in await listed(client)]
        begun = len(listener.told)
        assert (await client.call_tool(STEP, {})).is_error
        for tool, _ in WALK[:3]:
            await step(client, tool)
        await step(client, "debugger_step_over")

        assert [tool.model_dump_json() for tool in await listed(client)] == before
        assert len(before) == len(TOOLS)
        assert listener.told[begun:] == []


@requirement("visibility:all")
async def test_with_visibility_all_everything_is_listed_and_calls_are_held_to_the_rules(
    folder: Path,
) -> None:
    """Written short. Source: issue 6, "`visibility: dynamic | all`"."""
    also = "disclosure: {mode: all}\nvisibility: all\n"
    async with front(folder, "http", "legacy", also=also) as connect, connect() as client:
        assert await names(client) == set(TOOLS)
        assert "it needs a paused debugger" in text_of(await client.call_tool(STEP, {}))


# --- calls and search -------------------------------------------------------------------------------------


@requirement("visibility:refused", "visibility:news", "visibility:search")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_hidden_tool_is_found_and_refused_on_every_way_until_its_next_steps_are_made(
    folder: Path, transport: Transport, mode: Mode
) -> None:
    """Search, calls and answers name the way there, in names that can be called. Source: issue 6."""
    async with (
        front(folder, transport, mode, also="disclosure: {mode: menu}\n") as connect,
        connect() as client,
    ):
        found = await menu(client, "search_tools", phrases=["step over to the next line"])
        program = {"code": f"await call_tool('{STEP}')"}
        refusals = [
            text_of(await client.call_tool(STEP, {})),
            text_of(await call(client, STEP)),
            text_of(await client.call_tool("call_read_only_tool", {"name": STEP, "arguments": {}})),
            text_of(await client.call_tool("call_tool_chain", program)),
        ]
        reads = await call(client, "debugger__get_console_logs")
        way = refusals[0].partition("; call ")[2].split(", then ")
        answers = [await call(client, name) for name in way]
        made = await call(client, STEP)

    assert f"[not available now: it needs a paused debugger; call {', then '.join(way)}]" in found
    assert way == [f"debugger__{name}" for name in ("chrome_connect", "debugger_enable", "debugger_pause")]
    assert [f"it needs a paused debugger; call {way[0]}" in refusal for refusal in refusals] == [True] * 4
    assert "needs a connected browser" in text_of(reads)
    news = [answer.content[-1].text.removeprefix("Now available: ").split(", ") for answer in answers]
    assert [answer.meta["maitred/available"] for answer in answers] == news
    assert STEP in news[2]
    assert not made.is_error, text_of(made)


# --- the configuration ------------------------------------------------------------------------------------


@requirement("visibility:faults")
def test_serve_refuses_faulty_rules_and_names_all_faults(tmp_path: Path) -> None:
    """With line and key, at once, and no traceback. Source: issue 6."""
    config = write(
        tmp_path,
        "  facts: {paused: false, Bad: 1}\n"
        "  on_success:\n    debugger_pause: {pausd: true}\n"
        "  visible_when:\n"
        "    debugger_pause: '!pausedd'\n"
        "    debugger_resume: {rule: nobody}\n"
        "    debugger_step_over: {when: paused, becuase: no}\n",
    )

    done = cli(config, "serve")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    at = "servers.debugger.visibility"
    for line, keys, hint in (
        (6, "facts.Bad", "is no name for a fact"),
        (8, "on_success.debugger_pause.pausd", "did you mean `paused`"),
        (10, "visible_when.debugger_pause", "did you mean `paused`"),
        (11, "visible_when.debugger_resume.rule", "there is no rule 'nobody'"),
        (12, "visible_when.debugger_step_over.becuase", "did you mean `because`"),
    ):
        told = f"line {line}: {at}.{keys}: "
        assert any(told in one and hint in one for one in done.stderr.splitlines()), (told, done.stderr)


@requirement("visibility:edited")
async def test_edited_rules_reach_clients_and_a_faulty_edit_does_not(folder: Path) -> None:
    """The state is not forgotten by it, and the server goes on. Source: issue 6."""
    with serving(write(folder)) as gateway:
        async with listening(gateway_of(gateway), "legacy") as listener:
            client = listener.client
            await names(client)
            await step(client, "chrome_connect")
            await listener.hears("tools")
            assert len(await names(client)) == 12

            await edited(listener, folder, SECTION.replace("navigate: *running", "navigate: 'false'"))
            assert len(await names(client)) == 11
            seen = len(gateway.output.lines)
            write(folder, SECTION.replace("connections > 0", "conections > 0"))
            said = await gateway.says_after(seen, "the changed configuration is not used")
            assert len(await names(client)) == 11
            assert "did you mean `connections`" in "".join([said, *gateway.output.lines[seen:]])

            await edited(listener, folder, "  facts: {}\n")
            assert await names(client) == set(TOOLS)
            await step(client, "list_targets")


def gateway_of(gateway: HttpGateway) -> Connect:
    return lambda **options: gateway.connect("legacy", **options)


async def edited(listener: Listener, folder: Path, section: str) -> None:
    """Write the section anew, and wait until the client is told."""
    start = len(listener.told)
    write(folder, section)
    await listener.hears("tools", start)


@requirement("visibility:doctor")
def test_doctor_names_what_is_declared_for_tools_that_are_not_there(tmp_path: Path) -> None:
    """A slip in a name hides nothing, silently; it is a note and no fault. Source: docs/visibility.md."""
    config = write(tmp_path, SECTION.replace("    navigate: *running", "    navigat: *running"))

    done = cli(config, "doctor")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "note: visibility: `navigat` fits no tool of the server; did you mean `navigate`?" in done.stdout
    assert done.stdout.count("note: visibility") == 1
