"""How many tokens each team used today, against `access.teams.NAME.tokens_per_day`.

What counts is the estimate of `maitred stats --by team`: all that agents of members read and wrote, in every
gateway on the database. It is read again with a call that comes `_FRESH_S` after the last time, so a team may
use a little more than its budget.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio
import structlog

from maitred.access.teams import PrincipalGroups, Teams, team_of
from maitred.errors import BusyError, StoreError
from maitred.model.access import Viewer
from maitred.usage.recorder import UsageRecorder

log = structlog.get_logger(__name__)

_FRESH_S: Final = 2.0
_HOUR_S: Final = 3_600


def _now() -> datetime:
    return datetime.now(UTC)


def has_budgets(teams: Teams) -> bool:
    """Whether any team has one."""
    return any(team.tokens_per_day for team in teams.values())


class TeamBudgets:
    """Refuses calls of teams without tokens. `clock` returns the time in UTC; for one event loop."""

    def __init__(
        self, usage: UsageRecorder, groups: PrincipalGroups, *, clock: Callable[[], datetime] = _now
    ) -> None:
        self._usage = usage
        self._groups = groups
        self._clock = clock
        self._lock = anyio.Lock()
        self._read_at: datetime | None = None
        self._teams: Teams = {}
        self._used: Mapping[str, int] = {}

    async def check(self, viewer: Viewer, teams: Teams) -> None:
        """Let a call of a viewer pass, if its team has tokens left today.

        Raises:
            BusyError: The team has none until midnight UTC.
        """
        name = team_of(viewer.principal, viewer.grant.groups, teams)
        if not name or not teams[name].tokens_per_day:
            return
        await self._refresh(teams)
        used, budget, now = self._used.get(name, 0), teams[name].tokens_per_day, self._clock()
        if used >= budget:
            midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
            wait_s = (midnight - now).total_seconds()
            text = f"the team {name!r} has used {used:,} of its {budget:,} tokens of today"
            hint = f"try again after midnight UTC, in {math.ceil(wait_s / _HOUR_S)} h"
            raise BusyError(f"{text}; {hint}", retry_in_s=wait_s)

    async def _refresh(self, teams: Teams) -> None:
        """Read again what was used, if that is old; without the database, the last figures count on."""
        async with self._lock:
            now = self._clock()
            if teams is self._teams and self._read_at is not None:
                is_fresh = (now - self._read_at).total_seconds() < _FRESH_S
                if is_fresh and self._read_at.date() == now.date():
                    return
            try:
                self._used = await self._sums(teams, now.date().isoformat())
            except StoreError as error:
                log.warning("what teams used today cannot be read", reason=error.reason)
                if self._read_at is not None and self._read_at.date() != now.date():
                    self._used = {}
            self._read_at, self._teams = now, teams

    async def _sums(self, teams: Teams, day: str) -> Mapping[str, int]:
        """The tokens of each team on a day."""
        groups = await self._groups.listed()
        sums = Counter[str]()
        for row in await self._usage.spending(1):
            if row.day == day:
                team = team_of(row.principal, groups.get(row.principal, ()), teams)
                sums[team] += row.read_tokens + row.argument_tokens
        return sums
