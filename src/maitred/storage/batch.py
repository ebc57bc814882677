"""Write rows in batches: collect them for a moment, then write all in one transaction.

It decides when to write and tries again after a failure. What waits, and how it is written, is the store's.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Self

import anyio
import structlog

from maitred.background import Background
from maitred.errors import StoreError

log = structlog.get_logger(__name__)


class BatchWriter(anyio.AsyncContextManagerMixin):
    """Calls `write` soon after each `wake`, and a last time when the context is left.

    Args:
        write: Writes all that waits in one transaction. If it raises `StoreError`, the rows still wait, and
            it is called again after the next pause. It may be called while it runs.
        pause_s: How many seconds rows are collected before they are written.
        leave_s: How many seconds the last write may take.
        warning: Logged at the first of several failures in a row.
    """

    def __init__(
        self, write: Callable[[], Awaitable[None]], *, pause_s: float, leave_s: float, warning: str
    ) -> None:
        self._write = write
        self._pause_s = pause_s
        self._leave_s = leave_s
        self._warning = warning
        self._fresh = anyio.Event()
        self._is_failing = False

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with Background() as background:
            background.start(self._flush_repeatedly)
            try:
                yield self
            finally:
                background.cancel()
                with anyio.move_on_after(self._leave_s, shield=True):
                    await self.flush()

    def wake(self) -> None:
        """Rows wait: write them after the pause."""
        self._fresh.set()

    async def flush(self) -> bool:
        """Write now; false if the database failed, and the rows wait for the next attempt."""
        try:
            await self._write()
        except StoreError as error:
            if not self._is_failing:
                log.warning(self._warning, reason=error.reason)
            self._is_failing = True
            return False
        self._is_failing = False
        return True

    async def _flush_repeatedly(self) -> None:
        while True:
            await self._fresh.wait()
            await anyio.sleep(self._pause_s)
            self._fresh = anyio.Event()
            if not await self.flush():
                self._fresh.set()
