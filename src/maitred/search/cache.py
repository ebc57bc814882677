"""A mapping that forgets: the least recently used entry when it is full, any entry when it is old."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """At most `size` values, each for `seconds` at most; `clock` counts seconds."""

    def __init__(
        self, size: int, seconds: float = float("inf"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, if it is there and not too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock() - entry[0] > self._seconds:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        self._entries[key] = (self._clock(), value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)
