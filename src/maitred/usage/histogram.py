"""The arithmetic of usage: calls counted by latency, tallies that add up, and their totals over days.

Pure: it knows neither the store nor the clock. It counts latencies in buckets of fixed bounds, because counts
of several days, tools and processes can be added, and percentiles cannot.
"""

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import accumulate, zip_longest
from typing import Final

from pydantic_core import from_json

from maitred.model.usage import Usage

BOUNDS_MS: Final = (
    *(1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 50.0, 80.0, 130.0, 200.0, 300.0, 500.0, 800.0),
    *(1_300.0, 2_000.0, 3_000.0, 5_000.0, 8_000.0, 13_000.0, 20_000.0, 30_000.0, 60_000.0, 120_000.0),
)
"""The upper bounds of the buckets, each included; one more bucket is for calls slower than the last bound.

Stored counts depend on these bounds, so do not change them.
"""

WEEK: Final = 7
MONTH: Final = 30


def empty() -> list[int]:
    """Return a histogram without calls: a count for each bucket."""
    return [0] * (len(BOUNDS_MS) + 1)


def add(histogram: list[int], elapsed_ms: float) -> None:
    """Count one call."""
    histogram[bisect_left(BOUNDS_MS, elapsed_ms)] += 1


def merge(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Add the counts of two histograms."""
    if len(one) == len(other):
        return list(map(operator.add, one, other))
    return [a + b for a, b in zip_longest(one, other, fillvalue=0)]


def p95(histogram: Sequence[int]) -> float:
    """Return the bound in milliseconds within which 95 of 100 calls ended; 0 without calls."""
    least_count = 0.95 * sum(histogram)
    if not least_count:
        return 0.0
    at = next(n for n, so_far in enumerate(accumulate(histogram)) if so_far >= least_count)
    return BOUNDS_MS[min(at, len(BOUNDS_MS) - 1)]


def longest(histogram: Sequence[int], total_ms: float) -> float:
    """Return the most milliseconds that one of these calls can have taken; exact for a single call."""
    lows = (0.0, *BOUNDS_MS)
    slowest = max((n for n, count in enumerate(histogram) if count), default=0)
    others = sum(count * low for count, low in zip(histogram, lows, strict=False)) - lows[slowest]
    return max(total_ms - others, lows[slowest])


def read(text: str) -> list[int]:
    """Read a stored histogram; a text that is not one counts nothing."""
    try:
        counts = from_json(text)
    except (ValueError, TypeError):
        return empty()
    if not isinstance(counts, list) or set(map(type, counts)) != {int} or min(counts) < 0:
        return empty()
    return counts


@dataclass(kw_only=True, slots=True)
class Tally:
    """The calls of one tool on one day; it grows in place. `last_used` is an ISO date and time in UTC."""

    calls: int = 0
    errors: int = 0
    total_ms: float = 0.0
    histogram: list[int] = field(default_factory=empty)
    last_used: str = ""

    def add(self, *, ok: bool, elapsed_ms: float, at: str) -> None:
        """Count one call that ended `at`."""
        self.calls += 1
        self.errors += not ok
        self.total_ms += elapsed_ms
        add(self.histogram, elapsed_ms)
        self.last_used = max(self.last_used, at)

    def merge(self, other: "Tally") -> None:
        """Add the calls of another tally."""
        self.calls += other.calls
        self.errors += other.errors
        self.total_ms += other.total_ms
        self.histogram = merge(self.histogram, other.histogram)
        self.last_used = max(self.last_used, other.last_used)


def first_day(today: date, days: int) -> str:
    """Return the ISO date of the first day in a window of so many days that ends today."""
    return (today - timedelta(days=max(days, 1) - 1)).isoformat()


def fold_days(rows: Iterable[tuple[str, Tally]], today: date, days: int = MONTH) -> list[tuple[str, Tally]]:
    """Merge the tallies of days that are in the same windows; `usage_of` makes the same of the result.

    The day of each is the first one of the shortest window that it is in.
    """
    starts = sorted({first_day(today, length) for length in (days, WEEK, MONTH)})
    merged: dict[str, Tally] = {}
    for day, tally in rows:
        at = bisect_right(starts, day)
        merged.setdefault(starts[at - 1] if at else "", Tally()).merge(tally)
    return list(merged.items())


def usage_of(rows: Iterable[tuple[str, Tally]], today: date, days: int = MONTH) -> Usage:
    """Sum up tallies by day (an ISO date; several of one day are fine) over a window up to today.

    Days after today count too: another process may be in tomorrow already.
    """
    since, week, month = (first_day(today, length) for length in (days, WEEK, MONTH))
    total = Tally()
    calls_7d = calls_30d = 0
    last_used = ""
    for day, tally in rows:
        last_used = max(last_used, tally.last_used)
        if day >= since:
            total.merge(tally)
        if day >= month:
            calls_30d += tally.calls
        if day >= week:
            calls_7d += tally.calls
    return Usage(
        calls=total.calls,
        errors=total.errors,
        mean_ms=total.total_ms / total.calls if total.calls else 0.0,
        p95_ms=min(p95(total.histogram), longest(total.histogram, total.total_ms)),
        calls_7d=calls_7d,
        calls_30d=calls_30d,
        last_used=last_used,
    )
