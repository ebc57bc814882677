"""The engine of chains is made once, when it is needed, and whoever cannot wait for it harms nobody."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from maitred.chains.base import CallTool, ChainFault, ChainLimits, ChainOutcome, ChainProgram
from maitred.chains.lazy_engine import LazyEngine, Open
from maitred.errors import ConfigError

pytestmark = pytest.mark.anyio

PROGRAM = ChainProgram(code="1")


class Engine:
    """An engine whose start waits for a gate."""

    jailed = False
    why_not = "there is no jail"

    def __init__(self) -> None:
        self.starts = self.ends = 0
        self.begun = anyio.Event()
        self.gate = anyio.Event()
        self.fails = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Engine"]:
        self.starts += 1
        self.begun.set()
        await self.gate.wait()
        if self.starts <= self.fails:
            raise ConfigError("chains", ["there is no worker"])
        try:
            yield self
        finally:
            self.ends += 1

    async def run(self, program: ChainProgram, call_tool: CallTool, limits: ChainLimits) -> ChainOutcome:
        return ChainOutcome(value=42)

    async def check(self, program: ChainProgram) -> Sequence[ChainFault]:
        return []


@asynccontextmanager
async def kept(make: Open) -> AsyncIterator[LazyEngine]:
    engine = LazyEngine(make)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.keep)
            yield engine
            tasks.cancel_scope.cancel()


async def run(engine: LazyEngine) -> ChainOutcome:
    async def call(tool: str, arguments: object) -> object:
        return None

    return await engine.run(PROGRAM, call, ChainLimits())


async def test_it_is_made_with_the_first_chain_and_ended_with_the_gateway() -> None:
    """A gateway whose agents write no chains pays nothing."""
    made = Engine()
    made.gate.set()
    async with kept(made.open) as engine:
        assert made.starts == 0
        assert [(await run(engine)).value for _ in range(2)] == [42, 42]
        assert await engine.why_not_caged() == "there is no jail"
        assert (made.starts, made.ends) == (1, 0)

    assert made.ends == 1


async def test_a_caller_who_cannot_wait_leaves_the_start_to_the_next() -> None:
    """Or chains with a short time would never see the engine ready."""
    made = Engine()
    async with kept(made.open) as engine:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, engine)
            await made.begun.wait()
            tasks.cancel_scope.cancel()
        made.gate.set()

        assert (await run(engine)).value == 42
        assert made.starts == 1


async def test_a_start_that_fails_is_told_and_tried_again() -> None:
    """What is missing may be installed meanwhile."""
    made = Engine()
    made.fails = 1
    made.gate.set()
    async with kept(made.open) as engine:
        first = await run(engine)
        second = await run(engine)

    assert first.fault is not None
    assert first.fault.kind == "crashed"
    assert "there is no worker" in first.fault.message
    assert second.value == 42


async def test_chains_that_wait_for_it_are_told_when_the_gateway_stops() -> None:
    """Nobody waits for an engine that will not come."""
    made = Engine()
    outcomes: list[ChainOutcome] = []

    async def wait(engine: LazyEngine) -> None:
        outcomes.append(await run(engine))

    async with anyio.create_task_group() as tasks, kept(made.open) as engine:
        tasks.start_soon(wait, engine)
        await made.begun.wait()
    outcomes.append(await run(engine))

    assert [outcome.fault and outcome.fault.kind for outcome in outcomes] == ["cancelled", "cancelled"]
