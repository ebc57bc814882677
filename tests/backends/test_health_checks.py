"""Health checks of an open connection."""

import time
from typing import cast

import anyio
import pytest
from tests.backends.rig import SOON_S

from maitred.backends.base import Connection
from maitred.backends.health_checks import until_it_hangs
from maitred.config.settings import Supervision
from maitred.errors import CallTimeoutError, ProtocolError

pytestmark = pytest.mark.anyio

NEVER = float("inf")
PLAN = Supervision(check_every_s=0.01, check_timeout_s=0.5, failures=2)


class PingedConnection:
    """A connection that is asked whether it answers: `outcomes` are those of its pings, the last for ever."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = outcomes
        self.pings = 0
        self.heard_at = 0.0
        self.waiting_since: float | None = None

    async def ping(self, timeout_s: float) -> None:
        assert timeout_s == PLAN.check_timeout_s
        outcome = self.outcomes[min(self.pings, len(self.outcomes) - 1)]
        self.pings += 1
        if outcome is not None:
            raise outcome


def timeout() -> CallTimeoutError:
    return CallTimeoutError("s", "ping", PLAN.check_timeout_s)


async def verdict(connection: PingedConnection, *, call_s: float = 60.0) -> str:
    with anyio.fail_after(SOON_S):
        return await until_it_hangs(cast("Connection", connection), lambda: PLAN, call_s=call_s)


async def test_one_that_misses_as_many_checks_as_are_allowed_hangs() -> None:
    connection = PingedConnection(timeout())
    assert await verdict(connection) == "it did not answer 2 health checks of 0.5 s each"
    assert connection.pings == 2


async def test_an_error_is_an_answer_and_begins_the_count_again() -> None:
    connection = PingedConnection(
        timeout(), ProtocolError("s", -32601, "unknown"), timeout(), None, timeout()
    )
    await verdict(connection)
    assert connection.pings == 6


async def test_one_that_answers_others_or_works_on_a_call_is_not_asked() -> None:
    """Not in ten checks; as soon as it does neither, it is asked."""
    connection, checks = PingedConnection(timeout()), 0
    connection.heard_at = NEVER

    def plan() -> Supervision:
        nonlocal checks
        checks += 1
        if checks == 2 * 10:  # each check reads the plan twice
            connection.heard_at, connection.waiting_since = 0.0, time.monotonic()
        if checks == 2 * 20:
            assert connection.pings == 0
            connection.waiting_since = None
        return PLAN

    with anyio.fail_after(SOON_S):
        await until_it_hangs(cast("Connection", connection), plan, call_s=60.0)
    assert connection.pings == PLAN.failures
