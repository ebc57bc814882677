"""Ends a watch of files at once when it is no longer wanted.

`watchfiles` waits in a thread, which a cancelled task has to wait for in turn: five seconds at worst. The
thread looks at an event every few milliseconds, and so it is that which has to be set first.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio


def watchable(folder: Path) -> bool:
    """Whether a folder can be watched: the watcher takes no name that is not UTF-8."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        return False
    return folder.is_dir()


@asynccontextmanager
async def until_cancelled() -> AsyncIterator[anyio.Event]:
    """An event that is set as soon as the task is cancelled; to be given to `awatch` as its `stop_event`."""
    cancelled = anyio.Event()

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        yield cancelled
        tasks.cancel_scope.cancel()
