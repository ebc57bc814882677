"""The time limit of one call: progress extends it up to a last moment, a question to the caller stops it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from maitred.deadline import cancelled_at

_NEVER: Final = float("inf")


class CallClock:
    """Ends a call that makes no progress for `call_s` seconds, and any call after `longest_s` seconds.

    The time in which a caller answers questions of the server does not count.
    """

    def __init__(self, call_s: float, longest_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._call_s = call_s
        self._longest_s = self._left_s = longest_s
        self._since = self._loop.time()
        self._questions = 0
        self._scope: anyio.CancelScope | None = None
        self.at = self._since + min(call_s, longest_s)
        """The deadline on the clock of the event loop; infinite while a caller is asked."""
        self._call_on_earlier: Callable[[], None] = _nothing

    def on_earlier(self, call: Callable[[], None]) -> None:
        """Have a function called when a question is answered; see `Deadline`."""
        self._call_on_earlier = call

    @property
    def expired(self) -> bool:
        """Whether the clock ended what ran under it."""
        return self._scope is not None and self._scope.cancelled_caught

    @property
    def is_over(self) -> bool:
        """Whether the time of the whole call is up, in spite of progress."""
        return self._longest_s != self._call_s and self._loop.time() >= self._since + self._left_s

    @property
    def limit_s(self) -> float:
        """The limit that ended the call, in seconds."""
        return self._longest_s if self.is_over else self._call_s

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the clock; what runs inside is cancelled when the time is up, and the context ends.

        What watches the deadline itself needs no such context.
        """
        self.at = self._soonest()
        with cancelled_at(self) as self._scope:
            yield

    def extend(self) -> None:
        """Note that the server made progress: it has its time again, within what is left in all."""
        if not self._questions:
            self.at = self._soonest()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock while a caller answers a question; questions may overlap."""
        if not self._questions:
            self._left_s -= self._loop.time() - self._since
            self.at = _NEVER
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self._since = self._loop.time()
                self.extend()
                self._call_on_earlier()

    def _soonest(self) -> float:
        return min(self._loop.time() + self._call_s, self._since + self._left_s)


def _nothing() -> None:
    """What to call as long as nothing watches the deadline."""
