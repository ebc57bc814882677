"""Health checks of one open connection: asked now and then, as `supervision` says, until its server hangs."""

import time
from collections.abc import Callable
from typing import Final

import anyio

from maitred.backends.base import Connection
from maitred.backends.supervision import next_check
from maitred.config.settings import Supervision
from maitred.errors import CallTimeoutError, ServerError
from maitred.wording import counted

_UNASKED_S: Final = 60.0


async def until_it_hangs(connection: Connection, plan: Callable[[], Supervision], *, call_s: float) -> str:
    """Ask a server now and then whether it answers; returns when it does not, as a sentence about it.

    `plan` gives the settings as they are now, `call_s` is for how long a call may keep a server busy that
    does one thing at a time. A server that is asked for something anyway is not asked by this.
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
            checks = counted(missed, "health check")
            return f"it did not answer {checks} of {now.check_timeout_s:g} s each"


async def _answers(connection: Connection, timeout_s: float) -> bool:
    """Whether a server answers in time, if only with an error; one that went away is found out otherwise."""
    asked_at = time.monotonic()
    try:
        await connection.ping(timeout_s)
    except CallTimeoutError:
        return connection.heard_at > asked_at
    except ServerError:
        return True
    return True
