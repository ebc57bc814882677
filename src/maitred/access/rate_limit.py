"""How fast and how much at once each principal may call: a token bucket and a gate that counts.

Entering either lets a call in or says when to come back; nothing waits in here, so a caller who asks for too
much costs nothing. Time comes from a clock that is handed in. What is remembered is bounded: somebody whose
bucket is full again needs no entry.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

MAX_PRINCIPALS: Final = 10_000
_WAIT_FOR_AN_END_S: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class RateLimits:
    """What one principal may do; 0 is no limit.

    `burst` is how many calls may come at once after a pause; 0 takes those of ten seconds, at least one.
    """

    per_minute: float = 0.0
    burst: int = 0
    at_once: int = 0

    @property
    def bucket(self) -> float:
        """How many calls may come at once after a pause."""
        return float(self.burst or max(1.0, self.per_minute / 6))


@dataclass(frozen=True, kw_only=True)
class LimitReached:
    """A call that is not let in now; `reason` is for the caller, `retry_after_s` when it may try again."""

    reason: str
    retry_after_s: float


@dataclass(kw_only=True, slots=True)
class _Account:
    tokens: float
    at: float
    running: int = 0


class CallPermit:
    """A call that was let in; it counts as running until the context is left."""

    def __init__(self, account: _Account | None) -> None:
        self._account = account

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        account, self._account = self._account, None
        if account is not None:
            account.running -= 1


class Limiter:
    """Lets calls in by principal. `clock` gives seconds and never needs to be right, only to go on."""

    def __init__(
        self,
        limits: RateLimits,
        *,
        clock: Callable[[], float] = time.monotonic,
        max_principals: int = MAX_PRINCIPALS,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._max = max_principals
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def __len__(self) -> int:
        """How many principals are remembered."""
        return len(self._accounts)

    def enter(self, principal: str, limits: RateLimits | None = None) -> CallPermit | LimitReached:
        """Let a call in, or say why not; `limits` hold for this principal instead of those for all.

        A call that is refused takes nothing from the bucket. The pass has to be entered or it runs for ever.
        """
        own = limits or self._limits
        if not own.per_minute and not own.at_once:
            return CallPermit(None)
        account = self._account(principal, own)
        if own.at_once and account.running >= own.at_once:
            reason = (
                f"{account.running} of {own.at_once} calls of {principal!r} are running;"
                " wait until one of them has ended"
            )
            return LimitReached(reason=reason, retry_after_s=_WAIT_FOR_AN_END_S)
        if own.per_minute:
            if account.tokens < 1:
                wait_s = (1 - account.tokens) * 60 / own.per_minute
                reason = (
                    f"{principal!r} may call {own.per_minute:g} times a minute; try again in"
                    f" {math.ceil(wait_s)} s"
                )
                return LimitReached(reason=reason, retry_after_s=wait_s)
            account.tokens -= 1
        account.running += 1
        return CallPermit(account)

    def _account(self, principal: str, limits: RateLimits) -> _Account:
        """The account of a principal, filled up to now, and as the one that was used last."""
        now, account = self._clock(), self._accounts.get(principal)
        if account is None:
            self._make_room()
            account = self._accounts[principal] = _Account(tokens=limits.bucket, at=now)
        else:
            self._accounts.move_to_end(principal)
            gained = max(0.0, now - account.at) * limits.per_minute / 60
            account.tokens = min(limits.bucket, account.tokens + gained)
            account.at = now
        return account

    def _make_room(self) -> None:
        """Forget who has not called for longest; whoever has calls running is not forgotten."""
        for _ in range(len(self._accounts)):
            if len(self._accounts) < self._max:
                return
            principal, account = self._accounts.popitem(last=False)
            if account.running:
                self._accounts[principal] = account
