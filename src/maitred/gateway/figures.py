"""How tools are used: figures by tool, server and principal, and the tiers that are computed from them.

Tiers are computed once a day, and never while somebody may be reading the menu: when the gateway is opened,
and after it has been quiet for a while. `maitred tiers update` does it at once.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import anyio
import structlog

from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.usage import UsageRecorder
from maitred.disclosure.tiers import standings
from maitred.errors import StoreError
from maitred.gateway.context import Context
from maitred.model.tools import ToolKey
from maitred.model.usage import Level, Spending, Standing, Usage

log = structlog.get_logger(__name__)

WINDOW_DAYS: Final = 30
_AGE: Final = timedelta(days=1)
_QUIET_S: Final = 600.0
_CHECK_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Stats:
    """What happened in a window of days: tools and servers by calls, tokens by day and principal."""

    days: int
    servers: int
    tools: int
    raw_tokens: int
    calls: int
    used: Mapping[str, Usage]
    by_server: Mapping[str, Usage]
    spending: Sequence[Spending]
    tiers_at: str
    levels: Mapping[Level, int]

    def to_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return asdict(self) | {
            "used": {name: _figures(usage) for name, usage in self.used.items()},
            "by_server": {name: _figures(usage) for name, usage in self.by_server.items()},
            "spending": [
                {**asdict(row), "spent": row.spent, "break_even": row.break_even} for row in self.spending
            ],
        }


class Figures:
    """Reads usage and computes tiers for a gateway."""

    def __init__(self, context: Context, usage: UsageRecorder) -> None:
        self._context = context
        self._usage = usage

    async def stats(self, days: int, *, raw_tokens: int) -> Stats:
        """What happened in the last so many days.

        Raises:
            StoreError: The figures cannot be read.
        """
        snapshot = self._context.snapshot
        used = await self._usage.usage(days)
        by_key = {key: usage for key, usage in used.items() if usage.calls}
        of_server = {name: u for name, u in (await self._usage.by_server(days)).items() if u.calls}
        nothing = Standing()
        levels = Counter(snapshot.standings.get(tool.key, nothing).level for tool in snapshot.tools)
        return Stats(
            days=days,
            servers=len(self._context.settings.servers),
            tools=len(self._context.visible_tools()),
            raw_tokens=raw_tokens,
            calls=sum(usage.calls for usage in by_key.values()),
            used={_name(snapshot, key): usage for key, usage in _by_calls(by_key)},
            by_server=dict(_by_calls(of_server)),
            spending=await self._usage.spending(days),
            tiers_at=snapshot.tiers_at,
            levels=dict(levels),
        )

    # --- tiers --------------------------------------------------------------------------------------------

    async def update_tiers(self) -> Mapping[ToolKey, Standing]:
        """Compute the standing of every tool from its use in the last 30 days, and serve by it.

        Raises:
            StoreError: Usage cannot be read, or standings not be written.
        """
        found = standings(await self._usage.usage(WINDOW_DAYS))

        async def planned(snapshot: Snapshot) -> Change:
            known = {key: standing for key, standing in found.items() if key in snapshot.by_key}
            now = datetime.now(UTC).isoformat(timespec="seconds")
            changed = known != snapshot.standings
            return Change(standings=known if changed else None, tiers_at=now, visible=changed)

        await self._context.catalog.change(planned)
        return self._context.snapshot.standings

    @property
    def due(self) -> bool:
        """Whether the tiers are more than a day old."""
        at = self._context.snapshot.tiers_at
        try:
            return not at or abs(datetime.now(UTC) - datetime.fromisoformat(at)) > _AGE
        except (ValueError, TypeError):
            return True

    async def update_if_due(self) -> None:
        """Compute the tiers if they are old and there is something to compute them from."""
        try:
            if self.due and (self._context.snapshot.standings or await self._usage.usage(WINDOW_DAYS)):
                await self.update_tiers()
                await self._usage.prune()
        except StoreError as error:
            log.warning("the tiers cannot be computed", reason=error.reason)

    async def keep_up(self) -> None:
        """Compute the tiers daily, when nobody has used the gateway for ten minutes; never returns."""
        while True:
            await anyio.sleep(_CHECK_S)
            if self.due and time.monotonic() - self._usage.active_at > _QUIET_S:
                await self.update_if_due()


def _by_calls(used: Mapping[Any, Usage]) -> list[tuple[Any, Usage]]:
    return sorted(used.items(), key=lambda item: (-item[1].calls, item[0]))


def _name(snapshot: Snapshot, key: ToolKey) -> str:
    tool = snapshot.by_key.get(key)
    return tool.name if tool else f"{key.server}/{key.name} (gone)"


def _figures(usage: Usage) -> dict[str, Any]:
    rounded = replace(usage, mean_ms=round(usage.mean_ms, 1), p95_ms=round(usage.p95_ms, 1))
    return asdict(rounded) | {"success_rate": round(usage.success_rate, 4)}
