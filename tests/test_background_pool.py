"""Tasks that are used again."""

import asyncio

import anyio
import pytest

from maitred.background import Background, TaskPool

pytestmark = pytest.mark.anyio

SOON_S = 60.0


class Runs:
    """What ran, and in which tasks. A run with a gate waits there."""

    def __init__(self) -> None:
        self.tasks: set[object] = set()
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self._changed = anyio.Event()

    async def run(self, name: str, gate: anyio.Event | None = None) -> None:
        self.tasks.add(asyncio.current_task())
        try:
            if gate is not None:
                await gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(name)
            raise
        else:
            self.ended.append(name)
        finally:
            self._changed.set()
            self._changed = anyio.Event()

    async def until(self, count: int) -> None:
        with anyio.fail_after(SOON_S):
            while len(self.ended) + len(self.cancelled) < count:
                await self._changed.wait()


async def test_one_run_after_the_other_needs_one_task() -> None:
    runs = Runs()
    async with Background() as background:
        pool = TaskPool(background)
        for number in range(50):
            pool.start(runs.run, str(number))
            await runs.until(number + 1)
            await anyio.lowlevel.checkpoint()
    assert len(runs.tasks) == 1
    assert len(runs.ended) == 50


async def test_runs_at_the_same_time_do_not_wait_for_each_other() -> None:
    runs, gate = Runs(), anyio.Event()
    async with Background() as background:
        pool = TaskPool(background)
        for name in ("slow", "slower"):
            pool.start(runs.run, name, gate)
        pool.start(runs.run, "quick")
        await runs.until(1)
        gate.set()
        await runs.until(3)
    assert runs.ended[0] == "quick"


async def test_a_cancelled_run_ends_alone() -> None:
    runs, gate = Runs(), anyio.Event()
    async with Background() as background:
        pool = TaskPool(background)
        pool.start(runs.run, "first")
        await runs.until(1)
        one = pool.start(runs.run, "one", gate)
        pool.start(runs.run, "other", gate)
        one.cancel()
        await runs.until(2)
        gate.set()
        await runs.until(3)
        pool.start(runs.run, "next")
        await runs.until(4)
    assert (runs.ended, runs.cancelled) == (["first", "other", "next"], ["one"])


async def test_a_run_that_is_cancelled_before_it_waits_does_not_spoil_the_next() -> None:
    runs = Runs()
    async with Background() as background:
        pool = TaskPool(background)
        for name in ("a", "b", "c"):
            pool.start(runs.run, name).cancel()
            pool.start(runs.run, f"after {name}")
            await runs.until(2 * (len(runs.ended) + len(runs.cancelled) + 2) // 2)
    assert {"after a", "after b", "after c"} <= set(runs.ended)


async def test_leaving_the_background_ends_idle_and_busy_tasks() -> None:
    runs = Runs()
    with anyio.fail_after(SOON_S):
        async with Background() as background:
            pool = TaskPool(background)
            pool.start(runs.run, "done")
            pool.start(runs.run, "waits", anyio.Event())
            await runs.until(1)
    assert (runs.ended, runs.cancelled) == (["done"], ["waits"])
