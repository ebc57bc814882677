"""The arithmetic of supervision: when a server is tried again, given up, asked, and taken for hanging."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.backends.base import Ending
from maitred.backends.pool import desired_state, difference
from maitred.backends.supervision import BREAKER_AT, MAX_DELAY_S, STABLE_S, Breaker, Restarts, next_check
from maitred.config.settings import Supervision
from maitred.model.servers import ServerSpec, Timeouts

CRASH = Ending(kind="exit", reason="it exited with code 3")


def failed(times: int, *, ran_s: float | None = None) -> Breaker:
    breaker = Breaker()
    for _ in range(times):
        breaker = breaker.failed(now=100.0, ran_s=ran_s)
    return breaker


def test_each_failure_in_a_row_doubles_the_pause_up_to_a_minute() -> None:
    """A server that cannot start costs ever less; it is never forgotten."""
    pauses = [failed(times).wait_s(100.0) for times in range(1, 12)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, MAX_DELAY_S, MAX_DELAY_S, MAX_DELAY_S, MAX_DELAY_S]


def test_a_server_that_is_down_for_days_is_tried_once_a_minute() -> None:
    """However many failures that makes, none of them is too many to reckon with."""
    assert failed(2_000).wait_s(100.0) == MAX_DELAY_S


def test_calls_are_refused_from_the_third_failure_until_the_pause_is_over() -> None:
    """Before, they wait for the next start."""
    assert [failed(times).is_open(100.0) for times in range(5)] == [False, False, False, True, True]
    assert not failed(BREAKER_AT).is_open(100.0 + 2.0)


def test_a_server_that_ran_well_for_a_while_is_started_again_at_once() -> None:
    """Its failures of long ago do not count."""
    again = failed(7).failed(now=100.0, ran_s=STABLE_S + 1)
    assert (again.failures, again.wait_s(100.0)) == (1, 0.0)
    assert failed(2, ran_s=STABLE_S - 1).failures == 2


@given(st.lists(st.floats(0, 1_000), max_size=40).map(sorted), st.floats(1, 500))
def test_restarts_are_counted_within_the_window_alone(times: list[float], window_s: float) -> None:
    """However often it was, and whatever is forgotten on the way."""
    made = Restarts()
    for time in times:
        made = made.noted(now=time, window_s=window_s)
    now = times[-1] if times else 0.0
    assert made.count(now=now, window_s=window_s) == sum(time > now - window_s for time in times)


def restarted(times: int) -> Restarts:
    made = Restarts()
    for number in range(times):
        made = made.noted(now=float(number), window_s=300.0)
    return made


def test_a_server_is_given_up_that_ends_again_after_as_many_restarts_as_it_may_have() -> None:
    """The reason says how often, and why it ended last."""
    budget = Supervision(restarts=3, window_s=300.0)
    assert restarted(2).why_given_up(budget, CRASH, now=10.0) == ""
    why = restarted(3).why_given_up(budget, CRASH, now=10.0)
    assert why == (
        "it had to be started again 3 times within 300 s and ended once more: it exited with code 3"
    )
    assert restarted(3).why_given_up(budget, CRASH, now=301.5) == "", "two of them are too long ago"


@pytest.mark.parametrize("ran_s", [0.1, 1.0, 5.6, 15.0, 29.0, 31.0, 45.0, 59.0])
def test_by_default_a_server_that_ends_again_within_a_minute_of_each_start_is_given_up(ran_s: float) -> None:
    """The pauses between its starts must not keep it within its budget for ever."""
    breaker, made, now = Breaker(), Restarts(), 0.0
    for _ in range(12):
        now += ran_s
        breaker = breaker.failed(now=now, ran_s=ran_s)
        if made.why_given_up(Supervision(), CRASH, now=now):
            return
        now += breaker.wait_s(now)
        made = made.noted(now=now, window_s=Supervision().window_s)
    pytest.fail("it is started again for ever")


def test_without_a_budget_no_server_is_given_up() -> None:
    assert restarted(50).why_given_up(Supervision(restarts=0), CRASH, now=50.0) == ""


def test_a_way_to_a_server_that_is_lost_is_not_charged_to_it() -> None:
    """A network that is down for minutes would else suspend all servers behind it."""
    lost = Ending(kind="lost", reason="it cannot be reached")
    assert restarted(9).why_given_up(Supervision(restarts=3), lost, now=10.0) == ""


@pytest.mark.parametrize(
    ("heard_at", "waiting_since", "due"),
    [
        (95.0, None, "well"),
        (95.0, 60.0, "well"),
        (50.0, None, "ask"),
        (50.0, 60.0, "wait"),
        (50.0, 51.0, "wait"),
        (30.0, 39.0, "ask"),
    ],
    ids=["answered", "answered-another", "idle", "busy", "busy-long", "busy-longer-than-a-call"],
)
def test_a_busy_server_is_left_in_peace_for_as_long_as_a_call_may_take(
    heard_at: float, waiting_since: float | None, due: str
) -> None:
    """One that does a thing at a time answers nothing else meanwhile; an idle one is asked."""
    found = next_check(
        now=100.0, heard_at=heard_at, checked_at=90.0, waiting_since=waiting_since, call_s=60.0
    )
    assert found == due


def spec(name: str, **fields: object) -> ServerSpec:
    return ServerSpec(name=name, command="x", **fields)  # type: ignore[arg-type]  # as given


def test_only_servers_that_are_reached_otherwise_are_stopped_or_made_anew() -> None:
    """One that is to run always from now on keeps its connection, and so does one that is kept longer."""
    present = {name: spec(name) for name in ("same", "kept", "moved", "resumed", "gone")}
    wanted = {
        "same": spec("same", cache_s=9.0),
        "kept": spec("kept", start="always"),
        "moved": spec("moved", args=("--other",)),
        "resumed": spec("resumed", resumed=1),
        "fresh": spec("fresh"),
    }
    found = difference(wanted, present)
    assert found.retire == {"moved", "resumed", "gone"}
    assert found.make == {"moved", "resumed", "fresh"}
    assert found.replaced == {"moved", "resumed"}


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, "as needed"),
        ({"start": "always"}, "running"),
        ({"start": "always", "enabled": False}, "stopped"),
        ({"start": "always", "withheld": "waits for approval"}, "stopped"),
        ({"timeouts": Timeouts(idle_stop_s=1.0)}, "as needed"),
    ],
)
def test_a_server_runs_always_only_if_it_may_run_at_all(fields: dict[str, object], wanted: str) -> None:
    assert desired_state(spec("s", **fields)) == wanted
