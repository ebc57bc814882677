"""A run around a fake engine: what its calls may take, what is told of them, and that none outlives it."""

from typing import Any

import anyio
import pytest
from tests.execution.chain.rig import PROGRAM, Engine, Tools, idle, run, text

from maitred.calls.cache import mark_cached
from maitred.chains.base import CallTool, ChainLimits, ChainProgram
from maitred.chains.forms import DirectCall, DirectCalls
from maitred.chains.monty import MontySandbox
from maitred.chains.runner import ChainRunner, ChainTarget
from maitred.disclosure.budget import estimate

pytestmark = pytest.mark.anyio


async def test_a_call_reaches_the_gateway_with_its_arguments_and_the_id_of_the_chain() -> None:
    """So that the calls of a chain can be told together."""
    tools = Tools()

    ran = await run(lambda call: call("a__b", {"x": 1}), tools)

    assert tools.calls == [("a__b", {"x": 1}, "c1")]
    assert (ran.chain_id, ran.outcome.value) == ("c1", {"x": 1})


async def test_a_program_can_catch_a_failure_and_go_on() -> None:
    """The receipt of the failed call stays."""

    async def body(call: CallTool) -> Any:
        try:
            await call("a__b", {})
        except RuntimeError:
            return await call("c__d", {"ok": True})

    ran = await run(body, Tools(a__b=text("no", isError=True)))

    assert ran.outcome.value == {"ok": True}
    assert [(r.tool, r.ok, r.error) for r in ran.calls] == [
        ("a__b", False, "a__b failed: no"),
        ("c__d", True, ""),
    ]


async def test_a_bug_of_ours_is_no_failure_of_a_tool() -> None:
    """It goes up as it is, so that it is seen."""

    async def broken(tool: str) -> ChainTarget:
        raise ZeroDivisionError

    runner = ChainRunner(
        Engine(lambda call: call("a__b", {})), broken, limits=ChainLimits(), estimate=estimate
    )
    with pytest.raises(ZeroDivisionError):
        await runner.run(PROGRAM, timeout_s=5)


# --- bounds -----------------------------------------------------------------------------------------------


async def gathered(call: CallTool, count: int, tool: str = "a__b") -> int:
    """Many calls at once."""

    async def one(number: int) -> None:
        await call(tool, {"n": number})

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    return count


async def test_no_more_calls_are_in_flight_than_allowed() -> None:
    """However many a program starts at once."""
    tools = Tools()

    ran = await run(lambda call: gathered(call, 50), tools, in_flight=8)

    assert (tools.most, ran.outcome.value, len(ran.calls)) == (8, 50, 50)


async def test_the_call_over_the_limit_ends_the_chain_even_if_it_catches_errors() -> None:
    """Or a program could go on for ever."""

    async def body(call: CallTool) -> Any:
        while True:
            try:
                await call("a__b", {})
            except RuntimeError:
                await anyio.lowlevel.checkpoint()

    ran = await run(body, Tools(), calls=3)

    assert ran.outcome.fault is not None
    assert (ran.outcome.fault.kind, len(ran.calls)) == ("calls", 3)
    assert "3 calls" in ran.outcome.fault.message


async def test_a_result_over_the_limit_fails_its_call_and_a_total_over_it_the_chain() -> None:
    """One can be asked for less; the sum cannot be taken back."""
    big = text("x" * 500)

    async def body(call: CallTool) -> Any:
        with pytest.raises(RuntimeError, match="over 1,000 bytes"):
            await call("a__huge", {})
        while True:
            await call("a__b", {})

    ran = await run(body, Tools(a__b=big, a__huge=text("x" * 1_001)), call_bytes=1_000, total_bytes=2_000)

    assert ran.outcome.fault is not None
    assert ran.outcome.fault.kind == "size"
    assert [r.bytes for r in ran.calls] == [0, 502, 502, 502, 502]
    assert [r.ok for r in ran.calls] == [False, True, True, True, True]


async def test_a_program_that_is_too_long_does_not_reach_the_engine() -> None:
    """Reading it alone costs time that no limit covers."""
    runner = ChainRunner(Engine(idle), Tools().find, limits=ChainLimits(), estimate=estimate)

    ran = await runner.run(ChainProgram(code="#" * 64_001), timeout_s=5)

    assert ran.outcome.fault is not None
    assert ran.outcome.fault.kind == "size"


# --- the end ----------------------------------------------------------------------------------------------


async def test_a_chain_that_takes_too_long_ends_with_its_calls_and_says_what_it_waited_for() -> None:
    """The receipts tell which calls may have taken effect."""
    tools = Tools()
    tools.hold = anyio.Event()

    ran = await run(lambda call: call("a__slow", {}), tools, timeout_s=0.01)

    assert ran.outcome.fault is not None
    assert ran.outcome.fault.kind == "timeout"
    assert "waiting for a__slow" in ran.outcome.fault.message
    assert [(r.tool, r.ok) for r in ran.calls] == [("a__slow", False)]
    assert "may have taken effect" in ran.calls[0].error
    assert (tools.running, tools.ended) == (0, 1)


async def test_the_engine_is_told_the_time_that_is_given() -> None:
    """It ends by itself, with what it knows of the place; cancelling it is the last resort."""
    engine = Engine(lambda call: call("a__b", {}))
    runner = ChainRunner(engine, Tools().find, limits=ChainLimits(), estimate=estimate)

    await runner.run(PROGRAM, timeout_s=7)

    assert engine.limits.wall_s == 7


async def test_a_call_that_nobody_awaits_any_more_ends_with_the_chain() -> None:
    """Engines leave such calls behind: their tasks are not ours."""
    tools = Tools()
    tools.hold = anyio.Event()
    async with anyio.create_task_group() as outside:

        async def body(call: CallTool) -> Any:
            async def orphan() -> None:
                with pytest.raises(RuntimeError):
                    await call("a__b", {})

            outside.start_soon(orphan)
            await tools.begun.wait()
            return "done"

        ran = await run(body, tools)
        assert (tools.running, tools.ended) == (0, 1)

    assert ran.outcome.value == "done"
    assert [r.ok for r in ran.calls] == [False]


async def test_a_call_is_cancelled_when_its_part_of_the_program_is() -> None:
    """As when another of those that were started together failed."""
    tools = Tools()
    tools.hold = anyio.Event()

    async def body(call: CallTool) -> Any:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gathered, call, 1)
            await tools.begun.wait()
            tasks.cancel_scope.cancel()
        tools.hold = None
        await call("c__d", {})
        return tools.ended

    ran = await run(body, tools)

    assert ran.outcome.value == 2
    assert [(r.tool, r.ok) for r in ran.calls] == [("a__b", False), ("c__d", True)]


async def test_a_caller_who_goes_away_ends_the_chain_and_its_calls() -> None:
    """Nothing is left running for nobody."""
    tools = Tools()
    tools.hold = anyio.Event()
    async with anyio.create_task_group() as caller:
        caller.start_soon(run, lambda call: gathered(call, 20), tools)
        with anyio.fail_after(120):
            await tools.begun.wait()
        caller.cancel_scope.cancel()

    assert (tools.running, tools.ended) == (0, len(tools.calls))


async def test_a_call_after_the_end_is_refused() -> None:
    """An engine may wake up late."""
    taken: list[CallTool] = []
    tools = Tools()

    async def body(call: CallTool) -> Any:
        taken.append(call)

    await run(body, tools)

    with pytest.raises(RuntimeError, match="over"):
        await taken[0]("a__b", {})
    assert tools.calls == []


# --- what is told -----------------------------------------------------------------------------------------


async def test_receipts_tell_size_tokens_and_what_came_from_the_cache() -> None:
    """In the order in which calls were started."""

    async def body(call: CallTool) -> Any:
        await call("a__b", {})
        await call("c__d", {"x": "é"})

    ran = await run(body, Tools(a__b=mark_cached(text("word " * 20_000))))

    first, second = ran.calls
    assert (first.tool, first.cached, first.bytes) == ("a__b", True, 100_002)
    assert 15_000 < first.tokens < 40_000
    assert (second.tool, second.cached, second.bytes) == ("c__d", False, len('{"x":"é"}'.encode()))
    assert 0 <= first.started_ms <= second.started_ms
    assert ran.ms >= second.started_ms + second.ms


async def test_progress_is_told_for_each_call() -> None:
    """How many there will be is not known."""
    told: list[Any] = []

    async def progress(*args: Any) -> None:
        told.append(args)

    await run(lambda call: gathered(call, 2), Tools(), progress=progress)

    assert told == [(1, None, "call 1: a__b"), (2, None, "call 2: a__b")]


# --- with the engine --------------------------------------------------------------------------------------


async def test_a_real_program_runs_its_calls_together_and_fails_with_its_line() -> None:
    """The seam holds with the engine that is used."""
    code = """
import asyncio
found = await asyncio.gather(*[call_tool("a__b", {"n": n}) for n in range(20)])
print(len(found))
total = sum(one["n"] for one in found)
try:
    await call_tool("c__d", {})
except Exception as error:
    print(error)
await call_tool("c__d", {"total": total})
"""
    tools = Tools(c__d=text("no such thing", isError=True))
    async with MontySandbox(jail=False) as sandbox:
        runner = ChainRunner(sandbox, tools.find, limits=ChainLimits(), estimate=estimate)
        with anyio.fail_after(120):
            ran = await runner.run(ChainProgram(code=code), timeout_s=20)

    fault = ran.outcome.fault
    assert fault is not None
    assert (fault.kind, fault.line) == ("runtime", 10)
    assert "c__d failed: no such thing" in fault.message
    assert ran.outcome.logs == "20\nc__d failed: no such thing\n"
    assert [r.ok for r in ran.calls] == [True] * 20 + [False] * 2
    assert tools.calls[-1][1] == {"total": 190}
    assert 1 < tools.most <= 8


async def test_a_real_program_that_passes_a_limit_ends_at_its_line_with_what_it_printed() -> None:
    """It may not go on by catching the error, nor is what it said lost."""
    lines = ["while True:", "    try:", '        print("on")', '        await call_tool("a__b")']
    code = "\n".join([*lines, "    except RuntimeError:", "        pass"])
    async with MontySandbox() as sandbox:
        limits = ChainLimits(total_bytes=2_000)
        tools = Tools(a__b=text("x" * 900))
        runner = ChainRunner(sandbox, tools.find, limits=limits, estimate=estimate)
        with anyio.fail_after(120):
            ran = await runner.run(ChainProgram(code=code), timeout_s=20)

    fault = ran.outcome.fault
    assert fault is not None
    assert (fault.kind, fault.line) == ("size", 4)
    assert ran.outcome.logs.startswith("on\n")
    assert len(ran.calls) == 3


async def test_a_real_program_that_waits_too_long_is_stopped() -> None:
    """With what it waited for."""
    tools = Tools()
    tools.hold = anyio.Event()
    async with MontySandbox(jail=False) as sandbox:
        runner = ChainRunner(sandbox, tools.find, limits=ChainLimits(), estimate=estimate)
        with anyio.fail_after(120):
            ran = await runner.run(ChainProgram(code='print("on")\nawait call_tool("a__b")'), timeout_s=1)

    assert ran.outcome.fault is not None
    assert ran.outcome.fault.kind == "timeout"
    assert "It was waiting for a__b." in ran.outcome.fault.message
    assert tools.running == 0


# --- short forms ------------------------------------------------------------------------------------------


def calls(*names: str, many: bool = True) -> DirectCalls:
    """Direct calls of tools."""
    return DirectCalls(calls=[DirectCall(tool=name, arguments={"at": name}) for name in names], many=many)


async def test_direct_calls_need_no_engine() -> None:
    """A list gives a list, a single call its result."""
    assert (await run(calls("a__b", many=False), Tools())).outcome.value == {"at": "a__b"}
    assert (await run(calls("a__b", "c__d"), Tools())).outcome.value == [{"at": "a__b"}, {"at": "c__d"}]


async def test_a_list_of_calls_stops_at_the_first_failure_and_gives_what_there_is() -> None:
    """What was paid for is not lost."""
    ran = await run(calls("a__b", "c__d", "e__f"), Tools(c__d=text("no", isError=True)))

    assert ran.outcome.fault is not None
    assert ran.outcome.fault.message == "Call 2 of 3: c__d failed: no"
    assert ran.outcome.value == [{"at": "a__b"}]
    assert [r.tool for r in ran.calls] == ["a__b", "c__d"]


async def test_direct_calls_have_a_deadline_too() -> None:
    """The same as a program's."""
    tools = Tools()
    tools.hold = anyio.Event()

    ran = await run(calls("a__b"), tools, timeout_s=0.01)

    assert ran.outcome.fault is not None
    assert ran.outcome.fault.kind == "timeout"


async def test_a_name_with_what_does_not_show_is_no_name_of_a_tool() -> None:
    """A program that reads well and calls something else is not one. Source: issue "What broke", 9."""
    tools = Tools()

    async def body(call: CallTool) -> Any:
        return await call("a__\u200becho", {})

    done = await run(body, tools)

    assert done.outcome.fault is not None
    assert "'a__\\u200becho': it has characters that do not show" in done.outcome.fault.message
    assert tools.calls == []
