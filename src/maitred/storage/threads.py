"""The threads in which a database works, apart from those that all other parts of the process share.

A database that does not answer occupies these threads alone, so search and screening go on. In the same way,
a slow model delays no line of the audit trail. Writers wait for each other, so readers have other threads.
"""

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

import anyio
from anyio import to_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MOST: Final = 15
_WRITERS_SHARE: Final = 3
"""One thread of so many writes; the others read."""


class DatabaseThreads:
    """Runs functions in threads; more than a few at once wait for their turn."""

    def __init__(self, most: int = _MOST) -> None:
        writers = max(1, most // _WRITERS_SHARE)
        self._readers = anyio.CapacityLimiter(max(1, most - writers))
        self._writers = anyio.CapacityLimiter(writers)

    async def read(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Run a function that waits for no writer."""
        return await to_thread.run_sync(function, *arguments, limiter=self._readers)

    async def write(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Run a function that may wait for other writers."""
        return await to_thread.run_sync(function, *arguments, limiter=self._writers)
