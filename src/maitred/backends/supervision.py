"""When a failed server is tried again, when it is suspended, and when it counts as hanging.

This module has values and arithmetic only. Times are numbers of a monotonic clock; nothing here waits,
starts or ends anything. `server_task` acts on it.
After a failure to start, or a fault within 30 seconds of a start, the next start waits, twice as long
each time. After three failures in a row the circuit breaker opens, and calls fail at once until that wait
is over.
There is also a budget: a server that was restarted too often within a window is suspended. An instance for
some clients rests for the length of that window instead.
"""

from dataclasses import dataclass
from typing import Final, Literal

from maitred.backends.base import Ending
from maitred.config.settings import Supervision

FIRST_DELAY_S: Final = 0.5
MAX_DELAY_S: Final = 60.0
BREAKER_AT: Final = 3
STABLE_S: Final = 30.0
_DOUBLED: Final = 16  # more would soon be too large for a float

Check = Literal["well", "wait", "ask"]


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """How often a server failed in a row, and the time before which it is not started again."""

    failures: int = 0
    retry_at: float = 0.0

    def failed(self, *, now: float, ran_s: float | None) -> "Breaker":
        """The breaker after one more failure; `ran_s` is how long it ran, `None` if it did not start."""
        if ran_s is not None and ran_s > STABLE_S:
            return Breaker(failures=1, retry_at=now)
        delay_s = min(FIRST_DELAY_S * 2 ** min(self.failures, _DOUBLED), MAX_DELAY_S)
        return Breaker(failures=self.failures + 1, retry_at=now + delay_s)

    def rested(self, *, now: float, for_s: float) -> "Breaker":
        """The breaker after failures so many that calls fail for a longer time, in seconds."""
        return Breaker(failures=max(self.failures, BREAKER_AT), retry_at=now + for_s)

    def wait_s(self, now: float) -> float:
        """The seconds until it may be started again; 0 if it may."""
        return max(0.0, self.retry_at - now)

    def is_open(self, now: float) -> bool:
        """Whether calls fail at once, since the server failed several times in a row."""
        return self.failures >= BREAKER_AT and self.retry_at > now


@dataclass(frozen=True, kw_only=True)
class Restarts:
    """When a server was restarted after faults, as far back as the window of the budget."""

    times: tuple[float, ...] = ()

    def noted(self, *, now: float, window_s: float) -> "Restarts":
        """The restarts with one more, now; those older than the window are forgotten."""
        return Restarts(times=(*(time for time in self.times if time > now - window_s), now))

    def count(self, *, now: float, window_s: float) -> int:
        """How many restarts there were within the window."""
        return sum(time > now - window_s for time in self.times)

    def why_given_up(self, budget: Supervision, ending: Ending, *, now: float) -> str:
        """Why a server that just ended is suspended, as a sentence about it; empty if it may start again."""
        made = self.count(now=now, window_s=budget.window_s)
        if not budget.restarts or made < budget.restarts or not counts(ending):
            return ""
        times = "once" if made == 1 else f"{made} times"
        return (
            f"it had to be started again {times} within {budget.window_s:g} s and ended once more:"
            f" {ending.reason}"
        )


def counts(ending: Ending) -> bool:
    """Whether an end counts against the server.

    It does not if the connection was lost, or if no process was started. Otherwise a network or an engine
    that is down for a while would suspend all servers behind it.
    """
    return ending.kind != "lost"


def next_check(
    *, now: float, heard_at: float, checked_at: float, waiting_since: float | None, call_s: float
) -> Check:
    """What a health check should do.

    A server that answered anything since the last check is well. A server with a request in flight may do
    one thing at a time. So the check waits as long as a call may take, counted from `waiting_since`.
    After that no caller waits for the answer any more.

    Args:
        now: The time.
        heard_at: When the server last answered anything.
        checked_at: When it was last checked.
        waiting_since: Since when requests have waited without any answer; `None` if no request is in flight.
        call_s: How long a call may run, in seconds.
    """
    if heard_at >= checked_at:
        return "well"
    return "wait" if waiting_since is not None and now - waiting_since <= call_s else "ask"
