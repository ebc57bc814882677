"""Chains as clients see them: progress, faults, results that are too long, and what cancelling one ends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from tests.interaction.harness import WAIT_S, Front, Json, call, faulty, text_of, write_settings
from tests.interaction.requirements import requirement
from watchfiles import awatch

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("chains")]

SUMS = """
import asyncio
import counter

async def total(n):
    return (await counter.add(a=n, b=n))

return await asyncio.gather(*[total(n) for n in range(4)])
"""


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        servers = {
            "counter": faulty("count"),
            "changing": faulty("changing-tools"),
            "closed": faulty("count") | {"enabled": False},
            "slow": faulty("slow-call", str(folder / "cancelled.txt")),
            "broken": faulty("exit-at-start"),
        }
        return write_settings(folder, servers, disclosure={"mode": "menu"}, search={"mode": "lexical"})

    return make


async def chain(client: Client, code: str, *, progress_callback: Any = None, **options: Any) -> Any:
    """Run a chain; the result may be an error."""
    return await client.call_tool(
        "call_tool_chain", {"code": code, **options}, progress_callback=progress_callback
    )


def structured(result: Any) -> Json:
    """The structured content, which every answer of a chain has."""
    found: Json = result.structured_content
    assert {"ok", "result", "summary", "calls", "error", "full_uri"} <= found.keys()
    return found


@requirement("chain:run")
async def test_a_program_calls_tools_and_only_its_result_comes_back(client: Client) -> None:
    """`add` is not marked read-only, as little as `call_tool_chain` is. Source: issue 5."""
    result = await chain(client, SUMS)
    [shown] = [
        tool
        for tool in (await client.list_tools(cache_mode="refresh")).tools
        if tool.name == "call_tool_chain"
    ]

    assert not result.is_error, text_of(result)
    told = structured(result)
    assert told["result"] == ["0", "2", "4", "6"]
    assert [(one["tool"], one["ok"]) for one in told["calls"]] == [("counter__add", True)] * 4
    assert '["0","2","4","6"]' in text_of(result)
    assert shown.annotations is not None
    assert not shown.annotations.read_only_hint
    assert shown.annotations.destructive_hint


@requirement("chain:progress")
async def test_each_call_inside_is_told_as_progress(client: Client) -> None:
    """A number that only grows, and the name of the tool. Source: issue 5."""
    seen: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    result = await chain(client, SUMS, progress_callback=on_progress)

    assert not result.is_error, text_of(result)
    assert seen == [(n, f"call {n}: counter__add") for n in (1, 2, 3, 4)]


@requirement("chain:errors")
async def test_a_wrong_call_inside_is_answered_with_the_tool_and_its_parameters(client: Client) -> None:
    """So that the next try succeeds; the line is named too. Source: issue 5."""
    unknown = await chain(client, 'x = 1\ny = await call_tool("counter__ad", {})\nreturn y')
    wrong = await chain(client, 'return await call_tool("counter__add", {"a": 1})\n# the only call')
    module = await chain(client, "import counter\nreturn await counter.add(a=1, c=2)")

    for result in (unknown, wrong, module):
        assert result.is_error
        assert not structured(result)["ok"]
    assert "Did you mean counter__add" in text_of(unknown)
    assert structured(unknown)["error"]["line"] == 2
    assert "counter__add" in text_of(wrong)
    assert '"required":["a","b"]' in text_of(wrong)
    assert "it takes a, b" in text_of(module)


@requirement("chain:dry-run")
async def test_a_dry_run_finds_faults_and_calls_nothing(client: Client, front: Front) -> None:
    """A tool that it would have added is not there afterwards. Source: issue 5."""
    name = f"late_{front.tag}"
    add = f'await call_tool("changing__add_tool", {{"name": "{name}"}})\nreturn 1'
    fine = await chain(client, add, dry_run=True)
    wrong = await chain(client, "import counter\nreturn await counter.add(a='one', b=2)", dry_run=True)
    late = await call(client, f"changing__{name}")

    assert structured(fine)["ok"]
    assert structured(fine)["calls"] == structured(wrong)["calls"] == []
    assert wrong.is_error
    assert "line 2" in text_of(wrong)
    assert late.is_error
    assert "There is no tool" in text_of(late)


@requirement("chain:long")
async def test_a_long_result_is_cut_and_can_be_read_whole(client: Client) -> None:
    """The parts that `resources/read` gives are the whole result. Source: issue 5."""
    result = await chain(client, "return list(range(20000))", max_output_size=1_000)
    told = structured(result)

    parts: list[str] = []
    uri = told["full_uri"]
    while uri:
        contents = (await client.read_resource(uri)).contents
        assert isinstance(contents[0], types.TextResourceContents)
        parts.append(contents[0].text)
        uri = str(contents[1].uri) if len(contents) > 1 else ""

    assert told["truncated"]
    assert told["full_uri"] in text_of(result)
    assert len(text_of(result)) < 4_000
    assert json.loads("".join(parts)) == list(range(20_000))


@requirement("chain:cancel")
async def test_a_chain_that_the_client_cancels_ends_its_calls_at_their_servers(front: Front) -> None:
    """The server of the call under way is told, and the next chain runs. Source: issue 5."""
    told = anyio.Path(front.folder / "cancelled.txt")
    await told.unlink(missing_ok=True)

    async with front.connect() as client:
        assert not (await call(client, "slow__wait", {"seconds": 0.1})).is_error
        with anyio.CancelScope() as scope:

            async def on_progress(*_: object) -> None:
                scope.cancel()

            code = (
                "import slow\ntry:\n    await slow.wait(seconds=20)\nexcept RuntimeError:\n    pass\nreturn 1"
            )
            await chain(client, code, progress_callback=on_progress)
        assert scope.cancelled_caught
        await appears(told)
        result = await chain(client, SUMS)

    assert await told.read_text() == "cancelled"
    assert structured(result)["result"] == ["0", "2", "4", "6"]


@requirement("chain:withheld")
async def test_a_disabled_server_is_refused_inside_with_the_reason(client: Client) -> None:
    """Never as an unknown tool. Source: issue 5."""
    code = """
try:
    await call_tool("closed__add", {"a": 1, "b": 2})
except RuntimeError as error:
    return str(error)
"""
    caught = await chain(client, code)
    short = await chain(client, '{"tool": "closed__add", "arguments": {"a": 1, "b": 2}}')

    assert "closed" in structured(caught)["result"]
    assert "disabled in the configuration" in structured(caught)["result"]
    assert short.is_error
    assert "disabled in the configuration" in text_of(short)


async def appears(path: anyio.Path) -> None:
    """Wait until a file is there; the watch looks again at short intervals, since it may miss the start."""
    with anyio.fail_after(WAIT_S):
        async for _ in awatch(str(path.parent), rust_timeout=100, yield_on_timeout=True):
            if await path.exists():
                return


@requirement("chain:names")
async def test_a_name_that_nothing_has_is_told_before_anything_is_called(client: Client) -> None:
    """Also where it stands behind calls that change something. Source: issue "What broke", 13."""
    told = structured(await chain(client, "import counter\nawait counter.add(a=1, b=1)\nreturn sums"))

    assert not told["ok"]
    assert "'sums' is not defined" in told["error"]["message"]
    assert (told["error"]["line"], told["calls"]) == (3, [])


@requirement("chain:failing")
async def test_a_server_that_failed_is_no_unknown_module(client: Client) -> None:
    """Else nobody would look for what is wrong with it. Source: issue "What broke", 14."""
    told = structured(await chain(client, "import broken\nreturn await broken.echo()"))

    assert "The server of this name has no tools" in told["error"]["message"]
