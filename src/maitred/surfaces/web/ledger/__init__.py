"""Ledger: what raw lists would have cost by day, what finding and answers cost, and what was ever opened.

Finding costs lists of the menu and answers of the meta-tools. Answers of tools cost the same without a
gateway. The break-even is where finding has cost as much as the raw lists.
To add a figure, record it in `maitred.usage`, and show it with its table in `ledger.html`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from markupsafe import Markup

from maitred.model.tools import Tool
from maitred.model.usage import Spending
from maitred.surfaces.web.charts import Cell, Series, icicle, running_sums
from maitred.surfaces.web.screen import ScreenPage, Visit, WebScreen
from maitred.wording import count_of

_SPANS: Final = (7, 30, 90)
_EVER_DAYS: Final = 90
"""For how many days the gateway keeps the calls of tools."""
_NO_CATEGORY: Final = "no category"
_MOST_SERVERS: Final = 60
_NARROWEST: Final = 1_000
"""A tool with less than this part of all tokens is too narrow to draw."""


@dataclass(frozen=True, kw_only=True)
class SpendingDay:
    """The tokens of one day (UTC), of all principals."""

    day: str
    raw: int = 0
    lists: int = 0
    menu: int = 0
    answers: int = 0

    @property
    def finding(self) -> int:
        """What finding tools cost."""
        return self.lists + self.menu


@dataclass(frozen=True, kw_only=True)
class CatalogPart:
    """A category or a server of the catalog: its tools, their tokens, and those that were ever opened."""

    name: str
    tools: int
    tokens: int
    opened: int
    opened_tokens: int


@dataclass(frozen=True, kw_only=True)
class CatalogView:
    """The catalog with how many of its tools were opened: a picture, and its parts in groups."""

    opened: int
    picture: Markup
    groups: Sequence[tuple[str, str, Sequence[CatalogPart]]]


async def view(visit: Visit) -> Mapping[str, Any]:
    """The figures of the last days, and the catalog."""
    gateway, viewer = visit.gateway, visit.viewer
    days = visit.query.number("days", 30)
    days = days if days in _SPANS else 30
    stats = await gateway.spending_stats(_EVER_DAYS, viewer)
    tools, opened = gateway.whole_catalog(viewer).tools, frozenset(stats.calls)
    by_day = _days(stats.spending, days)
    spending = [row for row in stats.spending if row.day >= by_day[0].day]
    raw, finding = running_sums(one.raw for one in by_day), running_sums(one.finding for one in by_day)
    return {
        "days": days,
        "spans": _SPANS,
        "rows": [one for one in reversed(by_day) if one.raw or one.finding or one.answers],
        "labels": [one.day[5:] for one in by_day],
        "bars": [
            Series(name="raw lists would have cost", values=[one.raw for one in by_day], tone=0),
            Series(name="finding cost", values=[one.finding for one in by_day], tone=1),
            Series(name="answers cost", values=[one.answers for one in by_day], tone=2),
        ],
        "sums": [
            Series(name="raw lists would have cost", values=raw, tone=2),
            Series(name="finding cost", values=finding, tone=1),
        ],
        "total": _total(by_day),
        "loss": _crossing(by_day, raw, finding),
        "raw_list": stats.raw_tokens,
        "principals": _principals(spending),
        "shares": await gateway.usage_shares(days, "principal", viewer),
        "currency": gateway.settings.usage.currency,
        "family": gateway.settings.disclosure.model_family,
        "catalog": visit.memory.keep("ledger", (tools, opened), lambda: _catalog_view(tools, opened)),
        "tools": len(tools),
    }


def _catalog_view(tools: Sequence[Tool], opened: frozenset[str]) -> CatalogView:
    """It looks at all tools several times, so pages keep it until a tool changes or is first opened."""
    number = sum(tool.name in opened for tool in tools)
    return CatalogView(
        opened=number,
        picture=icicle(
            catalog(tools, opened),
            title="Tokens of the catalog by category, server and tool",
            desc=f"Called in 90 days: {number:,} of {count_of(len(tools), 'tool')}.",
        ),
        groups=[
            (
                "category",
                "Category",
                _parts(tools, opened, lambda tool: tool.placement.category or _NO_CATEGORY),
            ),
            ("server", "Server", _parts(tools, opened, lambda tool: tool.server)[:_MOST_SERVERS]),
        ],
    )


def _days(rows: Iterable[Spending], count: int) -> Sequence[SpendingDay]:
    """Each day of the window, the oldest first."""
    today = datetime.now(UTC).date()
    names = [(today - timedelta(days=back)).isoformat() for back in reversed(range(count))]
    of_day: dict[str, list[Spending]] = defaultdict(list)
    for row in rows:
        of_day[row.day].append(row)
    return [
        SpendingDay(
            day=name,
            raw=sum(row.raw_tokens for row in of_day[name]),
            lists=sum(row.list_tokens for row in of_day[name]),
            menu=sum(row.answer_tokens for row in of_day[name]),
            answers=sum(row.result_tokens for row in of_day[name]),
        )
        for name in names
    ]


def _total(days: Sequence[SpendingDay]) -> SpendingDay:
    return SpendingDay(
        day="all",
        raw=sum(one.raw for one in days),
        lists=sum(one.lists for one in days),
        menu=sum(one.menu for one in days),
        answers=sum(one.answers for one in days),
    )


def _crossing(days: Sequence[SpendingDay], raw: Sequence[int], finding: Sequence[int]) -> str:
    """The first day from whose end on finding has cost as much as raw lists; empty if it has not now."""
    since = ""
    for day, most, spent in zip(days, raw, finding, strict=True):
        is_loss = most > 0 and spent >= most
        since = (since or day.day) if is_loss else ""
    return since


def _principals(rows: Iterable[Spending]) -> Sequence[tuple[str, int, int, int]]:
    """By principal: raw lists, finding, answers; those with the highest price of finding first."""
    found: dict[str, tuple[int, int, int]] = {}
    for row in rows:
        raw, finding, answers = found.get(row.principal, (0, 0, 0))
        found[row.principal] = raw + row.raw_tokens, finding + row.spent, answers + row.result_tokens
    return [(name, *figures) for name, figures in sorted(found.items(), key=lambda item: -item[1][1])]


def _parts(
    tools: Sequence[Tool], opened: frozenset[str], name_of: Callable[[Tool], str]
) -> Sequence[CatalogPart]:
    """The tools in groups, the most expensive group first."""
    groups: dict[str, list[Tool]] = defaultdict(list)
    for tool in tools:
        groups[name_of(tool)].append(tool)
    parts = [
        CatalogPart(
            name=name,
            tools=len(group),
            tokens=sum(tool.cost_tokens for tool in group),
            opened=sum(tool.name in opened for tool in group),
            opened_tokens=sum(tool.cost_tokens for tool in group if tool.name in opened),
        )
        for name, group in groups.items()
    ]
    return sorted(parts, key=lambda part: (-part.tokens, part.name))


def catalog(tools: Sequence[Tool], opened: frozenset[str]) -> Cell:
    """The catalog as an icicle: categories, their servers, their tools; in colour what was ever called."""
    groups: dict[str, dict[str, list[Tool]]] = defaultdict(lambda: defaultdict(list))
    for tool in tools:
        groups[tool.placement.category or _NO_CATEGORY][tool.server].append(tool)
    least = sum(tool.cost_tokens for tool in tools) / _NARROWEST
    return Cell(
        name="all tools",
        tone=int(any(tool.name in opened for tool in tools)),
        parts=[
            Cell(
                name=category,
                tone=int(any(tool.name in opened for own in servers.values() for tool in own)),
                parts=[_server_cell(name, own, opened, least) for name, own in servers.items()],
            )
            for category, servers in groups.items()
        ],
    )


def _server_cell(name: str, tools: Sequence[Tool], opened: frozenset[str], least: float) -> Cell:
    """A server in a category; tools too narrow to draw are one cell, those that were called another."""
    wide = [tool for tool in tools if tool.cost_tokens >= least]
    narrow = [tool for tool in tools if tool.cost_tokens < least]
    cells = [
        Cell(name=tool.name, weight=tool.cost_tokens, tone=int(tool.name in opened))
        for tool in sorted(wide, key=lambda tool: (tool.name not in opened, -tool.cost_tokens))
    ]
    for is_opened in (True, False):
        rest = [tool for tool in narrow if (tool.name in opened) is is_opened]
        if rest:
            weight = sum(tool.cost_tokens for tool in rest)
            cells.append(Cell(name=count_of(len(rest), "small tool"), weight=weight, tone=int(is_opened)))
    return Cell(name=name, tone=int(any(tool.name in opened for tool in tools)), parts=cells)


SCREEN: Final = WebScreen(
    title="Ledger",
    role="operator",
    summary="what finding tools costs, against raw lists",
    pages=[ScreenPage(path="ledger", template="ledger/ledger.html", view=view)],
)
