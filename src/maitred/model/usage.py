"""The usage of tools, as values: counts, latencies, limits of them, and the standing that follows."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

WINDOW_DAYS: Final = 30
"""The days of use that tiers and filters go by, today included."""

_AGE = re.compile(r"([0-9]{1,5})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

Level = Literal["hot", "warm", "standard", "cold"]
Score = Literal["smoothed", "plain"]
"""A formula for the score of a tool; see `maitred.disclosure.tiers`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The calls of one tool, or of one server, over a window of days.

    `calls_7d` and `calls_30d` count those of the last 7 and 30 days, whatever the window. Latencies are in
    milliseconds, over all calls of the window. `p95_ms` comes from a histogram, so it is an upper bound, but
    never above what the slowest call can have taken.
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
class UsageFilter:
    """Limits of the use of a tool in the last `WINDOW_DAYS`; `None` is no limit.

    `max_latency_ms` is for the mean latency, `min_success` (0 to 1) for the share of calls that succeeded,
    and `used_within` for the time since the last call. A tool that was not called meets no limit.
    """

    max_latency_ms: float | None = None
    min_success: float | None = None
    used_within: timedelta | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is a limit."""
        return (self.max_latency_ms, self.min_success, self.used_within) != (None, None, None)

    def fits(self, usage: Usage, now: datetime) -> bool:
        """Whether a tool with this use meets every limit; `now` has a time zone."""
        if not self.is_set:
            return True
        if not usage.calls:
            return False
        return (
            (self.max_latency_ms is None or usage.mean_ms <= self.max_latency_ms)
            and (self.min_success is None or usage.success_rate >= self.min_success)
            and (self.used_within is None or _is_within(usage.last_used, now, self.used_within))
        )


ANY_USE: Final = UsageFilter()
"""No limit."""


def _is_within(moment: str, now: datetime, span: timedelta) -> bool:
    try:
        return now - datetime.fromisoformat(moment) <= span
    except (ValueError, TypeError):  # no time, or one without a zone: another program wrote it
        return False


def parse_age(text: str) -> timedelta:
    """Read a time span such as `90m`, `24h`, `7d` or `2w`, of at most `WINDOW_DAYS`.

    Raises:
        ValueError: The text is no such span. The error says what is.
    """
    match = _AGE.fullmatch(text.strip())
    span = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else timedelta(0)
    if not timedelta(0) < span <= timedelta(days=WINDOW_DAYS):
        raise ValueError(f"must be a time such as 90m, 24h, 7d or 2w, of at most {WINDOW_DAYS} days")
    return span


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
    gateway. `argument_tokens` are those of `calls` that reached their servers, and `cost_micros` is what
    these calls cost, in millionths of a currency.
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
    calls: int = 0
    argument_tokens: int = 0
    cost_micros: int = 0

    @property
    def read_tokens(self) -> int:
        """All that an agent read."""
        return self.spent + self.result_tokens

    @property
    def spent(self) -> int:
        """The price of finding tools: lists and answers."""
        return self.list_tokens + self.answer_tokens

    @property
    def break_even(self) -> bool:
        """Whether finding tools has cost as much as the raw lists would have."""
        return self.raw_tokens > 0 and self.spent >= self.raw_tokens
