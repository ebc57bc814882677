"""Kept answers: only where an operator asked for them, only of what may be repeated, each to its caller."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.gateway.desk import at_desk, keeping, told
from tests.gateway.rig import Upstream, opened, settings_of
from tests.support.viewers import agent

from maitred.backends.base import NOT_ASKED
from maitred.errors import ArgumentsError, ToolWithheldError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL, LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.surfaces.mcp.server import McpSurface

pytestmark = pytest.mark.anyio

KEPT_S = 600.0


@pytest.mark.parametrize(
    ("cache_s", "tools", "kept"),
    [
        (0.0, {}, set()),
        (KEPT_S, {}, {"read"}),
        (0.0, {"read": KEPT_S, "put": KEPT_S, "write": KEPT_S}, {"read", "put"}),
        (KEPT_S, {"read": 0.0, "put": KEPT_S}, {"put"}),
    ],
    ids=["nobody asked", "server", "tools by name", "tool before server"],
)
async def test_an_answer_is_kept_only_where_the_operator_said_so_and_the_tool_may_be_repeated(
    tmp_path: Path, cache_s: float, tools: Mapping[str, float], kept: set[str]
) -> None:
    """A server's setting is for what reads; what repeats must be named; what writes is never kept."""
    async with at_desk(keeping(tmp_path, cache_s, **tools)) as (gateway, desk):
        found = set()
        for tool in ("read", "put", "write"):
            first = await told(gateway, tool)
            assert first == [f"{tool} / 1"]
            if await told(gateway, tool) == [*first, "[cached]"]:
                found.add(tool)

        assert found == kept
        assert desk.made == {tool: 1 if tool in kept else 2 for tool in ("read", "put", "write")}


async def test_a_kept_answer_says_so_to_models_and_to_programs(tmp_path: Path) -> None:
    """In a last text and in `_meta`; the answer before it says neither."""
    call = ToolCall(name="desk__read", arguments={"path": "/"})
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, _):
        fresh, kept = await gateway.call(call, viewer=LOCAL_USER), await gateway.call(call, viewer=LOCAL_USER)

    assert "maitred/cached" not in (fresh.get("_meta") or {})
    assert kept["_meta"]["maitred/cached"] is True
    assert [block["text"] for block in kept["content"]] == ["read / 1", "[cached]"]


async def test_callers_do_not_see_each_others_answers(tmp_path: Path) -> None:
    """What a server tells one may not be for another; nor is another question the same."""
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, desk):
        assert await told(gateway, "read", principal="ann") == ["read / 1"]
        assert await told(gateway, "read", principal="bob") == ["read / 2"]
        assert await told(gateway, "read", "/x", principal="ann") == ["read /x 3"]
        assert await told(gateway, "read", principal="bob") == ["read / 2", "[cached]"]

        assert desk.made["read"] == 3


@pytest.mark.parametrize("tool", ["write", "put"])
async def test_a_call_that_may_write_forgets_what_its_server_told(tmp_path: Path, tool: str) -> None:
    """What it told before may be different now; another server is not concerned."""
    other = ToolCall(name="other__read", arguments={"path": "/"})
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, _):
        await told(gateway, "read")
        await gateway.call(other, viewer=LOCAL_USER)
        await told(gateway, tool)

        assert await told(gateway, "read") == ["read / 2"]
        assert (await gateway.call(other, viewer=LOCAL_USER))["content"][-1]["text"] == "[cached]"


async def test_a_kept_call_that_writes_forgets_too_when_it_is_made(tmp_path: Path) -> None:
    """A tool that is named to be kept still writes the first time."""
    async with at_desk(keeping(tmp_path, KEPT_S, put=KEPT_S)) as (gateway, _):
        await told(gateway, "read")
        assert await told(gateway, "put") == ["put / 1"]

        assert await told(gateway, "read") == ["read / 2"]
        assert await told(gateway, "put") == ["put / 1", "[cached]"]


async def test_a_repeatable_call_is_made_again_after_one_with_other_arguments(tmp_path: Path) -> None:
    """To put A, then B, then A again leaves A there: the last may not be answered from the first."""
    async with at_desk(keeping(tmp_path, put=KEPT_S)) as (gateway, _):
        for path, count in (("/a", 1), ("/b", 2), ("/a", 3)):
            assert await told(gateway, "put", path) == [f"put {path} {count}"]


async def test_an_error_is_not_kept(tmp_path: Path) -> None:
    """It may pass."""
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, _):
        assert await told(gateway, "read", "/broken") == ["read /broken 1"]
        assert await told(gateway, "read", "/broken") == ["read /broken 2"]


async def test_a_write_that_failed_or_was_given_up_forgets_too(tmp_path: Path) -> None:
    """It may have been done."""
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, desk):
        await told(gateway, "read")
        desk.begun, desk.gate = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told, gateway, "write")
            await desk.begun.wait()
            tasks.cancel_scope.cancel()
        desk.gate.set()

        assert await told(gateway, "read") == ["read / 2"]


async def test_a_kept_answer_of_a_tool_that_writes_is_refused_to_a_reader(tmp_path: Path) -> None:
    """`call_read_only_tool` has the same answer, whether it would be a new one or not."""
    async with at_desk(keeping(tmp_path, put=KEPT_S)) as (gateway, _):
        await told(gateway, "put")
        call = ToolCall(name="desk__put", arguments={"path": "/"})
        with pytest.raises(ToolWithheldError, match="read-only"):
            await gateway.call(call, read_only=True, viewer=agent("ann"))


async def test_a_server_that_is_configured_otherwise_is_asked_again_at_once(tmp_path: Path) -> None:
    """It may be another account; the list of its tools is not waited for."""
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, _):
        await told(gateway, "read")
        settings = gateway.settings
        changed = replace(settings.servers["desk"], args=("--other",))
        await gateway.configure(
            replace(settings, servers={**settings.servers, "desk": changed}), viewer=LOCAL_USER
        )

        assert await told(gateway, "read") == ["read / 2"]


@pytest.mark.parametrize("name", ["desk__read", "call_tool"])
async def test_clients_of_two_principals_do_not_share_answers(tmp_path: Path, name: str) -> None:
    """Whichever way they call."""
    inner = {"path": "/"}
    arguments = inner if name == "desk__read" else {"name": "desk__read", "arguments": inner}
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, _):
        texts = [
            [block["text"] for block in (await asked(gateway, name, arguments, principal=who))["content"]]
            for who in ("ann", "bob", "ann")
        ]

    assert texts == [["read / 1"], ["read / 2"], ["read / 1", "[cached]"]]


async def test_an_answer_that_is_older_than_the_operator_wants_now_is_not_given(tmp_path: Path) -> None:
    """Also where it was kept for longer."""
    async with at_desk(keeping(tmp_path, read=KEPT_S)) as (gateway, _):
        await told(gateway, "read")
        await gateway.configure(keeping(tmp_path, read=1e-9), viewer=LOCAL_USER)

        assert await told(gateway, "read") == ["read / 2"]


async def test_a_server_cannot_call_its_answer_a_kept_one(tmp_path: Path) -> None:
    """What receipts and marks say is ours to say."""
    files = Upstream("files", {"read_file": "Read."})
    files.meta = {"maitred/cached": True, "theirs": 1}
    async with opened(settings_of(tmp_path, "files"), files) as gateway:
        call = ToolCall(name="files__read_file", arguments={"path": "/"})
        direct = await gateway.call(call, viewer=agent("ann"))
        chain = await gateway.run_chain("files.read_file(path='/')", viewer=agent("ann"))

    assert direct["_meta"]["theirs"] == 1
    assert "maitred/cached" not in direct["_meta"]
    assert not chain.calls[0].cached


async def test_wrong_arguments_are_refused_before_the_cache(tmp_path: Path) -> None:
    """With the parameters, as without a cache; nothing reaches the server."""
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, desk):
        with pytest.raises(ArgumentsError, match=r'Its parameters: .*"required":\["path"\]'):
            await gateway.call(ToolCall(name="desk__read", arguments={}), viewer=LOCAL_USER)

        assert desk.made == {}


async def test_equal_calls_at_the_same_time_are_one(tmp_path: Path) -> None:
    """Four ask, the server is asked once, all four are answered; three of them by the call of another."""
    answers: list[list[str]] = []
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, desk):
        desk.gate = anyio.Event()

        async def ask() -> None:
            answers.append(await told(gateway, "read"))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(ask)
            await desk.begun.wait()
            desk.gate.set()

        assert desk.made["read"] == 1
        assert sorted(map(len, answers)) == [1, 2, 2, 2]
        assert {answer[0] for answer in answers} == {"read / 1"}


async def test_a_kept_answer_is_use_of_its_tool_but_no_call_of_its_server(tmp_path: Path) -> None:
    """What is asked for often is near at hand, also where it need not be fetched each time."""
    heard: list[str] = []
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, _):
        gateway.watch(lambda server, ok, seconds: heard.append(server))
        for _ in range(3):
            await told(gateway, "read")
        stats = await gateway.stats(7, viewer=LOCAL_USER)

    assert {name: use.calls for name, use in stats.used.items()} == {"desk__read": 3}
    assert heard == ["desk"]


@pytest.mark.parametrize("name", ["desk__read", "call_tool", "call_read_only_tool"])
async def test_clients_get_kept_answers_whichever_way_they_call(tmp_path: Path, name: str) -> None:
    """By the published name, or through the menu."""
    inner = {"path": "/"}
    arguments = inner if name == "desk__read" else {"name": "desk__read", "arguments": inner}
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, desk):
        results = [await asked(gateway, name, arguments) for _ in range(2)]

        assert desk.made["read"] == 1
    assert [[block["text"] for block in result["content"]] for result in results] == [
        ["read / 1"],
        ["read / 1", "[cached]"],
    ]


async def asked(
    gateway: Gateway, name: str, arguments: Mapping[str, Any], principal: str = LOCAL
) -> dict[str, Any]:
    surface = McpSurface(gateway, viewer=agent(principal))
    call = {"name": name, "arguments": arguments}
    return dict(await surface.call_tool(call, "2025-11-25", NOT_ASKED, surface.viewers.stateless))


async def test_a_call_that_changes_facts_forgets_what_its_server_told(tmp_path: Path) -> None:
    """It changes the state that others were asked about, whatever its server says of it."""
    declared = {"facts": {"read": False}, "on_success": {"read": {"read": True}}}
    settings = keeping(tmp_path, put=KEPT_S)
    changing = replace(settings.servers["desk"], visibility=declared)
    async with at_desk(replace(settings, servers={**settings.servers, "desk": changing})) as (gateway, _):
        await told(gateway, "put")
        assert await told(gateway, "put") == ["put / 1", "[cached]"]
        await told(gateway, "read")
        assert await told(gateway, "put") == ["put / 2"]
