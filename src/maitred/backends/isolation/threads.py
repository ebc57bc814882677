"""Blocking work, each piece in its own thread, so that one that hangs delays no other.

The event loop's own pool does not fit: it has few threads, and a process that ends waits for them. A
cancelled caller leaves its thread behind here, and the thread ends with the process.
"""

import asyncio
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


def _begin(function: Callable[[], T]) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())  # its caller may be gone

    def settle(result: T | None, error: BaseException | None) -> None:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None where T is

    def run() -> None:
        result, failed = None, None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001  # the waiting caller raises it again
            failed = error
        with suppress(RuntimeError):  # the loop was closed: no caller waits any more
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, name="maitred errand", daemon=True).start()
    return future


async def in_thread(
    function: Callable[[], T], *, patience_s: float = 0.0, drop: Callable[[T], object] | None = None
) -> T:
    """Run a function in its own thread, and return or raise what it does.

    A cancelled caller waits up to `patience_s` seconds more for the function to end, then leaves it
    behind. `drop` gets the result that comes after that.
    """
    future = _begin(function)
    try:
        return await _end(future, patience_s)
    except asyncio.CancelledError:
        if drop is not None:
            future.add_done_callback(lambda done: done.exception() or drop(done.result()))
        raise


async def _end(future: asyncio.Future[T], patience_s: float = 0.0) -> T:
    try:
        await asyncio.wait([future])
    finally:
        if not future.done() and patience_s > 0:
            with anyio.move_on_after(patience_s, shield=True):
                await asyncio.wait([future])
    return future.result()


class SharedThreads:
    """Work that several callers may wait for, and that goes on if all of them have left."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Future[Any]] = {}

    def begin(self, key: Hashable, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function in a thread, unless one runs under the same key."""
        future: asyncio.Future[T] | None = self._running.get(key)
        if future is None:
            future = self._running[key] = _begin(function)
            future.add_done_callback(lambda _: self._running.pop(key, None))
        return future

    async def run(self, key: Hashable, function: Callable[[], T]) -> T:
        """Run a function in a thread, or wait for the one that runs under the same key."""
        return await _end(self.begin(key, function))
