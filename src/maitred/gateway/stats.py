"""How tools are used: figures by tool, server and principal, the tiers from them, and the token ledger.

The gateway computes tiers once a day, when it opens or after it was idle for a while, so that the menu does
not change under a reader; if it is never idle, an hour later. `maitred tiers update` computes them at once.
The ledger has what finding tools cost a principal today, and what the raw list would have cost. It estimates
tokens (an upper bound, see `maitred.disclosure.budget`), and no request waits for its writes.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import anyio
import structlog

from maitred.audit.answers import tokens_of
from maitred.catalog.snapshot import Change, Snapshot
from maitred.disclosure.budget import estimate, for_model
from maitred.disclosure.tiers import standings
from maitred.errors import StoreError
from maitred.gateway.authorization import ScopedCatalog
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import WINDOW_DAYS, Level, Spending, ToolStanding, Usage
from maitred.storage.leader import Fence
from maitred.usage.recorder import UsageRecorder

log = structlog.get_logger(__name__)

_AGE: Final = timedelta(days=1)
_QUIET_S: Final = 600.0
_LATEST_S: Final = 3_600.0
_CHECK_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Stats:
    """The usage in a window of days: tools and servers by calls, tokens by day and principal."""

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


@dataclass(frozen=True, kw_only=True)
class SpendingStats:
    """The tokens in a window of days by day and principal, beside the calls of tools, by name.

    `raw_tokens` is the price of one raw list now.
    """

    raw_tokens: int
    calls: Mapping[str, int]
    spending: Sequence[Spending]


class UsageStatistics:
    """Reads usage and computes tiers for a gateway."""

    def __init__(self, context: GatewayState, usage: UsageRecorder) -> None:
        self._context = context
        self._usage = usage
        self._names: tuple[Snapshot | None, dict[ToolKey, str]] = (None, {})

    async def stats(self, days: int, *, raw_tokens: int) -> Stats:
        """The usage in the last `days` days.

        Raises:
            StoreError: The figures cannot be read.
        """
        snapshot = self._context.snapshot
        used = await self._usage.usage(days)
        by_key = {key: usage for key, usage in used.items() if usage.calls}
        of_server = {name: u for name, u in (await self._usage.by_server(days)).items() if u.calls}
        nothing = ToolStanding()
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

    async def spending(self, days: int, *, raw_tokens: int) -> SpendingStats:
        """The tokens and the calls in the last `days` days; much less work than `stats`.

        Raises:
            StoreError: The figures cannot be read.
        """
        snapshot, calls = self._context.snapshot, await self._usage.calls(days)
        return SpendingStats(
            raw_tokens=raw_tokens,
            calls={self._name(snapshot, key): number for key, number in calls.items() if number},
            spending=await self._usage.spending(days),
        )

    def _name(self, snapshot: Snapshot, key: ToolKey) -> str:
        """The name of a tool, kept for as long as the catalog is the same: pages ask for thousands."""
        if self._names[0] is not snapshot:
            self._names = (snapshot, {})
        names = self._names[1]
        if (name := names.get(key)) is None:
            name = names[key] = _name(snapshot, key)
        return name

    async def by_server(self, days: int, names: Collection[str], server: str = "") -> Mapping[str, Usage]:
        """Figures of some servers, or of one, in the last `days` days: those with calls, the most used first.

        Raises:
            StoreError: The figures cannot be read.
        """
        found = {
            n: u for n, u in (await self._usage.by_server(days, server)).items() if u.calls and n in names
        }
        return dict(_by_calls(found))

    async def of_tools(self, keys: Collection[ToolKey]) -> Mapping[ToolKey, Usage]:
        """The use of some tools in the window of the tiers, up to now; only of those that were called.

        If it cannot be read, it is that of the last computation of the tiers.
        """
        try:
            return await self._usage.of_tools(keys, WINDOW_DAYS)
        except StoreError as error:
            log.warning("the use of tools cannot be read", reason=error.reason)
        known = self._context.snapshot.standings
        return {key: known[key].usage for key in keys if key in known}

    # --- tiers --------------------------------------------------------------------------------------------

    async def update_tiers(self, *, fence: Fence | None = None) -> Mapping[ToolKey, ToolStanding]:
        """Compute the standing of every tool from its use in the last 30 days, and serve by it.

        Raises:
            StoreError: Usage cannot be read, or standings cannot be written.
        """
        score = self._context.settings.disclosure.score
        found = standings(await self._usage.usage(WINDOW_DAYS), score)

        async def planned(snapshot: Snapshot) -> Change:
            known = {key: standing for key, standing in found.items() if key in snapshot.by_key}
            now = datetime.now(UTC).isoformat(timespec="seconds")
            changed = known != snapshot.standings
            return Change(standings=known if changed else None, tiers_at=now, visible=changed)

        await self._context.catalog.change(planned, fence=fence)
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
        """Compute the tiers if they are old and there are calls to compute them from."""
        try:
            if self.due and (self._context.snapshot.standings or await self._usage.usage(WINDOW_DAYS)):
                async with self._context.jobs.run("tiers") as fence:
                    if fence is not None:  # else another process computes them now
                        await self.update_tiers(fence=fence)
                        await self._usage.prune(fence=fence)
        except StoreError as error:
            log.warning("the tiers cannot be computed", reason=error.reason)

    async def keep_up(self) -> None:
        """Compute the tiers daily, after ten minutes without a request; never returns.

        A gateway that has none for an hour computes them all the same.
        """
        due_since = None
        while True:
            await anyio.sleep(_CHECK_S)
            now = time.monotonic()
            due_since = (due_since or now) if self.due else None
            if due_since is not None and (
                now - self._usage.active_at > _QUIET_S or now - due_since >= _LATEST_S
            ):
                await self.update_if_due()


def _by_calls(used: Mapping[Any, Usage]) -> list[tuple[Any, Usage]]:
    return sorted(used.items(), key=lambda item: (-item[1].calls, item[0]))


def _name(snapshot: Snapshot, key: ToolKey) -> str:
    tool = snapshot.by_key.get(key)
    return tool.name if tool else f"{key.server}/{key.name} (gone)"


def _figures(usage: Usage) -> dict[str, Any]:
    rounded = replace(usage, mean_ms=round(usage.mean_ms, 1), p95_ms=round(usage.p95_ms, 1))
    return asdict(rounded) | {"success_rate": round(usage.success_rate, 4)}


def usage_hint(snapshot: Snapshot, tools: Iterable[Tool]) -> dict[str, Any]:
    """The calls of some tools in the window of the tiers, the share that succeeded, and when the last was.

    Times are in ISO 8601. Empty if none was called. The figures are as old as the tiers.
    """
    used = [standing.usage for tool in tools if (standing := snapshot.standings.get(tool.key))]
    calls = sum(usage.calls for usage in used)
    if not calls:
        return {}
    errors = sum(usage.errors for usage in used)
    last = max(usage.last_used for usage in used)
    return {"calls": calls, "success_rate": round((calls - errors) / calls, 4), "last_used": last}


LEDGER_KEY: Final = "maitred/tokens"
"""The key of the ledger in `_meta` of an answer."""


class SpendingLedger:
    """Records the tokens that each principal gets. `portion` returns the part of the catalog of a viewer.

    What the raw list would have cost is counted in that part: the rest of the catalog does not exist there.
    """

    def __init__(self, portion: Callable[[Viewer], ScopedCatalog], usage: UsageRecorder) -> None:
        self._portion = portion
        self._usage = usage

    def raw_tokens(self, viewer: Viewer) -> int:
        """The tokens of a list with all tools that a list of this viewer may have."""
        there = self._portion(viewer)
        return there.menu.kept("raw", lambda: sum(tool.cost_tokens for tool in there.context.listable()))

    def listed(self, viewer: Viewer, definitions: Sequence[Mapping[str, Any]]) -> None:
        """Record that a client listed the menu."""
        tokens = self._portion(viewer).menu.kept("list", lambda: _size(definitions))
        raw = self.raw_tokens(viewer)
        self._usage.spent(viewer.principal, lists=1, list_tokens=tokens, raw_tokens=raw)

    def listed_raw(self, viewer: Viewer, tokens: int) -> None:
        """Record a listed page of raw definitions."""
        self._usage.spent(viewer.principal, lists=1, list_tokens=tokens, raw_tokens=tokens)

    def listed_categories(
        self, viewer: Viewer, own: Sequence[Mapping[str, Any]], tools: Sequence[Tool]
    ) -> None:
        """Record a page of a list of categories: definitions of `own` on the first page, and tools."""
        tokens = sum(tool.cost_tokens for tool in tools) + (_size(own) if own else 0)
        raw = self.raw_tokens(viewer) if own else 0
        self._usage.spent(viewer.principal, lists=1, list_tokens=tokens, raw_tokens=raw)

    def answered(self, viewer: Viewer, text: str) -> dict[str, Any]:
        """Record an answer of a meta-tool itself; returns the entry for its `_meta`."""
        tokens = estimate(text)
        self._usage.spent(viewer.principal, answers=1, answer_tokens=tokens)
        return self._entry(viewer, tokens)

    def relayed(self, viewer: Viewer, result: Mapping[str, Any]) -> dict[str, Any]:
        """Record a relayed answer of a tool, counted by its length alone, since it may be long."""
        tokens = tokens_of(result)
        self._usage.spent(viewer.principal, results=1, result_tokens=tokens)
        return self._entry(viewer, tokens)

    def _entry(self, viewer: Viewer, tokens: int) -> dict[str, Any]:
        today = self._usage.today(viewer.principal)
        return {
            "answer": tokens,
            "spent_today": today.spent,
            "raw_list": self.raw_tokens(viewer),
            "raw_today": today.raw_tokens,
            "break_even": today.break_even,
        }


def _size(definitions: Sequence[Mapping[str, Any]]) -> int:
    return estimate(for_model(definitions))
