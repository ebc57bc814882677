"""Rate limits of several gateways together: each call is counted in the store that they share.

While the store is away, each gateway counts for itself, with its part of the limits: one of as many as were
alive last. On a gateway that is alone, this is `rate_limit` and nothing more.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import structlog

from maitred.access.rate_limit import CallPermit, Limiter, LimitReached, RateLimits, TeamLimits, limit_reached
from maitred.errors import StoreError
from maitred.storage.shared_state import Allowance, SharedState, Shortage

log = structlog.get_logger(__name__)

_SECONDS: Final = 60


@dataclass(frozen=True, kw_only=True)
class SharedPermit:
    """A call that was admitted in the store, where it counts as running under these keys."""

    keys: Sequence[str]
    holder: str


class SharedLimiter:
    """Admits calls by principal and team. `replicas` is how many gateways were alive when last known."""

    def __init__(self, state: SharedState, replicas: Callable[[], int]) -> None:
        self._state = state
        self._replicas = replicas
        self._local = Limiter(RateLimits())
        self._own = secrets.token_hex(6)
        self._numbers = count(1)
        self._is_away = False

    async def enter(
        self, principal: str, limits: RateLimits, *, team: TeamLimits | None = None
    ) -> CallPermit | SharedPermit | LimitReached:
        """Admit a call, or say why not; see `Limiter.enter`. A permit must be given to `leave`."""
        if not self._state.is_shared:
            return self._entered(self._local.enter(principal, limits, team=team))
        who = [(f"of:{principal}", repr(principal), limits)]
        if team is not None:
            who.append((f"team:{team.name}", f"the team {team.name!r}", team.limits))
        counted = [one for one in who if one[2].is_set]
        if not counted:  # only teams or other principals have limits
            return SharedPermit(keys=(), holder="")
        allowances = [_allowance(key, own) for key, _, own in counted]
        holder = f"{self._own}:{next(self._numbers)}"
        try:
            shortage = await self._state.admit(allowances, holder)
        except StoreError as error:
            return self._alone(error, principal, limits, team)
        self._note(None)
        if shortage is not None:
            _, name, own = counted[shortage.place]
            return _reached(shortage, name, own)
        return SharedPermit(keys=[one.key for one in allowances if one.at_once], holder=holder)

    async def leave(self, permit: CallPermit | SharedPermit) -> None:
        """End a call that was admitted."""
        if isinstance(permit, CallPermit):
            permit.__exit__(None, None, None)
        elif permit.keys:
            try:
                await self._state.release(permit.keys, permit.holder)
            except StoreError as error:  # it stops counting by itself, since it is not renewed
                log.info("the end of a call was not counted", reason=error.reason)

    def _alone(
        self, error: StoreError, principal: str, limits: RateLimits, team: TeamLimits | None
    ) -> CallPermit | LimitReached:
        """Count a call here, against a part of the limits."""
        self._note(error)
        parts = max(1, self._replicas())
        if team is not None:
            team = TeamLimits(name=team.name, limits=_part(team.limits, parts))
        return self._entered(self._local.enter(principal, _part(limits, parts), team=team))

    @staticmethod
    def _entered(entered: CallPermit | LimitReached) -> CallPermit | LimitReached:
        return entered if isinstance(entered, LimitReached) else entered.__enter__()

    def _note(self, error: StoreError | None) -> None:
        """Log when the store goes away, and when it is back."""
        if error is not None and not self._is_away:
            log.warning(
                "rate limits are counted by each gateway itself",
                reason=error.reason,
                part=f"1/{max(1, self._replicas())}",
            )
        elif error is None and self._is_away:
            log.warning("rate limits are counted for all gateways together again")
        self._is_away = error is not None


def _allowance(key: str, limits: RateLimits) -> Allowance:
    per_s = limits.per_minute / _SECONDS
    return Allowance(key=key, per_s=per_s, size=limits.bucket, at_once=limits.at_once)


def _part(limits: RateLimits, parts: int) -> RateLimits:
    """One of so many equal parts of limits, but at least one call."""
    return RateLimits(
        per_minute=limits.per_minute / parts,
        burst=max(1, int(limits.bucket) // parts) if limits.per_minute else 0,
        at_once=max(1, limits.at_once // parts) if limits.at_once else 0,
    )


def _reached(shortage: Shortage, name: str, limits: RateLimits) -> LimitReached:
    return limit_reached(name, limits, running=shortage.running, wait_s=shortage.wait_s)
