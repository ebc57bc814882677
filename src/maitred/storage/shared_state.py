"""Small values that several gateways share for a while: sessions, kept answers, facts, limits, messages.

None of it must survive a loss of the store: what is gone is made again, or ends with a clear error. So it is
apart from the database of the catalog. `MemoryState` is for one process. `shared_postgres` uses unlogged
tables, `shared_valkey` a Valkey or Redis server. One contract test runs against all three.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakMethod

import anyio
import structlog

from maitred.errors import StoreError
from maitred.token_bucket import TokenBucket

log = structlog.get_logger(__name__)

MOST_MESSAGE_BYTES: Final = 6_000
MOST_SEALED_BYTES: Final = 7_800
"""Of a message as it is sent: PostgreSQL delivers no longer ones."""
LEASE_S: Final = 60.0
"""For how long a call counts as running after its process was last heard of."""
RENEW_S: Final = 20.0
_SWEEP: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """A limit that calls count against: a bucket of `size` that gains `per_s`, and calls at the same time.

    0 for `per_s` or `at_once` means that there is no such limit.
    """

    key: str
    per_s: float = 0.0
    size: float = 1.0
    at_once: int = 0


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """The first allowance, by its place, that has nothing left.

    `running` is how many calls run if that is the limit, else 0. `wait_s` is when to try again.
    """

    place: int
    running: int = 0
    wait_s: float = 0.0


class SharedState(ABC):
    """Values by key, each with a time to live. Methods raise `StoreError` if the store cannot be reached."""

    name: str = "memory"
    """The store, as errors show it."""
    is_shared: bool = True
    """Whether other processes see what this one writes."""

    def __init__(self) -> None:
        self._listeners: list[WeakMethod[Callable[[str], None]]] = []
        self._resets: list[WeakMethod[Callable[[], None]]] = []
        self._is_live = False
        self._why_away = ""

    @property
    def is_live(self) -> bool:
        """Whether messages of other processes arrive now."""
        return self._is_live

    @property
    def why_away(self) -> str:
        """Why the store could not be reached at the last attempt; empty if it could."""
        return self._why_away

    @abstractmethod
    async def get(self, key: str) -> bytes | None:
        """The value of a key that has not expired."""

    @abstractmethod
    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Set a value, which expires after so many seconds."""

    @abstractmethod
    async def touch(self, key: str, ttl_s: float) -> bool:
        """Let a value expire later; false if there is none."""

    @abstractmethod
    async def delete(self, key: str) -> bool:
        """Remove a value; false if there was none."""

    @abstractmethod
    async def swap(self, key: str, before: bytes | None, after: bytes, ttl_s: float) -> bool:
        """Set a value if the present one is `before`, or there is none for `None`; whether that was so."""

    @abstractmethod
    async def add(self, key: str, number: int, ttl_s: float) -> int:
        """Add to a number, which is 0 at first, and return it; in one step for all processes."""

    @abstractmethod
    async def admit(self, allowances: Sequence[Allowance], holder: str) -> Shortage | None:
        """Take one call from all allowances, or from none of them if one has nothing left.

        `holder` is the name of the call, which counts as running until `release`, or until its process has
        not been heard of for `LEASE_S`.
        """

    @abstractmethod
    async def release(self, keys: Sequence[str], holder: str) -> None:
        """End a call that `admit` let in."""

    @abstractmethod
    async def publish(self, message: str) -> None:
        """Send a message of at most `MOST_MESSAGE_BYTES` to all processes, this one included, if they listen.

        It may be lost; `on_reset` tells the listeners when that may have happened.
        """

    @abstractmethod
    async def watch(self) -> None:
        """Pass messages on, keep running calls counted, and drop what has expired; never returns."""

    async def close(self) -> None:
        """Close connections; nothing may be asked afterwards."""
        return

    def listen(self, heard: Callable[[str], None], on_reset: Callable[[], None]) -> None:
        """Call methods with each message, and whenever some may have been lost; they must not block."""
        self._listeners.append(WeakMethod(heard))
        self._resets.append(WeakMethod(on_reset))

    def _deliver(self, message: str) -> None:
        for reference in self._listeners:
            if (method := reference()) is None:
                continue
            try:
                method(message)
            except Exception:  # of another version, or forged: this process must go on
                log.exception("a message of another process was not understood")

    def _reset(self) -> None:
        for reference in self._resets:
            if (method := reference()) is not None:
                method()


class MemoryState(SharedState):
    """The values of one process; `clock` returns seconds."""

    is_shared = False

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._is_live = True
        self._clock = clock
        self._values: dict[str, tuple[bytes, float]] = {}
        self._buckets: dict[str, TokenBucket] = {}
        self._running: dict[str, set[str]] = {}
        self._writes = 0

    async def get(self, key: str) -> bytes | None:
        """See `SharedState.get`."""
        value, until = self._values.get(key, (None, 0.0))
        return value if until > self._clock() else None

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """See `SharedState.put`."""
        now = self._clock()
        self._writes += 1
        if self._writes % _SWEEP == 0:
            self._values = {one: kept for one, kept in self._values.items() if kept[1] > now}
        self._values[key] = value, now + ttl_s

    async def touch(self, key: str, ttl_s: float) -> bool:
        """See `SharedState.touch`."""
        value = await self.get(key)
        if value is not None:
            self._values[key] = value, self._clock() + ttl_s
        return value is not None

    async def delete(self, key: str) -> bool:
        """See `SharedState.delete`."""
        there = await self.get(key) is not None
        self._values.pop(key, None)
        return there

    async def swap(self, key: str, before: bytes | None, after: bytes, ttl_s: float) -> bool:
        """See `SharedState.swap`."""
        is_same = await self.get(key) == before
        if is_same:
            await self.put(key, after, ttl_s)
        return is_same

    async def add(self, key: str, number: int, ttl_s: float) -> int:
        """See `SharedState.add`."""
        after = int(await self.get(key) or 0) + number
        await self.put(key, b"%d" % after, ttl_s)
        return after

    async def admit(self, allowances: Sequence[Allowance], holder: str) -> Shortage | None:
        """See `SharedState.admit`."""
        left = {one.key: self._bucket(one).left for one in allowances}
        running = {one.key: len(self._running.get(one.key, ())) for one in allowances}
        if (shortage := first_shortage(allowances, left, running)) is not None:
            return shortage
        for one in allowances:
            self._buckets[one.key].spend(1 if one.per_s else 0)
            self._running.setdefault(one.key, set()).add(holder)
        return None

    def _bucket(self, allowance: Allowance) -> TokenBucket:
        now = self._clock()
        if (bucket := self._buckets.get(allowance.key)) is None:
            bucket = TokenBucket(per_s=allowance.per_s, size=allowance.size, now=now)
            self._buckets[allowance.key] = bucket
        bucket.resize(per_s=allowance.per_s, size=allowance.size)
        bucket.refill(now=now)
        return bucket

    async def release(self, keys: Sequence[str], holder: str) -> None:
        """See `SharedState.release`."""
        for key in keys:
            self._running.get(key, set()).discard(holder)

    async def publish(self, message: str) -> None:
        """See `SharedState.publish`."""
        self._deliver(message)

    async def watch(self) -> None:
        """See `SharedState.watch`."""
        await anyio.sleep_forever()


class RunningCalls:
    """The calls of this process that count as running, to keep them counted."""

    def __init__(self) -> None:
        self.keys: dict[str, Sequence[str]] = {}
        """The keys of allowances, by holder."""

    def added(self, allowances: Sequence[Allowance], holder: str) -> Sequence[str]:
        """Note a call that was admitted; returns the keys where it counts as running."""
        keys = [one.key for one in allowances if one.at_once]
        if keys:
            self.keys[holder] = keys
        return keys

    def ended(self, holder: str) -> Sequence[str]:
        """Forget a call; returns the keys where it counted."""
        return self.keys.pop(holder, ())


def first_shortage(
    allowances: Sequence[Allowance], left: Mapping[str, float], running: Mapping[str, int]
) -> Shortage | None:
    """The first allowance that has nothing left; `left` are the tokens and `running` the calls, by key."""
    for place, one in enumerate(allowances):
        if one.at_once and running.get(one.key, 0) >= one.at_once:
            return Shortage(place=place, running=running[one.key], wait_s=1.0)
        if one.per_s and left[one.key] < 1:
            return Shortage(place=place, wait_s=(1 - left[one.key]) / one.per_s)
    return None


def check_message(message: str, most: int = MOST_MESSAGE_BYTES) -> None:
    """Refuse a message that is too long.

    Raises:
        ValueError: It is; put what it says under a key, and send the key.
    """
    if len(message.encode()) > most:
        raise ValueError(f"a message has at most {most:,} bytes")


async def renew_for_ever(renew: Callable[[], Awaitable[None]], every_s: float = RENEW_S) -> None:
    """Call an async function again and again, also while the store is away; never returns."""
    while True:
        await anyio.sleep(every_s)
        try:
            await renew()
        except StoreError:
            continue
