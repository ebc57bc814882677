"""Where calls of this gateway wait for a decision, which may come from another process.

A loop says that the gateway lives, and reads the states of those that wait. A call whose client has left
stays in the inbox until its time is up: if a person approves it, the client may make the same call again. If
the call is made again before, that caller joins it, and the call goes on to wait under its id.
"""

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import anyio
import structlog

from maitred.errors import StoreError
from maitred.held_calls.store import GRACE, HeldCallStore, time_text
from maitred.model.held_calls import HeldCall, HeldState

log = structlog.get_logger(__name__)

LOOK_S: Final = 0.5
_ALIVE_EVERY: Final = timedelta(seconds=10)


class Waiter:
    """A call that waits; `settled` is set as soon as `state` is another one. It may be not stored yet."""

    def __init__(self, held: HeldCall) -> None:
        self.held = held
        self.is_stored = False
        self.state: HeldState = "waiting"
        self.settled = anyio.Event()

    def settle(self, state: HeldState) -> None:
        """Note the state, if it says that the call does not wait any more."""
        if state != "waiting":
            self.state = state
            self.settled.set()


class Inbox:
    """The calls that wait; `keep_up` must run, or decisions are not noticed. For one event loop.

    `note_expired` is called once for each call whose waiting ends here without a decision.
    """

    def __init__(
        self, store: HeldCallStore, note_expired: Callable[[HeldCall], None], *, look_s: float = LOOK_S
    ) -> None:
        self._store = store
        self._note_expired = note_expired
        self._look_s = look_s
        self._waiters: dict[str, Waiter] = {}
        self._left: dict[str, HeldCall] = {}
        self._came = anyio.Event()
        self._hint = anyio.Event()
        self._alive_at = store.clock()
        self._clean_at: datetime | None = None
        self._is_failing = False

    def __len__(self) -> int:
        """How many calls wait here."""
        return len(self._waiters)

    def enter(self, held: HeldCall) -> Waiter:
        """Let a call wait that is about to be stored."""
        waiter = self._waiters[held.id] = Waiter(held)
        return waiter

    def join(self, waiter: Waiter, joined: HeldCall) -> None:
        """Let a caller wait with a call that waited without a client, under the id of that one."""
        self._waiters.pop(waiter.held.id, None)
        waiter.held = joined
        self._waiters[joined.id] = waiter
        self.begin(waiter)

    def begin(self, waiter: Waiter) -> None:
        """Look for the decision about a call that is stored."""
        waiter.is_stored = True
        self.clean_after(datetime.fromisoformat(waiter.held.expires_at))
        self._came.set()

    def clean_after(self, ended: datetime) -> None:
        """Clean up when a call that is not decided after a time cannot be made any more."""
        self._clean_at = max(self._clean_at or ended, ended + GRACE + timedelta(seconds=1))

    def exit(self, waiter: Waiter) -> None:
        """Take a call out. One that was not settled has lost its client, and waits on without one."""
        self._waiters.pop(waiter.held.id, None)
        if not waiter.settled.is_set():
            self._left[waiter.held.id] = waiter.held
            self._came.set()

    def take_left(self, digest: str) -> HeldCall | None:
        """The oldest call without a client that is equal to another one, whose caller may join it."""
        equal = next((one.id for one in self._left.values() if one.binding.digest == digest), "")
        return self._left.pop(equal, None)

    def give_back(self, held: HeldCall) -> None:
        """Let a call wait on without a client, since the caller that took it did not join it."""
        self._left[held.id] = held
        self._came.set()

    async def expire(self, calls: Collection[HeldCall]) -> None:
        """End the waiting of calls whose time is up, unless they were decided.

        Raises:
            StoreError: The database cannot be written.
        """
        with anyio.CancelScope(shield=True):  # what ends is also noted
            known = {one.id: one for one in calls}
            for held_id in await self._store.expire([*known]):
                self._note_expired(known[held_id])

    def hint(self) -> None:
        """Say that something was decided here, so that no caller waits for the next look."""
        self._hint.set()

    async def keep_up(self) -> None:
        """Look for decisions as long as calls wait; never returns. At the end all waiting calls expire.

        After that, the arguments of calls that were approved and never made are dropped, once they are void.
        """
        try:
            while True:
                if not self._waiters and not self._left:
                    await self._rest()
                self._came = anyio.Event()
                with anyio.move_on_after(self._look_s):
                    await self._hint.wait()
                self._hint = anyio.Event()
                await self._look()
        finally:
            if self._waiters or self._left:
                with anyio.move_on_after(2, shield=True):
                    await self._end()

    async def _rest(self) -> None:
        """Wait for a call; clean up meanwhile, when no approval of the calls before counts any more."""
        while not self._came.is_set():
            seconds = (self._clean_at - self._store.clock()).total_seconds() if self._clean_at else math.inf
            if seconds <= 0:
                self._clean_at = None
                with suppress(StoreError):  # the next call that is held does it
                    await self._store.drop_old()
                continue
            with anyio.move_on_after(seconds):
                await self._came.wait()

    async def _look(self) -> None:
        try:
            await self._keep_alive()  # first: after a sleep of the machine, the calls here wait all the same
            await self._settle()
        except StoreError as error:
            if not self._is_failing:
                log.warning("decisions about held calls cannot be read now", reason=error.reason)
            self._is_failing = True
        else:
            self._is_failing = False

    async def _keep_alive(self) -> None:
        now = self._store.clock()
        if not timedelta(0) <= now - self._alive_at < _ALIVE_EVERY:
            await self._store.keep_alive()
            self._alive_at = now

    async def _settle(self) -> None:
        waiting = {held_id: one for held_id, one in self._waiters.items() if one.is_stored}
        states = await self._store.states([*waiting]) if waiting else {}
        now = time_text(self._store.clock())
        over = [one.held for held_id, one in waiting.items() if states.get(held_id, "expired") == "expired"]
        left = [one for one in self._left.values() if one.expires_at <= now]
        if over or left:
            await self.expire([*over, *left])
        for one in left:
            self._left.pop(one.id, None)
        for held_id, waiter in waiting.items():
            waiter.settle(states.get(held_id, "expired"))

    async def _end(self) -> None:
        known = {**{one.held.id: one.held for one in self._waiters.values()}, **self._left}
        try:
            for held_id in await self._store.leave():
                if held_id in known:
                    self._note_expired(known[held_id])
        except StoreError as error:
            log.warning("held calls are still shown as waiting, for a while", reason=error.reason)
