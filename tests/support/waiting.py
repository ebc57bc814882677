"""Waiting for what tells nobody that it has changed: a thread, another process, a file."""

from collections.abc import Callable

import anyio


async def eventually(is_true: Callable[[], bool], within_s: float = 120.0) -> None:
    """Look again and again until something is true, with pauses, so that what is waited for gets time to run.

    Raises:
        TimeoutError: It was not true within `within_s` seconds.
    """
    with anyio.fail_after(within_s):
        while not is_true():  # noqa: ASYNC110
            await anyio.sleep(0.01)
