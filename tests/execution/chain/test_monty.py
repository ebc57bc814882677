"""Chains run, call tools, print and fail as their author would expect, and checking one calls nothing."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.support.processes import kill_named, named
from tests.support.waiting import eventually

from maitred.chains.base import ChainFunction, ChainLimits, ChainModule, ChainOutcome, ChainProgram
from maitred.chains.monty import MontySandbox, PrintLog

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("chain")]

WORKERS = {"monty", "worker"}
LIMITS = ChainLimits(cpu_s=2.0, wall_s=5.0)
NOTES = ChainModule(
    name="notes",
    server="notes",
    stub="class Note(TypedDict):\n    title: str",
    functions=[
        ChainFunction(
            name="search",
            tool="notes__search-all",
            parameters=[("query", "query"), ("per_page", "per-page")],
            stub="async def search(query: str, per_page: int = ...) -> Note: ...",
        )
    ],
)


class Tools:
    """Remembers calls; `wait` waits until two of it run, `missing` fails."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.answers: list[Any] = []
        self.waiting = 0
        self.met = anyio.Event()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        self.calls.append((tool, arguments))
        if tool == "wait":
            self.waiting += 1
            if self.waiting == 2:
                self.met.set()
            await self.met.wait()
        if tool == "missing":
            raise RuntimeError("There is no tool named 'lost__tool'.")
        if tool == "bug":
            raise KeyError("a secret of ours")
        if tool == "lost":
            raise asyncio.CancelledError
        return self.answers.pop() if self.answers else {"tool": tool, **arguments}


@pytest.fixture
async def sandbox() -> AsyncIterator[MontySandbox]:
    async with MontySandbox() as sandbox:
        yield sandbox


async def run(
    sandbox: MontySandbox, code: str, tools: Tools | None = None, limits: ChainLimits = LIMITS, **inputs: Any
) -> ChainOutcome:
    program = ChainProgram(code=code, modules=[NOTES], inputs=inputs)
    return await sandbox.run(program, (tools or Tools()).call, limits)


def message(outcome: ChainOutcome) -> str:
    assert outcome.fault is not None
    return outcome.fault.message


@pytest.mark.parametrize("code", ["x = 6\nx * 7", "x = 6\nreturn x * 7"])
async def test_the_value_is_what_is_returned_or_the_last_expression(sandbox: MontySandbox, code: str) -> None:
    assert (await run(sandbox, code)).value == 42


async def test_a_tool_is_called_by_its_name(sandbox: MontySandbox) -> None:
    tools = Tools()
    outcome = await run(sandbox, 'return await call_tool("a__b", {"x": (1, 2)})', tools)
    assert outcome.value == {"tool": "a__b", "x": [1, 2]}
    assert tools.calls == [("a__b", {"x": [1, 2]})]


async def test_a_module_calls_the_tool_under_the_tools_own_names(sandbox: MontySandbox) -> None:
    tools = Tools()
    await run(sandbox, 'from notes import search\nawait search("q", per_page=3)', tools)
    assert tools.calls == [("notes__search-all", {"query": "q", "per-page": 3})]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ('notes.search("q", perpage=3)', "no argument 'perpage'. It takes: async def search("),
        ('notes.search("q", 1, 2)', "3 positional arguments"),
        ('notes.search("q", query="r")', "twice"),
        ("call_tool(3)", "name of a tool"),
        ('call_tool("a", [1])', "dict of arguments, not list"),
        ('call_tool("a", {"x": float("nan")})', "NaN"),
    ],
)
async def test_a_wrong_call_is_told_before_any_tool_sees_it(
    sandbox: MontySandbox, call: str, told: str
) -> None:
    tools = Tools()
    outcome = await run(sandbox, f"import notes\nawait {call}", tools)
    assert told in message(outcome)
    assert outcome.fault is not None
    assert outcome.fault.line == 2
    assert tools.calls == []


async def test_calls_in_a_gather_run_at_the_same_time(sandbox: MontySandbox) -> None:
    code = 'import asyncio\nreturn len(await asyncio.gather(call_tool("wait"), call_tool("wait")))'
    assert (await run(sandbox, code)).value == 2


async def test_an_error_of_a_call_can_be_caught(sandbox: MontySandbox) -> None:
    code = 'try:\n    await call_tool("missing")\nexcept RuntimeError as e:\n    return str(e)'
    assert "no tool named 'lost__tool'" in (await run(sandbox, code)).value


async def test_an_error_that_is_not_caught_names_its_line(sandbox: MontySandbox) -> None:
    outcome = await run(sandbox, 'x = 1\n\ny = await call_tool("missing")')
    assert outcome.fault is not None
    assert (outcome.fault.kind, outcome.fault.line) == ("runtime", 3)


async def test_a_bug_of_ours_is_raised_and_the_next_chain_runs(sandbox: MontySandbox) -> None:
    with pytest.raises(KeyError):
        await run(sandbox, 'try:\n    await call_tool("bug")\nexcept BaseException as e:\n    return str(e)')
    assert (await run(sandbox, "1")).value == 1


async def test_a_call_that_was_cancelled_elsewhere_is_an_error_to_the_chain(sandbox: MontySandbox) -> None:
    assert "cancelled" in message(await run(sandbox, 'await call_tool("lost")'))


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ('x = 1\ncall_tool("a")\nreturn 1', 2),
        ('return call_tool("a")', 1),
        ('import asyncio\nasyncio.gather(call_tool("a"))\nreturn 1', 2),
        ("async def f():\n    return 1\n\nreturn [f()]", 0),
        ("import asyncio\nasync def f():\n    return 1\n\nreturn asyncio.gather(f())", 0),
    ],
)
async def test_a_call_that_is_never_awaited_is_never_made_and_said_to_be_forgotten(
    sandbox: MontySandbox, code: str, line: int
) -> None:
    """Or a program that changes nothing would seem to have done so."""
    tools = Tools()
    outcome = await run(sandbox, code, tools)
    assert tools.calls == []
    assert "`await`" in message(outcome)
    assert outcome.fault is not None
    assert outcome.fault.line == line


async def test_inputs_stand_as_variables(sandbox: MontySandbox) -> None:
    assert (await run(sandbox, "return [r['a'] for r in rows]", rows=[{"a": 1}, {"a": 2}])).value == [1, 2]


async def test_the_last_lines_printed_are_kept_clean(sandbox: MontySandbox) -> None:
    limits = ChainLimits(log_bytes=200)
    code = 'for i in range(1000): print("line", i)\nprint("\\x1b[31mred\\x1b[0m \\u202e")'
    logs = (await run(sandbox, code, limits=limits)).logs
    assert logs.startswith("[what was printed before is left out]\nline ")
    assert logs.endswith("line 999\nred \n")
    assert len(logs) < 260


async def test_what_was_printed_before_a_fault_is_kept(sandbox: MontySandbox) -> None:
    outcome = await run(sandbox, 'print("so far")\n1 / 0')
    assert outcome.logs == "so far\n"
    assert "division by zero" in message(outcome)


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        ("class E(Exception): pass", "syntax", "or RuntimeError"),
        ("async def f():\n    yield 1", "syntax", "Build a list"),
        ("async def f(x):\n    async with x: pass", "syntax", "Call the functions directly"),
        ("async def f(x):\n    async for i in x: pass", "syntax", "plain `for`"),
        ("from json import *", "syntax", "names that you need"),
        ("import asyncio\nasyncio.TaskGroup()", "type", "gather"),
        ("import asyncio\nawait asyncio.wait_for(1, 2)", "type", "time limit"),
        ("import asyncio\nasyncio.Lock()", "type", "bounded already"),
        ("import requests", "type", "no network"),
        ("import subprocess", "type", "no files and no processes"),
        ("import pprint", "type", "few lines"),
        ("import pandas", "type", "The servers are notes; beside them there are asyncio"),
        ('return call_tool("a")["structuredContent"]', "type", "itself"),
        ('x = call_tool("a")\nx["b"]', "type", "`await` before the call"),
        ('open("a")', "type", "no files"),
        ("x = (", "syntax", ""),
        ("return b'a'", "type", "base64"),
    ],
)
async def test_a_fault_tells_what_to_write_instead(
    sandbox: MontySandbox, code: str, kind: str, told: str
) -> None:
    outcome = await run(sandbox, code)
    assert outcome.fault is not None
    assert outcome.fault.kind == kind
    assert told in outcome.fault.message
    assert "monty" not in outcome.fault.message.lower()


@pytest.mark.parametrize(
    ("code", "limits", "kind"),
    [
        ("while True: pass", ChainLimits(cpu_s=0.2), "timeout"),
        ("x = 7**1000000\nwhile True: x * x", ChainLimits(cpu_s=0.2), "timeout"),
        ("import time\ntime.sleep(60)", ChainLimits(wall_s=1), "timeout"),
        ('await call_tool("wait")', ChainLimits(wall_s=0.2), "timeout"),
        ("return len('a' * 10**9)", LIMITS, "memory"),
        ('while True: await call_tool("a")', ChainLimits(calls=3), "calls"),
        ("return 'a' * 2000000", LIMITS, "size"),
        ("#" * 70_000, LIMITS, "size"),
        ('return await call_tool("a", {"x": "a" * 2000000})', LIMITS, "size"),
    ],
)
async def test_each_limit_has_its_fault(
    sandbox: MontySandbox, code: str, limits: ChainLimits, kind: str
) -> None:
    outcome = await run(sandbox, code, limits=limits)
    assert outcome.fault is not None
    assert outcome.fault.kind == kind


async def test_a_timeout_names_the_line_that_waits(sandbox: MontySandbox) -> None:
    outcome = await run(sandbox, 'x = "é"\n  \nawait call_tool("wait")', limits=ChainLimits(wall_s=0.2))
    assert outcome.fault is not None
    assert (outcome.fault.kind, outcome.fault.line, outcome.fault.column) == ("timeout", 3, 1)


async def test_no_more_calls_run_at_once_than_allowed(sandbox: MontySandbox) -> None:
    running, most = 0, 0

    async def call(_tool: str, _arguments: Mapping[str, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1

    code = 'import asyncio\nawait asyncio.gather(*[call_tool("a") for i in range(50)])'
    await sandbox.run(ChainProgram(code=code), call, ChainLimits(in_flight=3))
    assert most == 3


async def test_more_chains_than_workers_wait_their_turn(sandbox: MontySandbox) -> None:
    values = []

    async def one(number: int) -> None:
        values.append((await run(sandbox, f"return {number}")).value)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(one, number)
    assert sorted(values) == list(range(20))


async def test_nothing_of_one_chain_is_left_for_the_next(sandbox: MontySandbox) -> None:
    for _ in range(3):
        assert (await run(sandbox, "import sys\nsecret = 42\nreturn 1")).value == 1
        assert "not defined" in message(await run(sandbox, "return secret"))


async def test_a_killed_worker_is_replaced(sandbox: MontySandbox) -> None:
    for _ in range(3):
        kill_named(WORKERS)
        outcomes = [await run(sandbox, "1") for _ in range(2)]
        assert outcomes[-1].value == 1


async def test_a_worker_that_is_killed_in_the_middle_is_a_crash(sandbox: MontySandbox) -> None:
    async def call(_tool: str, _arguments: Mapping[str, Any]) -> None:
        kill_named(WORKERS)

    outcome = await sandbox.run(ChainProgram(code='await call_tool("a")\nreturn 1'), call, LIMITS)
    assert outcome.fault is not None
    assert outcome.fault.kind == "crashed"
    assert (await run(sandbox, "1")).value == 1


async def test_without_bubblewrap_chains_run_and_the_reason_is_told(tmp_path: Path) -> None:
    async with MontySandbox(bwrap=str(tmp_path / "none")) as bare:
        assert not bare.jailed
        assert "not installed" in bare.why_not
        assert (await run(bare, "1")).value == 1


async def test_bubblewrap_that_is_forbidden_is_not_used(tmp_path: Path) -> None:
    forbidden = tmp_path / "bwrap"
    forbidden.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    forbidden.chmod(0o755)
    async with MontySandbox(bwrap=str(forbidden)) as bare:
        assert not bare.jailed
        assert "No permissions to create new namespace" in bare.why_not
        assert (await run(bare, "1")).value == 1


async def test_leaving_while_a_chain_runs_ends_every_process() -> None:
    begun = anyio.Event()

    async def call(_tool: str, _arguments: Mapping[str, Any]) -> None:
        begun.set()

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks, MontySandbox() as sandbox:
            code = 'await call_tool("a")\nwhile True: pass'
            tasks.start_soon(sandbox.run, ChainProgram(code=code), call, ChainLimits(cpu_s=30))
            await begun.wait()
            tasks.cancel_scope.cancel()
        await eventually(lambda: not named({*WORKERS, "bwrap"}))


async def check(sandbox: MontySandbox, code: str) -> list[tuple[str, int, str]]:
    faults = await sandbox.check(ChainProgram(code=code, modules=[NOTES], inputs={"rows": [1]}))
    return [(fault.kind, fault.line, fault.message) for fault in faults]


async def test_a_check_finds_every_fault_with_its_line(sandbox: MontySandbox) -> None:
    code = 'import notes\nx = await notes.search(3, perpage=1)\ny = x["titel"]\nnosuch()\ncall_tool("a", 3)'
    told = await check(sandbox, code)
    assert sorted({line for _, line, _ in told}) == [2, 3, 4, 5]
    assert {kind for kind, _, _ in told} == {"type"}
    assert [text for _, line, text in told if line == 3 and 'did you mean "title"?' in text]


async def test_a_check_of_a_sound_program_finds_nothing_and_runs_nothing(sandbox: MontySandbox) -> None:
    assert await check(sandbox, 'import notes\nx = await notes.search("q")\nreturn x["title"], rows') == []
    with anyio.fail_after(120):
        assert await check(sandbox, "while True: pass") == []


async def test_a_check_finds_what_the_language_lacks(sandbox: MontySandbox) -> None:
    ((kind, line, told),) = await check(sandbox, "x = 1\nclass E(Exception): pass")
    assert (kind, line) == ("syntax", 2)
    assert "or RuntimeError" in told
    assert [found[:2] for found in await check(sandbox, "x = 1\ny = (")] == [("syntax", 2)]
    assert (await check(sandbox, "#" * 70_000))[0][0] == "size"


async def test_chains_that_wait_for_a_person_hold_up_no_other() -> None:
    """As many wait as may run at once, and more: the next one runs at once, and they go on after that."""
    answered, waiting = anyio.Event(), 0
    code = 'return await call_tool("ask", {})'
    answers: list[Any] = []

    async with MontySandbox(processes=2) as sandbox, anyio.create_task_group() as tasks:
        with anyio.fail_after(60):
            all_wait = anyio.Event()

            async def hold() -> None:
                limits = ChainLimits(cpu_s=2.0, wall_s=60.0)

                async def call(_: str, __: Mapping[str, Any]) -> Any:
                    nonlocal waiting
                    with limits.pauses.paused():
                        waiting += 1
                        if waiting == 4:
                            all_wait.set()
                        await answered.wait()
                    return "yes"

                answers.append((await sandbox.run(ChainProgram(code=code), call, limits)).value)

            for _ in range(4):
                tasks.start_soon(hold)
            await all_wait.wait()
            other = await run(sandbox, "return 1 + 1", Tools())
            assert other.value == 2
            assert not answers
            answered.set()
            await eventually(lambda: len(answers) == 4)
            assert answers == ["yes"] * 4


async def test_a_sandbox_ends_while_chains_wait_for_a_person() -> None:
    limits = ChainLimits(cpu_s=2.0, wall_s=60.0)
    waits = anyio.Event()
    outcomes: list[ChainOutcome] = []

    async def call(_: str, __: Mapping[str, Any]) -> Any:
        with limits.pauses.paused():
            waits.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(60):
            async with MontySandbox(processes=1) as sandbox:

                async def hold() -> None:
                    program = ChainProgram(code='return await call_tool("ask", {})')
                    outcomes.append(await sandbox.run(program, call, limits))

                tasks.start_soon(hold)
                await waits.wait()
            await eventually(lambda: bool(outcomes))
    [outcome] = outcomes
    assert outcome.fault is not None
    assert outcome.fault.kind == "cancelled"


def test_a_log_forgets_the_beginning_and_never_more() -> None:
    log = PrintLog(100)
    log.write("stdout", "short")
    assert log.text() == "short"
    for number in range(100_000):
        log.write("stdout", f"{number}\n")
    assert log.text().endswith("\n99998\n99999\n")
    assert len(log.text()) < 160
