"""Check regularly whether a server still answers, as long as its connection is open."""

import time
from collections.abc import Callable
from typing import Final

import anyio

from maitred.backends.base import Connection
from maitred.backends.supervision import next_check
from maitred.config.settings import Supervision
from maitred.errors import CallTimeoutError, ServerError
from maitred.wording import count_of

_UNASKED_S: Final = 60.0


async def until_it_hangs(connection: Connection, plan: Callable[[], Supervision], *, call_s: float) -> str:
    """Check regularly whether a server answers; returns when it does not, with a sentence about it.

    `plan` returns the present settings. `call_s` is how long a call may occupy a server that does one
    thing at a time. The check is skipped while other requests get answers.
    """
    missed, checked_at = 0, time.monotonic()
    while True:
        await anyio.sleep(plan().check_every_s or _UNASKED_S)
        now = plan()
        due = next_check(
            now=time.monotonic(),
            heard_at=connection.heard_at,
            checked_at=checked_at,
            waiting_since=connection.waiting_since,
            call_s=call_s,
        )
        if due == "well":
            missed = 0
        elif due == "ask" and now.check_every_s:
            missed = 0 if await _answers(connection, now.check_timeout_s) else missed + 1
        checked_at = time.monotonic()
        if missed >= now.failures:
            checks = count_of(missed, "health check")
            return f"it did not answer {checks} of {now.check_timeout_s:g} s each"


async def _answers(connection: Connection, timeout_s: float) -> bool:
    """Whether a server answers in time, even with an error; the end of a connection is detected elsewhere."""
    asked_at = time.monotonic()
    try:
        await connection.ping(timeout_s)
    except CallTimeoutError:
        return connection.heard_at > asked_at
    except ServerError:
        return True
    return True
