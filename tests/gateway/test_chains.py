"""Chains in the gateway: every call inside takes the way of a call from outside, with what belongs to it."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.gateway.desk import at_desk, keeping, told
from tests.support.viewers import agent

from maitred.chains.answer import ChainAnswer
from maitred.config.settings import Chain
from maitred.errors import ResultNotFoundError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER

pytestmark = pytest.mark.anyio

KEPT_S = 600.0
READ = 'await call_tool("desk__read", {"path": "/"})\n'
PROGRAM = "import asyncio\nimport desk\n" + (
    "both = await asyncio.gather(desk.read(path='/a'), desk.write(path='/b'))\nreturn both\n"
)
MISTAKES = [
    ("desk__raed", {"path": "/"}, "Did you mean desk__read"),
    ("desk__read", {}, '"required":["path"]'),
    ("desk__read", {"path": 7}, "desk__read"),
]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """Two desks; nothing is kept."""
    async with at_desk(keeping(tmp_path)) as (opened, _):
        yield opened


async def run(gateway: Gateway, code: str, principal: str = "ann", *, dry_run: bool = False) -> ChainAnswer:
    return await gateway.run_chain(code, viewer=agent(principal), dry_run=dry_run)


async def test_a_program_calls_tools_of_every_kind(gateway: Gateway) -> None:
    """By their servers as modules, two at once; each call is told with its size."""
    answer = await run(gateway, PROGRAM)

    assert answer.ok, answer.text
    assert answer.result == ["read /a 1", "write /b 1"]
    assert {call.tool for call in answer.calls} == {"desk__read", "desk__write"}
    assert all(call.ok and call.bytes > 0 and not call.cached for call in answer.calls)


@pytest.mark.parametrize(
    "code",
    [
        READ,
        'await call_tool("desk.read", {"path": "/"})',
        'return await call_tool("desk.read", {"path": "/"})',
        'desk__read({"path": "/"})',
        'desk.read(path="/")',
        '{"tool": "desk__read", "arguments": {"path": "/"}}',
        '{"tool": "desk.read", "arguments": {"path": "/"}}',
    ],
)
async def test_a_single_call_may_be_written_in_every_way(gateway: Gateway, code: str) -> None:
    """A short form, a program, with or without the module's name."""
    answer = await run(gateway, code)

    assert (answer.ok, answer.result) == (True, "read / 1"), answer.text


async def test_calls_of_a_chain_are_counted_as_use_like_all_others(gateway: Gateway) -> None:
    """What chains use most belongs to the hot list too."""
    await run(gateway, f"for n in range(3):\n    {READ}")
    await told(gateway, "read")
    stats = await gateway.stats(7, viewer=LOCAL_USER)

    assert {name: use.calls for name, use in stats.used.items()} == {"desk__read": 4}


@pytest.mark.parametrize(("tool", "arguments", "said"), MISTAKES, ids=["name", "missing", "kind"])
@pytest.mark.parametrize("form", ["program", "JSON"])
async def test_a_mistake_inside_names_the_tool_and_what_it_takes(
    gateway: Gateway, tool: str, arguments: dict[str, object], said: str, form: str
) -> None:
    """The same words as a call from outside gets, with the receipt of a call that was not made."""
    call = {"tool": tool, "arguments": arguments}
    code = json.dumps(call) if form == "JSON" else f"x = await call_tool({tool!r}, {arguments!r})\nreturn x"
    answer = await run(gateway, code)

    assert not answer.ok
    assert answer.fault is not None
    assert tool in answer.fault.message
    assert said in answer.fault.message
    assert [call.ok for call in answer.calls] == [False]


async def test_a_program_may_catch_what_fails(gateway: Gateway) -> None:
    """An error of a tool, and one of ours; the receipts still tell that they failed."""
    code = """
said = []
for tool, path in (("desk__read", "/broken"), ("desk__nothing", "/"), ("desk__read", "/x")):
    try:
        said.append(await call_tool(tool, {"path": path}))
    except RuntimeError as error:
        said.append("caught")
return said
"""
    answer = await run(gateway, code)

    assert answer.result == ["caught", "caught", "read /x 2"]
    assert [call.ok for call in answer.calls] == [False, False, True]


@pytest.mark.parametrize("code", [PROGRAM, READ, '[{"tool": "desk__read", "arguments": {"path": "/"}}]'])
async def test_a_dry_run_calls_nothing(tmp_path: Path, code: str) -> None:
    """And finds nothing wrong with what is right."""
    async with at_desk(keeping(tmp_path)) as (gateway, desk):
        answer = await run(gateway, code, dry_run=True)

        assert answer.ok, answer.text
        assert "No tool was called" in answer.text
        assert desk.made == {}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import desk\nreturn await desk.read(paht='/')", "path"),
        ('{"tool": "desk__read", "arguments": {}}', '"path" is a required property'),
        ('{"tool": "desk__raed", "arguments": {}}', "desk__read"),
        ("return undefined_name", "undefined_name"),
        ("return (", "1"),
    ],
)
async def test_a_dry_run_finds_what_is_wrong(gateway: Gateway, code: str, said: str) -> None:
    """A wrong name, a wrong argument, a wrong line."""
    answer = await run(gateway, code, dry_run=True)

    assert not answer.ok
    assert said in answer.text
    assert answer.calls == ()


async def test_receipts_say_which_answers_were_kept(tmp_path: Path) -> None:
    """The value is that of the first call, without the mark; the summary counts them."""
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, desk):
        answer = await run(gateway, f"return [{READ.strip()}, {READ.strip()}]")

        assert answer.result == ["read / 1", "read / 1"]
        assert [call.cached for call in answer.calls] == [False, True]
        assert "1 from the cache" in answer.summary
        assert desk.made["read"] == 1
        assert await told(gateway, "read") == ["read / 1", "[cached]"]
        assert (await run(gateway, READ, "bob")).result == "read / 2"


async def test_a_call_inside_that_writes_forgets_what_was_kept(tmp_path: Path) -> None:
    """As one from outside does."""
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, _):
        await told(gateway, "read")
        await run(gateway, 'desk__write({"path": "/"})')

        assert await told(gateway, "read") == ["read / 2"]


async def test_equal_calls_of_one_chain_at_once_are_one(tmp_path: Path) -> None:
    """Where answers may be kept, a careless program costs the server one call."""
    code = (
        "import asyncio\nimport desk\nreturn await asyncio.gather(*[desk.read(path='/') for n in range(5)])"
    )
    async with at_desk(keeping(tmp_path, KEPT_S)) as (gateway, desk):
        answer = await run(gateway, code)

        assert answer.result == ["read / 1"] * 5
        assert desk.made["read"] == 1
        assert sum(call.cached for call in answer.calls) == 4


async def test_a_chain_may_not_make_more_calls_than_the_operator_allows(tmp_path: Path) -> None:
    """It ends with the calls that it made; it cannot go on by catching the error."""
    settings = replace(keeping(tmp_path), chain=Chain(max_calls=3))
    code = (
        f"for n in range(9):\n    try:\n        {READ}    except RuntimeError:\n        pass\nreturn 'done'"
    )
    async with at_desk(settings) as (gateway, desk):
        answer = await run(gateway, code)

        assert answer.fault is not None
        assert answer.fault.kind == "calls"
        assert desk.made["read"] == 3


async def test_a_disabled_server_is_refused_inside_with_the_reason(tmp_path: Path) -> None:
    """It is no module either."""
    settings = keeping(tmp_path)
    closed = replace(settings.servers["desk"], enabled=False)
    async with at_desk(settings) as (gateway, desk):
        await gateway.configure(
            replace(settings, servers={**settings.servers, "desk": closed}), viewer=LOCAL_USER
        )
        called = await run(gateway, f"x = {READ}return x")
        imported = await run(gateway, "import desk\nreturn await desk.read(path='/')")

        assert called.fault is not None
        assert "desk__read" in called.fault.message
        assert "disabled in the configuration" in called.fault.message
        assert not imported.ok
        assert desk.made == {}


async def test_a_result_that_is_too_long_is_kept_for_its_caller_only(gateway: Gateway) -> None:
    """A part is shown; the whole can be read, by nobody else."""
    answer = await run(gateway, "return list(range(20000))")
    result_id = answer.full_uri.rpartition("/")[2]

    assert answer.truncated
    assert gateway.result(result_id, viewer=agent("ann")).text.startswith("[\n0,\n1,\n2,")
    with pytest.raises(ResultNotFoundError):
        gateway.result(result_id, viewer=agent("bob"))


async def test_a_chain_that_is_cancelled_leaves_no_call_and_the_next_one_runs(tmp_path: Path) -> None:
    """The engine is in order afterwards."""
    async with at_desk(keeping(tmp_path)) as (gateway, desk):
        desk.gate = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, gateway, PROGRAM)
            await desk.begun.wait()
            tasks.cancel_scope.cancel()
        desk.gate.set()

        assert (await run(gateway, "return 6 * 7")).result == 42
