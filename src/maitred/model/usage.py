"""The usage of tools, as values: counts, latencies, and the standing that follows from them."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["hot", "warm", "standard", "cold"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The calls of one tool, or of one server, over a window of days.

    `calls_7d` and `calls_30d` count those of the last 7 and 30 days, whatever the window. Latencies are in
    milliseconds, over all calls of the window. `p95_ms` comes from a histogram, so it is an upper bound.
    """

    calls: int = 0
    errors: int = 0
    mean_ms: float = 0.0
    p95_ms: float = 0.0
    calls_7d: int = 0
    calls_30d: int = 0
    last_used: str = ""

    @property
    def success_rate(self) -> float:
        """The share of calls that succeeded, 0 to 1; 0 without calls."""
        return (self.calls - self.errors) / self.calls if self.calls else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolStanding:
    """The standing of a tool at the last computation of the tiers. `score` is 0 to 1."""

    score: float = 0.0
    level: Level = "cold"
    usage: Usage = Usage()


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """The tokens of one principal on one day (UTC), as estimated.

    `lists` and `list_tokens` are the number of lists sent and their tokens; `answers` and `answer_tokens` are
    the same for answers of the meta-tools. `raw_tokens` is the price of the same lists with every definition
    in them. `result_tokens` are the answers of tools themselves, which cost the same with and without a
    gateway.
    """

    day: str = ""
    principal: str = ""
    lists: int = 0
    list_tokens: int = 0
    answers: int = 0
    answer_tokens: int = 0
    results: int = 0
    result_tokens: int = 0
    raw_tokens: int = 0

    @property
    def spent(self) -> int:
        """The price of finding tools: lists and answers."""
        return self.list_tokens + self.answer_tokens

    @property
    def break_even(self) -> bool:
        """Whether finding tools has cost as much as the raw lists would have."""
        return self.raw_tokens > 0 and self.spent >= self.raw_tokens
