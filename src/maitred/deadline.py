"""Deadlines that may move while a request waits, with one timer for all of them.

A cancel scope or a timer of its own would cost each request more than most requests cost otherwise.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

import anyio

_NEVER: Final = float("inf")


class Deadline(Protocol):
    """When a request has to be answered. It may move while the request waits."""

    @property
    def at(self) -> float:
        """The time on the clock of the event loop; infinite while the deadline is suspended."""
        ...

    def on_earlier(self, call: Callable[[], None]) -> None:
        """Have a function called whenever the deadline moves to an earlier time; the last one given."""
        ...


class FixedDeadline(NamedTuple):
    """A deadline that does not move."""

    at: float

    def on_earlier(self, call: Callable[[], None]) -> None:
        """Nothing to call; see `Deadline`."""


class DeadlineQueue:
    """Calls a function for each deadline that has come. For one event loop.

    Its timer is set to the earliest deadline, so a later one costs nothing when it is added or removed.
    """

    def __init__(self) -> None:
        self._waiting: dict[object, tuple[Deadline, Callable[[], object]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = _NEVER

    def add(self, key: object, deadline: Deadline, expire: Callable[[], object]) -> None:
        """Call `expire` once at a deadline, unless its key is removed before."""
        self._waiting[key] = (deadline, expire)
        deadline.on_earlier(self._look_at_soonest)
        if deadline.at < self._looks_at:
            self._look_at(deadline.at)

    def remove(self, key: object) -> None:
        """Forget a deadline, if it is there."""
        self._waiting.pop(key, None)

    def close(self) -> None:
        """Forget all deadlines."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._looks_at = None, _NEVER

    def _look_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)
        self._looks_at = at

    def _look(self) -> None:
        self._timer, self._looks_at = None, _NEVER
        now = asyncio.get_running_loop().time()
        due = [(one.at, key) for key, (one, _) in self._waiting.items() if one.at <= now]
        for _, key in sorted(due, key=itemgetter(0)):
            if (entry := self._waiting.pop(key, None)) is not None:  # another one may have removed it
                entry[1]()
        self._look_at_soonest()

    def _look_at_soonest(self) -> None:
        soonest = min((deadline.at for deadline, _ in self._waiting.values()), default=_NEVER)
        if soonest < self._looks_at:
            self._look_at(soonest)


@contextmanager
def cancelled_at(deadline: Deadline) -> Iterator[anyio.CancelScope]:
    """A cancel scope that ends at a deadline."""
    queue = DeadlineQueue()
    with anyio.CancelScope() as scope:
        queue.add(scope, deadline, scope.cancel)
        try:
            yield scope
        finally:
            queue.close()
