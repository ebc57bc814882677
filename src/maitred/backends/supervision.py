"""When a server that failed is tried again, when it is given up, and when it counts as hanging.

Values and arithmetic alone: times come in as numbers by a clock that never goes back, and nothing here
waits, starts or ends anything. `server_task` acts on it.

A failure to start, or a fault within half a minute of one, makes the next start wait, twice as long each
time; after three in a row the circuit breaker is open, which answers calls at once until that time is over.
Besides there is a budget: a server that had to be started again too often within a window is given up.
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
    """How often a server failed in a row, and before when it is not started again."""

    failures: int = 0
    retry_at: float = 0.0

    def failed(self, *, now: float, ran_s: float | None) -> "Breaker":
        """After one more failure; `ran_s` is for how long it ran before, `None` if it never got that far."""
        if ran_s is not None and ran_s > STABLE_S:
            return Breaker(failures=1, retry_at=now)
        delay_s = min(FIRST_DELAY_S * 2 ** min(self.failures, _DOUBLED), MAX_DELAY_S)
        return Breaker(failures=self.failures + 1, retry_at=now + delay_s)

    def wait_s(self, now: float) -> float:
        """The seconds until it may be started again; 0 if it may."""
        return max(0.0, self.retry_at - now)

    def is_open(self, now: float) -> bool:
        """Whether calls are answered at once with what was wrong, since it failed several times in a row."""
        return self.failures >= BREAKER_AT and self.retry_at > now


@dataclass(frozen=True, kw_only=True)
class Restarts:
    """When a server was started again after a fault, as far back as the window of the budget."""

    times: tuple[float, ...] = ()

    def noted(self, *, now: float, window_s: float) -> "Restarts":
        """With one more, now; those that are older than the window are forgotten."""
        return Restarts(times=(*(time for time in self.times if time > now - window_s), now))

    def count(self, *, now: float, window_s: float) -> int:
        """How many there were within the window."""
        return sum(time > now - window_s for time in self.times)

    def why_given_up(self, budget: Supervision, ending: Ending, *, now: float) -> str:
        """Why a server that just ended is not started again, as a sentence about it; empty if it may be."""
        made = self.count(now=now, window_s=budget.window_s)
        if not budget.restarts or made < budget.restarts or not counts(ending):
            return ""
        times = "once" if made == 1 else f"{made} times"
        return (
            f"it had to be started again {times} within {budget.window_s:g} s and ended once more:"
            f" {ending.reason}"
        )


def counts(ending: Ending) -> bool:
    """Whether an end is charged to the server: not where the way to it was lost, or nothing was started.

    A network that is down for a while, or an engine, would else suspend all servers behind it.
    """
    return ending.kind != "lost"


def next_check(
    *, now: float, heard_at: float, checked_at: float, waiting_since: float | None, call_s: float
) -> Check:
    """What a health check is to do.

    A server that answered anything since the last check is well. One with a request in flight may be one of
    those that do one thing at a time: it is left in peace for as long as a call may take since it began to
    keep us waiting. Whatever it still works on after that, nobody waits for any more.

    Args:
        now: The time.
        heard_at: When it last answered anything.
        checked_at: When it was last checked.
        waiting_since: Since when it has answered nothing though it was asked; `None` if no request is in
            flight.
        call_s: For how long a call may run.
    """
    if heard_at >= checked_at:
        return "well"
    return "wait" if waiting_since is not None and now - waiting_since <= call_s else "ask"
