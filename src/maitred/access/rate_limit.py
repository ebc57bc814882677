"""Limit how fast, and how many at once, each principal may call: a token bucket and a counter.

A call is admitted, or refused with the seconds to wait. Nothing waits here, so a caller over its limit costs
nothing. Time comes from the clock that is passed in. Memory is bounded: a full bucket needs no entry.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from maitred.token_bucket import TokenBucket

MAX_PRINCIPALS: Final = 10_000
_WAIT_FOR_AN_END_S: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class RateLimits:
    """The limits of one principal; 0 means no limit.

    `burst` is how many calls may come at once after a pause; 0 means the calls of ten seconds, at least one.
    """

    per_minute: float = 0.0
    burst: int = 0
    at_once: int = 0

    @property
    def bucket(self) -> float:
        """Size of the bucket: how many calls may come at once after a pause."""
        return float(self.burst or max(1.0, self.per_minute / 6))


@dataclass(frozen=True, kw_only=True)
class LimitReached:
    """A call that was refused; `reason` is for the caller, `retry_after_s` says when it may try again."""

    reason: str
    retry_after_s: float


@dataclass(kw_only=True, slots=True)
class _Account:
    bucket: TokenBucket
    running: int = 0


class CallPermit:
    """A call that was admitted. It counts as running until the context exits."""

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
    """Admits calls by principal. `clock` returns seconds; it need not be right, only never go back."""

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
        # no LRUCache: a principal whose calls are running must not make room
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def __len__(self) -> int:
        """How many principals are in memory."""
        return len(self._accounts)

    def enter(self, principal: str, limits: RateLimits | None = None) -> CallPermit | LimitReached:
        """Admit a call, or say why not; `limits` replace the common ones for this principal.

        A refused call takes nothing from the bucket. The caller must enter the permit and leave it, or the
        call counts as running for ever.
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
            if account.bucket.left < 1:
                wait_s = account.bucket.wait_s(1)
                reason = (
                    f"{principal!r} may call {own.per_minute:g} times a minute; try again in"
                    f" {math.ceil(wait_s)} s"
                )
                return LimitReached(reason=reason, retry_after_s=wait_s)
            account.bucket.spend(1)
        account.running += 1
        return CallPermit(account)

    def _account(self, principal: str, limits: RateLimits) -> _Account:
        """The account of a principal, refilled up to now and marked as the last used."""
        now, account = self._clock(), self._accounts.get(principal)
        per_s, size = limits.per_minute / 60, limits.bucket
        if account is None:
            self._make_room()
            bucket = TokenBucket(per_s=per_s, size=size, now=now)
            account = self._accounts[principal] = _Account(bucket=bucket)
        else:
            self._accounts.move_to_end(principal)
            account.bucket.resize(per_s=per_s, size=size)
            account.bucket.refill(now=now)
        return account

    def _make_room(self) -> None:
        """Drop the least recent principals; one whose calls are running stays."""
        for _ in range(len(self._accounts)):
            if len(self._accounts) < self._max:
                return
            principal, account = self._accounts.popitem(last=False)
            if account.running:
                self._accounts[principal] = account
