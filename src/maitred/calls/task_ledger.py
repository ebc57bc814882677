"""What the gateway remembers of tasks: who started which, as long as they may be asked about.

Ids need no memory. The memory serves `tasks/list`, notices of servers, and servers that must not be stopped
for idleness while a task runs. It is bounded and lost with the process; a task comes back into it with the
next request about it. It also has the results of held tasks.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from cachetools import LRUCache
from pydantic_core import to_json

from maitred.calls.task_ids import TaskAddress
from maitred.model.tasks import ENDED

MOST_TASKS: Final = 1_000
"""The tasks of one principal, and the principals, that are remembered."""
_MOST_BYTES: Final = 16 * 2**20
_LONGEST_S: Final = 24 * 3_600.0
_UNLIMITED_S: Final = 3_600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownTask:
    """A task of a principal.

    Attributes:
        number: Its place in order of time.
        until: Until when it counts.
        ended: Whether it has ended.
        connections: The connections of clients that started it or asked about it.
    """

    number: int
    until: float
    ended: bool
    connections: frozenset[str]


class TaskLedger:
    """Remembers tasks, the most recently used within `MOST_TASKS` for each principal."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._of: LRUCache[str, LRUCache[TaskAddress, KnownTask]] = LRUCache(MOST_TASKS)
        self._held: LRUCache[TaskAddress, tuple[float, Mapping[str, Any]]] = LRUCache(
            _MOST_BYTES, lambda held: len(to_json(held[1], serialize_unknown=True))
        )
        self._last = 0

    def note(
        self, address: TaskAddress, principal: str, state: Mapping[str, Any], connection: str = ""
    ) -> None:
        """Remember a task, or what is known of it now, and the connection that asked."""
        own = self._of.setdefault(principal, LRUCache(MOST_TASKS))
        ttl = state.get("ttlMs")
        lasts_s = min(ttl / 1_000, _LONGEST_S) if ttl else _UNLIMITED_S
        ended = state["status"] in ENDED
        known = own.get(address)
        if known is None:
            self._last += 1
            until, asking = self._clock() + lasts_s, frozenset({connection})
            own[address] = KnownTask(number=self._last, until=until, ended=ended, connections=asking)
        else:
            asking = known.connections | {connection} if connection else known.connections
            own[address] = replace(known, ended=known.ended or ended, connections=asking)

    def forget(self, address: TaskAddress, principal: str) -> None:
        """Forget a task that its server does not know any more."""
        self._of.get(principal, LRUCache(1)).pop(address, None)

    def tasks(
        self, principal: str, *, serves: Callable[[TaskAddress], bool], after: int, most: int
    ) -> Sequence[tuple[int, TaskAddress]]:
        """The tasks of a principal that `serves` accepts in order of time, those after a number."""
        own = [(known.number, address) for address, known in self._fresh(principal) if serves(address)]
        return sorted((one for one in own if one[0] > after), key=lambda one: one[0])[:most]

    def askers(
        self, server: str, instance: str, task_id: Any
    ) -> Sequence[tuple[str, TaskAddress, frozenset[str]]]:
        """Whose task has this id at an instance of a server, and which connections asked about it."""
        return [
            (principal, address, known.connections)
            for principal in [*self._of]
            for address, known in self._fresh(principal)
            if address.id == task_id and _is_at(address, server, instance)
        ]

    def runs(self, server: str, instance: str) -> bool:
        """Whether a task of an instance of a server may still be running."""
        return any(
            _is_at(address, server, instance) and not known.ended
            for principal in [*self._of]
            for address, known in self._fresh(principal)
        )

    def _fresh(self, principal: str) -> Sequence[tuple[TaskAddress, KnownTask]]:
        now, own = self._clock(), self._of.get(principal)
        return [] if own is None else [one for one in own.items() if one[1].until > now]

    # --- held tasks ---------------------------------------------------------------------------------------

    def hold(self, address: TaskAddress, state: Mapping[str, Any]) -> None:
        """Keep the state of a held task, with its result, until its time is over, unless it is too large."""
        with suppress(ValueError):
            self._held[address] = (self._clock() + state["ttlMs"] / 1_000, state)

    def held(self, address: TaskAddress) -> Mapping[str, Any] | None:
        """The state of a held task; `None` if it is not kept any more."""
        until, state = self._held.get(address, (0.0, None))
        return state if until > self._clock() else None


def _is_at(address: TaskAddress, server: str, instance: str) -> bool:
    return address.tool.server == server and address.instance == instance and not address.held
