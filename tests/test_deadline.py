"""Deadlines of requests: one timer watches all of them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import anyio
import pytest

from maitred.deadline import DeadlineQueue, cancelled_at

pytestmark = pytest.mark.anyio

NEVER = float("inf")
SOON_S = 60.0


@dataclass
class MovingDeadline:
    at: float
    call: Callable[[], None] = print

    def on_earlier(self, call: Callable[[], None]) -> None:
        self.call = call

    def resume(self, seconds: float) -> None:
        """Move it to an earlier time than never."""
        self.at = asyncio.get_running_loop().time() + seconds
        self.call()


class Expired:
    """The names of the deadlines that came."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._changed = anyio.Event()

    def __call__(self, name: str) -> None:
        self.names.append(name)
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, count: int) -> list[str]:
        with anyio.fail_after(SOON_S):
            while len(self.names) < count:
                await self._changed.wait()
        return self.names


def after(seconds: float) -> MovingDeadline:
    return MovingDeadline(asyncio.get_running_loop().time() + seconds)


async def test_one_that_moved_waits_for_its_new_time_and_one_that_was_removed_never_comes() -> None:
    queue, expired = DeadlineQueue(), Expired()
    moving, gone = after(0.01), after(0.02)
    queue.add("moving", moving, lambda: expired("moving"))
    queue.add("gone", gone, lambda: expired("gone"))
    queue.add("fixed", after(0.05), lambda: expired("fixed"))
    moving.at += 0.1
    queue.remove("gone")
    assert await expired.until(2) == ["fixed", "moving"]
    assert asyncio.get_running_loop().time() >= moving.at


async def test_one_that_is_suspended_comes_soon_after_it_was_resumed() -> None:
    """Whether it was suspended before it was added or afterwards."""
    queue, expired = DeadlineQueue(), Expired()
    deadlines = {"from the start": MovingDeadline(NEVER), "later": after(0.01)}
    for name, deadline in deadlines.items():
        queue.add(name, deadline, partial(expired, name))
    deadlines["later"].at = NEVER
    queue.add("other", after(0.03), partial(expired, "other"))
    assert await expired.until(1) == ["other"]
    for deadline in deadlines.values():
        deadline.resume(0.01)
    assert sorted(await expired.until(3)) == ["from the start", "later", "other"]


async def test_those_that_came_while_nothing_else_ran_come_in_their_order() -> None:
    queue, expired = DeadlineQueue(), Expired()
    for name, seconds in (("late", 0.02), ("early", 0.01), ("later", 0.03)):
        queue.add(name, after(seconds), partial(expired, name))
    stop = time.monotonic() + 0.05
    while time.monotonic() < stop:  # the loop is held up, as by a slow machine
        pass
    assert await expired.until(3) == ["early", "late", "later"]


async def test_a_scope_ends_at_a_deadline_that_moved_while_it_ran() -> None:
    deadline = after(0.01)
    with anyio.fail_after(SOON_S), cancelled_at(deadline) as scope:
        deadline.at += 0.05
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert asyncio.get_running_loop().time() >= deadline.at
