"""What finding tools cost a principal, beside what the raw list would have; where that is told and kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.rig import Upstream, call, opened, settings_of
from tests.support.viewers import agent

from maitred.disclosure.budget import estimate
from maitred.gateway import LEDGER_KEY, LOCAL, Gateway
from maitred.meta_tools.base import MetaToolRequest
from maitred.meta_tools.menu import answer, definitions
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

TOOLS = {"read": "Read a file from the disk.", "write": "Write a file to the disk."}


async def ask(gateway: Gateway, name: str, principal: str = LOCAL, /, **arguments: Any) -> dict[str, Any]:
    """Call a meta-tool as the MCP surface does."""
    inner = ToolCall(name=name, arguments=arguments)
    request = MetaToolRequest(arguments=arguments, viewer=agent(principal), call=inner)
    return await answer(gateway, name, request)


def entry(result: dict[str, Any]) -> dict[str, Any]:
    return dict(result["_meta"][LEDGER_KEY])


async def test_every_answer_of_ours_tells_what_was_spent_today(tmp_path: Path) -> None:
    """By this principal alone; errors cost tokens as well."""
    async with opened(settings_of(tmp_path, "files"), Upstream("files", TOOLS)) as gateway:
        first = await ask(gateway, "list_tools_meta", "ada")
        second = await ask(gateway, "search_tools", "ada", phrases=["read a file"])
        other = await ask(gateway, "list_tools_meta", "alan", path="nowhere")

    tokens = [estimate(result["content"][0]["text"]) for result in (first, second, other)]
    assert other["isError"]
    assert [entry(result)["answer"] for result in (first, second, other)] == tokens
    assert entry(second)["spent_today"] == tokens[0] + tokens[1]
    assert entry(other)["spent_today"] == tokens[2]


async def test_the_cost_of_the_raw_list_is_that_of_all_tools_that_are_enabled(tmp_path: Path) -> None:
    """As it would be sent to a client; a disabled server would not be in it."""
    settings = settings_of(tmp_path, "a", "b")
    off = {**settings.servers, "b": replace(settings.servers["b"], enabled=False)}
    async with opened(settings, Upstream("a", TOOLS), Upstream("b", TOOLS)) as gateway:
        cost = {name: sum(t.cost_tokens for t in gateway.snapshot.by_server[name]) for name in "ab"}
        both = gateway.raw_tokens(LOCAL_USER)
        await gateway.configure(replace(settings, servers=off), viewer=LOCAL_USER)
        one = gateway.raw_tokens(LOCAL_USER)

    assert (both, one) == (cost["a"] + cost["b"], cost["a"])
    assert min(cost.values()) > 20


async def test_break_even_is_told_once_finding_tools_costs_as_much_as_the_raw_lists(tmp_path: Path) -> None:
    """What tools themselves answer counts on neither side."""
    async with opened(settings_of(tmp_path, "files"), Upstream("files", TOOLS)) as gateway:
        ada, bob = agent("ada"), agent("bob")
        gateway.count_menu(definitions(gateway.index(LOCAL_USER)), ada)
        raw = gateway.raw_tokens(ada)
        told = entry(await ask(gateway, "list_tools_meta", "ada"))
        gateway.count_result({"content": [{"type": "text", "text": "x" * 100_000}]}, bob)
        gateway.count_tools(gateway.snapshot.tools, bob)
        spending = {row.principal: row for row in (await gateway.stats(viewer=LOCAL_USER)).spending}

    assert told["raw_today"] == told["raw_list"] == raw
    assert told["spent_today"] == spending["ada"].list_tokens + told["answer"]
    assert told["break_even"] is (told["spent_today"] >= raw) is spending["ada"].break_even
    assert (spending["bob"].result_tokens, spending["bob"].spent) == (25_000, raw)
    assert spending["ada"].list_tokens > 100


async def test_an_answer_that_is_relayed_has_an_entry_only_through_the_meta_tool(tmp_path: Path) -> None:
    """What a server says in `_meta` is kept beside ours; who calls the tool itself gets what it answered."""
    upstream = Upstream("files", TOOLS)
    upstream.meta = {"server/own": [1]}
    async with opened(settings_of(tmp_path, "files"), upstream) as gateway:
        plain = await call(gateway, "files__read")
        relayed = await ask(gateway, "call_tool", name="files__read", arguments={"path": "/"})

    assert plain["_meta"]["server/own"] == [1]
    assert LEDGER_KEY not in plain["_meta"]
    assert relayed["_meta"]["server/own"] == [1]
    assert [block["text"] for block in relayed["content"]] == [block["text"] for block in plain["content"]]
    assert entry(relayed)["answer"] == len("files/read") // 4
    assert entry(relayed)["spent_today"] == 0


async def test_what_was_spent_is_known_when_the_gateway_is_opened_again(tmp_path: Path) -> None:
    """Today's figures go on where they were, and so do those of calls."""
    settings = settings_of(tmp_path, "files")
    async with opened(settings, Upstream("files", TOOLS)) as gateway:
        gateway.count_menu(definitions(""), agent("ada"))
        before = entry(await ask(gateway, "list_tools_meta", "ada"))
        await call(gateway, "files__read", 3)
    async with opened(settings, Upstream("files", TOOLS)) as gateway:
        after = entry(await ask(gateway, "list_tools_meta", "ada", path="servers"))
        stats = await gateway.stats(viewer=LOCAL_USER)

    assert after["spent_today"] == before["spent_today"] + after["answer"]
    assert after["raw_today"] == before["raw_today"] > 0
    assert (stats.calls, stats.used["files__read"].calls) == (3, 3)


@pytest.mark.parametrize("content", [None, 5, "text", {"text": "x"}, [5, {"text": 7}]], ids=str)
async def test_an_answer_of_an_odd_shape_is_counted_as_nothing(tmp_path: Path, content: Any) -> None:
    """The tool was called; its answer is passed on as it came."""
    async with opened(settings_of(tmp_path, "files"), Upstream("files", TOOLS)) as gateway:
        assert gateway.count_result({"content": content}, agent("ada"))["answer"] == 0
