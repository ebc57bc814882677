"""Heartbeats: a client that asked for progress hears of its call also while the server reports none.

Clients end a request that is silent for too long. So the gateway reports progress of its own every 15 s.
The protocol wants progress to grow with each report: a heartbeat adds the smallest step, and what the server
reports afterwards stays above it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import structlog

from maitred.background import Background
from maitred.gateway import Caller, ForwardingCaller

log = structlog.get_logger(__name__)

EVERY_S: Final = 15.0
_STEP: Final = 1e-6


class Heartbeats:
    """The calls under way of clients that asked for progress; `run` must run beside them."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._waiting: set[BeatingCaller] = set()

    @contextmanager
    def watch(self, caller: Caller) -> Iterator[Caller]:
        """The caller to give to the call that runs inside the context."""
        if not caller.wants_progress:
            yield caller
            return
        beating = BeatingCaller(caller)
        self._waiting.add(beating)
        try:
            yield beating
        finally:
            self._waiting.discard(beating)

    async def run(self) -> None:
        """Report progress to each client that has heard nothing for long enough; runs until cancelled."""
        async with Background() as background:
            while True:
                await anyio.sleep(self._every_s / 3)
                now = time.monotonic()
                for one in self._waiting:
                    if now - one.heard_at >= self._every_s:
                        background.start(one.beat, now)


class BeatingCaller(ForwardingCaller):
    """A caller whose progress grows, whether the server reports it or a heartbeat does."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller)
        self._begun = self.heard_at = time.monotonic()
        self._last = 0.0
        self._total: float | None = None
        self._has_beaten = False

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report the server's progress; see `Caller`."""
        if progress <= self._last and (
            self._has_beaten or 0 < self._last < _STEP
        ):  # that was a report of ours
            progress = self._last + _STEP
        self._last, self._total, self.heard_at = progress, total, time.monotonic()
        await super().progress(progress, total, message)

    async def beat(self, now: float) -> None:
        """Report that the call is still under way."""
        self._has_beaten, self.heard_at = True, now
        self._last += _STEP
        text = f"maitred waits for the server, {now - self._begun:.0f} s so far"
        try:
            await super().progress(self._last, self._total, text)
        except Exception as error:  # noqa: BLE001  # the client may have gone; its call notices that
            log.debug("a heartbeat was not delivered", reason=repr(error))
