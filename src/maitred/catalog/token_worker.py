"""Counts tokens in a worker process, which starts when it is needed and ends when idle.

In the gateway the vocabulary would cost sixty megabytes for good and a moment of blocking. In a worker it
costs nothing once the catalog is known. (A process pool of the standard library or of anyio would run the
main module of the embedding program again; this does not.)
"""

import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

import anyio
import anyio.abc
import structlog
from anyio.streams.buffered import BufferedByteReceiveStream

from maitred.background import Background

log = structlog.get_logger(__name__)

_IDLE_S = 30.0
_CHECK_S = 5.0
_TIMEOUT_S = 120.0
_MAX_ANSWER = 16 * 1024 * 1024
_CHARACTERS_PER_TOKEN = 4
_FAILURES = (
    OSError,
    TimeoutError,
    ValueError,
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
)


class TokenWorker(anyio.AsyncContextManagerMixin):
    """Owns the worker process. Enter it before use; leaving it ends the process."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._process: anyio.abc.Process | None = None
        self._answers: BufferedByteReceiveStream | None = None
        self._used_at = 0.0

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with Background() as background:
            background.start(self._end_when_idle)
            try:
                yield self
            finally:
                with anyio.CancelScope(shield=True):
                    await self._end()

    async def count(self, texts: Sequence[str]) -> Sequence[int]:
        """The o200k tokens of each text; a rough estimate, and a warning, if the worker fails."""
        if not texts:
            return []
        async with self._lock:
            try:
                with anyio.fail_after(_TIMEOUT_S):
                    return await self._ask(texts)
            except _FAILURES as error:
                log.warning("tokens are estimated, not counted", reason=repr(error))
                await self._end()
                return [len(text) // _CHARACTERS_PER_TOKEN for text in texts]
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):  # a later request must not get its late answer
                    await self._end()
                raise

    async def _ask(self, texts: Sequence[str]) -> Sequence[int]:
        if self._process is None or self._answers is None or self._process.returncode is not None:
            self._process = await anyio.open_process(
                [sys.executable, "-m", "maitred.catalog.token_count"], stderr=None, start_new_session=True
            )
            if self._process.stdout is None:
                raise OSError("the worker has no standard output")
            self._answers = BufferedByteReceiveStream(self._process.stdout)
        if self._process.stdin is None:
            raise OSError("the worker has no standard input")
        await self._process.stdin.send(json.dumps(list(texts)).encode() + b"\n")
        answer = await self._answers.receive_until(b"\n", _MAX_ANSWER)
        self._used_at = time.monotonic()
        counts = [int(count) for count in json.loads(answer)]
        if len(counts) != len(texts):
            raise ValueError("the worker answered something else")
        return counts

    async def _end_when_idle(self) -> None:
        while True:
            await anyio.sleep(_CHECK_S)
            async with self._lock:
                if self._process is not None and time.monotonic() - self._used_at > _IDLE_S:
                    await self._end()

    async def _end(self) -> None:
        process, self._process, self._answers = self._process, None, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.aclose()
