"""Today: what needs a person, what the gateway saves, and which servers are in trouble.

It is one page of what other screens show in full; `servers.trouble` says what is wrong with a server.
To add something that needs a person, count it in `view`, and show it with the one thing that helps.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from maitred.gateway.cases import Case
from maitred.model.usage import Spending
from maitred.surfaces.web.approvals import cases_of
from maitred.surfaces.web.approvals.held_calls import held_calls_of
from maitred.surfaces.web.charts import Series, running_sums
from maitred.surfaces.web.screen import ScreenPage, Visit, WebScreen
from maitred.surfaces.web.servers.trouble import Trouble, trouble_of

_DAYS: Final = 7


async def view(visit: Visit) -> Mapping[str, Any]:
    """What needs a person now, and what the last seven days cost."""
    gateway, viewer = visit.gateway, visit.viewer
    cases: Sequence[Case] = ()
    troubles: list[Trouble] = []
    if gateway.watches(viewer):
        cases = [case for case in await cases_of(visit) if case.awaits]
        waiting = {case.server for case in cases}
        for status in gateway.watched_servers(viewer):
            found = trouble_of(
                status, awaits=status.name in waiting, lines=gateway.last_output(status.name, viewer)
            )
            if found and found.remedy != "approve":
                troubles.append(found)
    calls = await held_calls_of(visit)
    saving = None
    if gateway.is_allowed(viewer, "watch"):
        stats = await gateway.spending_stats(_DAYS, viewer)
        calls_made = sum(stats.calls.values())
        saving = _saving(stats.spending) | {"calls": calls_made, "raw_list": stats.raw_tokens}
    return {
        "sentence": _sentence(len(cases) + len(calls), len(troubles)),
        "calls": calls,
        "cases": cases,
        "troubles": troubles,
        "saving": saving,
        "servers": len(gateway.server_names(viewer)),
        "tools": len(gateway.visible_tools(viewer)),
        "watches": gateway.watches(viewer),
        "may_decide": gateway.is_allowed(viewer, "approve"),
    }


def _sentence(waiting: int, troubled: int) -> str:
    """What needs a person, in one sentence."""
    total = waiting + troubled
    if not total:
        return "Nothing needs you."
    return f"{total} things need you." if total > 1 else "One thing needs you."


def _saving(rows: Iterable[Spending]) -> dict[str, Any]:
    """The figures of the last days, by day and as running sums: raw lists, and what finding tools cost."""
    today = datetime.now(UTC).date()
    days = [(today - timedelta(days=back)).isoformat() for back in reversed(range(_DAYS))]
    raw, spent = dict.fromkeys(days, 0), dict.fromkeys(days, 0)
    for row in rows:
        if row.day in raw:
            raw[row.day] += row.raw_tokens
            spent[row.day] += row.spent
    sums_raw, sums_spent = running_sums(raw.values()), running_sums(spent.values())
    total_raw, total_spent = sums_raw[-1], sums_spent[-1]
    return {
        "days": [day[5:] for day in days],
        "series": [
            Series(name="raw lists would have cost", values=sums_raw, tone=2),
            Series(name="finding tools cost", values=sums_spent, tone=1),
        ],
        "rows": [(day, raw[day], spent[day]) for day in reversed(days)],
        "raw": total_raw,
        "spent": total_spent,
        "saved": total_raw - total_spent,
        "share": round(100 * (total_raw - total_spent) / total_raw) if total_raw else 0,
    }


SCREEN: Final = WebScreen(
    title="Today",
    role="viewer",
    summary="what needs you, and what the gateway saves",
    pages=[ScreenPage(path="", template="today/today.html", view=view)],
)
