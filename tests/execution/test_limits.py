"""What the limiter promises: never more than was said, never less than is due, and memory that is bounded."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.access.rate_limit import CallPermit, Limiter, LimitReached, RateLimits


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def admitted(entry: CallPermit | LimitReached) -> bool:
    return isinstance(entry, CallPermit)


def refused(entry: CallPermit | LimitReached) -> LimitReached:
    assert isinstance(entry, LimitReached)
    return entry


def test_a_principal_may_call_so_often_and_is_told_when_to_come_back() -> None:
    """After the burst one call every two seconds; the advice is exact."""
    clock = Clock()
    limiter = Limiter(RateLimits(per_minute=30, burst=3), clock=clock)

    assert [admitted(limiter.enter("a")) for _ in range(4)] == [True, True, True, False]
    busy = refused(limiter.enter("a"))
    assert busy.reason == "'a' may call 30 times a minute; try again in 2 s"
    clock.now += busy.retry_after_s
    assert admitted(limiter.enter("a"))
    assert not admitted(limiter.enter("a"))


def test_one_principal_does_not_use_up_what_is_anothers() -> None:
    """Each has a bucket and a gate of its own."""
    limiter = Limiter(RateLimits(per_minute=6, burst=1, at_once=1), clock=Clock())

    assert admitted(limiter.enter("a"))
    assert not admitted(limiter.enter("a"))
    assert admitted(limiter.enter("b"))


def test_only_so_many_calls_run_at_once() -> None:
    """A call that has ended, however it ended, makes room for another."""
    limiter = Limiter(RateLimits(at_once=2), clock=Clock())
    first, second = limiter.enter("a"), limiter.enter("a")
    assert isinstance(first, CallPermit)
    assert isinstance(second, CallPermit)

    busy = refused(limiter.enter("a"))
    assert "2 of 2 calls of 'a' are running; wait until one of them has ended" in busy.reason
    with pytest.raises(KeyError), first:
        raise KeyError
    assert admitted(limiter.enter("a"))
    assert not admitted(limiter.enter("a"))


def test_a_call_that_is_refused_for_running_too_many_takes_nothing_from_the_bucket() -> None:
    """Waiting calls that try again do not use up the rate."""
    limiter = Limiter(RateLimits(per_minute=1, burst=2, at_once=1), clock=Clock())
    entry = limiter.enter("a")
    assert isinstance(entry, CallPermit)
    with entry:
        assert not any(admitted(limiter.enter("a")) for _ in range(5))

    assert admitted(limiter.enter("a"))


def test_a_principal_can_have_limits_of_its_own() -> None:
    """And none at all costs no memory."""
    limiter = Limiter(RateLimits(at_once=1), clock=Clock())

    assert all(admitted(limiter.enter("free", RateLimits())) for _ in range(100))
    assert len(limiter) == 0
    assert all(admitted(limiter.enter("big", RateLimits(at_once=5))) for _ in range(5))
    assert not admitted(limiter.enter("big", RateLimits(at_once=5)))


def test_no_crowd_of_principals_fills_the_memory_or_frees_who_is_calling() -> None:
    """The eldest are forgotten; somebody whose call runs stays counted."""
    limiter = Limiter(RateLimits(at_once=1), clock=Clock(), max_principals=10)
    assert admitted(limiter.enter("busy"))
    for number in range(1_000):
        entry = limiter.enter(f"p{number}")
        assert isinstance(entry, CallPermit)
        with entry:
            pass

    assert len(limiter) <= 10
    assert not admitted(limiter.enter("busy"))


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing() -> None:
    """Time that did not pass fills no bucket."""
    clock = Clock()
    limiter = Limiter(RateLimits(per_minute=60, burst=1), clock=clock)
    assert admitted(limiter.enter("a"))
    clock.now -= 500

    assert not admitted(limiter.enter("a"))
    clock.now += 1
    assert admitted(limiter.enter("a"))


@given(
    rate=st.floats(1, 600),
    burst=st.integers(1, 20),
    steps=st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 30)), max_size=200),
)
def test_in_no_stretch_of_time_more_calls_get_in_than_burst_and_rate_allow(
    rate: float, burst: int, steps: list[tuple[str, float]]
) -> None:
    """Over every window, from every call to every later one."""
    clock = Clock()
    limiter = Limiter(RateLimits(per_minute=rate, burst=burst), clock=clock)
    times: dict[str, list[float]] = defaultdict(list)
    for principal, pause in steps:
        clock.now += pause
        entry = limiter.enter(principal)
        if isinstance(entry, CallPermit):
            times[principal].append(clock.now)
        else:
            assert 0 < entry.retry_after_s <= 60 / rate + 1e-6

    for each in times.values():
        for start in range(len(each)):
            for end in range(start, len(each)):
                allowed = burst + (each[end] - each[start]) * rate / 60
                assert end - start + 1 <= allowed + 1e-6
