"""Limit how fast, and how many at once, each principal and team may call: token buckets and counters.

A call is admitted, or refused with the seconds to wait. Nothing waits here, so a caller over its limit costs
nothing. Time comes from the clock that is passed in. Memory is bounded: a full bucket needs no entry.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from maitred.token_bucket import TokenBucket

MAX_PRINCIPALS: Final = 10_000
_WAIT_FOR_AN_END_S: Final = 1.0
_TEAM: Final = "\0"
"""Begins the keys of teams, and the name of no principal."""


@dataclass(frozen=True, kw_only=True)
class RateLimits:
    """The limits of one principal, or of one team; 0 means no limit.

    `burst` is how many calls may come at once after a pause; 0 means the calls of ten seconds, at least one.
    """

    per_minute: float = 0.0
    burst: int = 0
    at_once: int = 0

    @property
    def bucket(self) -> float:
        """Size of the bucket: how many calls may come at once after a pause."""
        return float(self.burst or max(1.0, self.per_minute / 6))

    @property
    def is_set(self) -> bool:
        """Whether anything is limited."""
        return bool(self.per_minute or self.at_once)


@dataclass(frozen=True, kw_only=True)
class LimitReached:
    """A call that was refused; `reason` is for the caller, `retry_after_s` says when it may try again."""

    reason: str
    retry_after_s: float


@dataclass(kw_only=True, slots=True)
class _Account:
    bucket: TokenBucket
    running: int = 0


@dataclass(frozen=True, kw_only=True)
class TeamLimits:
    """The limits that the members of a team share, and its name."""

    name: str
    limits: RateLimits


class CallPermit:
    """A call that was admitted. It counts as running until the context exits."""

    def __init__(self, accounts: Sequence[_Account] = ()) -> None:
        self._accounts = accounts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        accounts, self._accounts = self._accounts, ()
        for account in accounts:
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

    def enter(
        self, principal: str, limits: RateLimits | None = None, *, team: TeamLimits | None = None
    ) -> CallPermit | LimitReached:
        """Admit a call, or say why not; `limits` replace the common ones for this principal.

        The call counts for the principal and for its `team`. A refused call takes nothing from any bucket.
        The caller must enter the permit and leave it, or the call counts as running for ever.
        """
        who = [(principal, repr(principal), limits or self._limits)]
        if team is not None:
            who.append((f"{_TEAM}{team.name}", f"the team {team.name!r}", team.limits))
        counted = [(self._account(key, own), name, own) for key, name, own in who if own.is_set]
        for account, name, own in counted:
            if reached := _reached(account, name, own):
                return reached
        for account, _, own in counted:
            if own.per_minute:
                account.bucket.spend(1)
            account.running += 1
        return CallPermit([account for account, _, _ in counted])

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


def _reached(account: _Account, name: str, own: RateLimits) -> LimitReached | None:
    """The limit that an account has reached, if there is one."""
    if own.at_once and account.running >= own.at_once:
        return limit_reached(name, own, running=account.running)
    if own.per_minute and account.bucket.left < 1:
        return limit_reached(name, own, wait_s=account.bucket.wait_s(1))
    return None


def limit_reached(name: str, own: RateLimits, *, running: int = 0, wait_s: float = 0.0) -> LimitReached:
    """The refusal of a call: so many calls are running, or else the bucket is empty for so long."""
    if running:
        text = f"{running} of {own.at_once} calls of {name} are running"
        reason = f"{text}; wait until one of them has ended"
        return LimitReached(reason=reason, retry_after_s=_WAIT_FOR_AN_END_S)
    reason = f"{name} may call {own.per_minute:g} times a minute; try again in {math.ceil(wait_s)} s"
    return LimitReached(reason=reason, retry_after_s=wait_s)
