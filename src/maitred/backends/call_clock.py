"""The time limit of one call: progress extends it up to a last moment, a question to the caller stops it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio

_NEVER: Final = float("inf")


class CallClock:
    """Ends a call that makes no progress for `call_s` seconds, and any call after `longest_s` seconds.

    The time in which a caller answers questions of the server does not count.
    """

    def __init__(self, call_s: float, longest_s: float) -> None:
        self._call_s = call_s
        self._longest_s = self._left_s = longest_s
        self._since = anyio.current_time()
        self._questions = 0
        self._scope = anyio.CancelScope()

    @property
    def expired(self) -> bool:
        """Whether the clock ended what ran under it."""
        return self._scope.cancelled_caught

    @property
    def is_over(self) -> bool:
        """Whether the time of the whole call is up, in spite of progress."""
        return self._longest_s != self._call_s and anyio.current_time() >= self._since + self._left_s

    @property
    def limit_s(self) -> float:
        """The limit that ended the call, in seconds."""
        return self._longest_s if self.is_over else self._call_s

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the clock; what runs inside is cancelled when the time is up, and the context ends."""
        self._scope = anyio.CancelScope()
        self.extend()
        with self._scope:
            yield

    def extend(self) -> None:
        """Note that the server made progress: it has its time again, within what is left in all."""
        if not self._questions:
            now = anyio.current_time()
            self._scope.deadline = min(now + self._call_s, self._since + self._left_s)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock while a caller answers a question; questions may overlap."""
        if not self._questions:
            self._left_s -= anyio.current_time() - self._since
            self._scope.deadline = _NEVER
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self._since = anyio.current_time()
                self.extend()
