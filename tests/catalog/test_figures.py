"""The arithmetic of usage: histograms that add up, bounds that hold, and windows of days."""

import json
from datetime import date, timedelta
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.model.usage import Usage
from maitred.usage import histogram as figures
from maitred.usage.histogram import BOUNDS_MS, Tally, fold_days, usage_of

TODAY = date(2026, 3, 31)
LATENCIES = st.lists(st.floats(0, 200_000), max_size=60)


def histogram(latencies: list[float]) -> list[int]:
    counts = figures.empty()
    for elapsed_ms in latencies:
        figures.add(counts, elapsed_ms)
    return counts


def tally(calls: int, *, errors: int = 0, elapsed_ms: float = 10, at: str = "") -> Tally:
    made = Tally()
    for n in range(calls):
        made.add(ok=n >= errors, elapsed_ms=elapsed_ms, at=at)
    return made


def ago(days: int) -> str:
    return (TODAY - timedelta(days=days)).isoformat()


def test_buckets_reach_from_a_millisecond_to_two_minutes_and_at_most_double() -> None:
    """A percentile read from them is never more than twice what it was."""
    assert (BOUNDS_MS[0], BOUNDS_MS[-1]) == (1, 120_000)
    assert all(1.4 < after / before <= 2 for before, after in pairwise(BOUNDS_MS))


@given(LATENCIES, LATENCIES)
def test_histograms_of_two_processes_add_up_to_that_of_all_calls(
    one: list[float], other: list[float]
) -> None:
    """Whoever counted a call, it stands in the same bucket, also after it was stored."""
    stored = figures.read(json.dumps(histogram(one)))

    assert figures.merge(stored, histogram(other)) == histogram(one + other)


@given(st.lists(st.floats(0, 120_000), min_size=1, max_size=60))
def test_p95_is_the_first_bound_within_which_95_of_100_calls_ended(latencies: list[float]) -> None:
    """Source: issue "Menu", usage."""
    exact = sorted(latencies)[ceil(0.95 * len(latencies)) - 1]

    assert figures.p95(histogram(latencies)) == next(bound for bound in BOUNDS_MS if bound >= exact)


def test_p95_is_0_without_calls_and_never_more_than_the_last_bound() -> None:
    """What took longer than two minutes is not made up."""
    assert figures.p95(figures.empty()) == 0
    assert figures.p95(histogram([500_000])) == 120_000


@given(st.lists(st.floats(0, 120_000), min_size=1, max_size=60))
def test_p95_is_never_above_the_slowest_call_could_have_been(latencies: list[float]) -> None:
    """That of a single call is its time, and that of more is a bound which is at least the true one."""
    counted = Tally(calls=len(latencies), total_ms=sum(latencies), histogram=histogram(latencies))
    found = usage_of([(ago(0), counted)], TODAY).p95_ms
    exact = sorted(latencies)[ceil(0.95 * len(latencies)) - 1]
    assert found >= exact - 1e-6
    assert found <= sum(latencies) + 1e-6
    if len(latencies) == 1:
        assert found == latencies[0]


@pytest.mark.parametrize("text", ["", "{}", "null", "[", '["a", -1, true, null, 1e9]'])
def test_a_histogram_that_is_none_counts_nothing(text: str) -> None:
    """A row that somebody spoiled does not keep others from being counted."""
    assert figures.read(text) == figures.empty()


def test_days_are_folded_into_windows_that_count_today() -> None:
    """The last 7 days are today and six before; latencies and errors are those of the window asked for."""
    rows = [
        (ago(0), tally(4, errors=1, elapsed_ms=10, at="2026-03-31T10:00:00+00:00")),
        (ago(6), tally(2, elapsed_ms=40)),
        (ago(7), tally(10, elapsed_ms=900)),
        (ago(29), tally(20, elapsed_ms=900)),
        (ago(30), tally(100, errors=100, elapsed_ms=900)),
    ]

    assert usage_of(rows, TODAY, 7) == Usage(
        calls=6, errors=1, mean_ms=20, p95_ms=50, calls_7d=6, calls_30d=36,
        last_used="2026-03-31T10:00:00+00:00",
    )  # fmt: skip
    assert usage_of(rows, TODAY).calls == 36
    assert usage_of(rows, TODAY).success_rate == 35 / 36
    assert usage_of(rows, TODAY, 90).errors == 101
    assert usage_of([], TODAY) == Usage()


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 3_000)), max_size=12))
def test_usage_does_not_depend_on_the_order_or_the_split_of_the_rows(
    rows: list[tuple[int, int, int]],
) -> None:
    """Rows of several gateways and those not written yet come in any order."""
    whole = [(ago(days), tally(2 * calls, elapsed_ms=ms)) for days, calls, ms in rows]
    halves = [(ago(days), tally(calls, elapsed_ms=ms)) for days, calls, ms in rows for _ in range(2)]

    assert usage_of(halves[::-1], TODAY) == usage_of(whole, TODAY)


@given(
    st.lists(st.tuples(st.integers(-1, 100), st.integers(1, 4), st.integers(0, 200_000)), max_size=30),
    st.integers(1, 95),
)
def test_days_that_are_added_up_beforehand_give_the_same_figures(
    calls: list[tuple[int, int, int]], days: int
) -> None:
    """Those of a window of any length, of a week and of a month; also for a day in the future."""
    rows = [
        (ago(back), tally(count, errors=count // 2, elapsed_ms=elapsed_ms, at=f"{ago(back)}T12:00:00"))
        for back, count, elapsed_ms in calls
    ]

    assert usage_of(fold_days(rows, TODAY, days), TODAY, days) == usage_of(rows, TODAY, days)
    assert len(fold_days(rows, TODAY, days)) <= 4
