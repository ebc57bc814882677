"""Rows that wait are written together, again after a failure, and before the owner is left."""

from collections.abc import Awaitable, Callable

import anyio
import pytest
from structlog.testing import capture_logs

from maitred.errors import StoreError
from maitred.storage.batch import BatchWriter

pytestmark = pytest.mark.anyio


class _Rows:
    """A store of numbers, which fails as often as `failures` says."""

    def __init__(self, failures: int = 0) -> None:
        self.waiting: list[int] = []
        self.batches: list[list[int]] = []
        self.failures = failures
        self.written = anyio.Event()

    async def write(self) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreError("rows", "the disk is full")
        if self.waiting:
            self.batches.append(self.waiting)
            self.waiting = []
            self.written.set()


def _writer(write: Callable[[], Awaitable[None]], pause_s: float = 0.0) -> BatchWriter:
    return BatchWriter(write, pause_s=pause_s, leave_s=30, warning="rows cannot be written")


async def test_what_comes_together_is_written_together() -> None:
    """One transaction for all that was collected."""
    rows = _Rows()
    with anyio.fail_after(60):
        async with _writer(rows.write) as batches:
            for number in (1, 2, 3):
                rows.waiting.append(number)
                batches.wake()
            await rows.written.wait()

    assert rows.batches == [[1, 2, 3]]


async def test_what_still_waits_is_written_at_the_end() -> None:
    """Also if the pause is not over."""
    rows = _Rows()
    with anyio.fail_after(60):
        async with _writer(rows.write, pause_s=3_600) as batches:
            rows.waiting.append(1)
            batches.wake()

    assert rows.batches == [[1]]


async def test_it_tries_again_and_warns_once() -> None:
    """A full disk does not fill the log; rows are written as soon as there is room."""
    rows = _Rows(failures=3)
    with capture_logs() as logs, anyio.fail_after(60):
        async with _writer(rows.write) as batches:
            rows.waiting.append(1)
            batches.wake()
            await rows.written.wait()

    assert rows.batches == [[1]]
    assert [(line["event"], line["reason"]) for line in logs] == [
        ("rows cannot be written", "the disk is full")
    ]
