"""Servers: the state of each, why it is so, and what can be done about it.

`trouble` says what is wrong with a server, and what helps; what a person may do, the gateway decides.
`live_map` draws who uses which, which `recent_use` reads from the audit trail.
To add an action, add its word to `act`, and a button to `server.html`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup

from maitred.gateway import ServerStatus
from maitred.model.servers import Share
from maitred.model.transports import is_judged
from maitred.model.usage import Usage
from maitred.surfaces.web.screen import Action, Form, ScreenPage, Visit, WebScreen, url_of
from maitred.surfaces.web.servers.live_map import live_map
from maitred.surfaces.web.servers.recent_use import MOST_LINES, RecentUse, recent_use
from maitred.surfaces.web.servers.trouble import Tone, isolation_text, state_text, tone_of, trouble_of
from maitred.surfaces.web.templates import render
from maitred.wording import count_of

_DAYS: Final = 30
_LINES: Final = 60
_RECENT: Final = 100
_MOST_ROWS: Final = 2_000
_SHARED: Final[Mapping[Share, str]] = {
    "all": "all clients",
    "project": "one project",
    "client": "one client",
    "principal": "one principal",
}
"""Who shares one process of a server, or one session with it."""


@dataclass(frozen=True, kw_only=True)
class ServerRow:
    """What the table says of a server; `clients` are name, principal and calls, `None` if not known."""

    name: str
    state: str
    tone: Tone
    clients: tuple[tuple[str, str, int], ...] | None
    times: tuple[float, ...]
    remark: str
    tools: int
    tokens: int
    calls: int
    p95_ms: float
    isolation: str
    share: str

    @property
    def markup(self) -> Markup:
        """The row of the table."""
        return _markup_of(self)


@lru_cache(maxsize=_MOST_ROWS)
def _markup_of(row: ServerRow) -> Markup:
    """Most rows are the same on the next page, and to write hundreds of them takes a while."""
    return Markup(render("servers/row.html", row=row))  # noqa: S704  # the template escapes


async def view_all(visit: Visit) -> Mapping[str, Any]:
    """All servers that the viewer may watch, and who uses them."""
    servers = visit.gateway.watched_servers(visit.viewer)
    usage = await visit.gateway.usage_by_server(_DAYS, visit.viewer)
    recent = await recent_use(visit)
    return {
        "rows": [_row(one, usage.get(one.name), recent) for one in servers],
        "recent": recent,
        "most_lines": MOST_LINES,
        "map": live_map(servers, recent),
        "is_audited": visit.gateway.settings.audit.enabled,
        "running": sum(one.is_running for one in servers),
        "tokens": sum(one.cost_tokens for one in servers),
    }


def _row(status: ServerStatus, use: Usage | None, recent: RecentUse | None) -> ServerRow:
    clients = recent.of_server(status.name) if recent else ()
    return ServerRow(
        name=status.name,
        state=state_text(status),
        tone=tone_of(status),
        clients=tuple((one.client, one.principal, calls) for one, calls in clients) if recent else None,
        times=tuple(recent.latencies.get(status.name, ())) if recent else (),
        remark=status.remark,
        tools=status.tools,
        tokens=status.cost_tokens,
        calls=use.calls if use else 0,
        p95_ms=use.p95_ms if use else 0.0,
        isolation=isolation_text(status),
        share=_SHARED[status.sharing.share],
    )


async def view_one(visit: Visit) -> Mapping[str, Any]:
    """One server with all that is known of it."""
    name, viewer = visit.path["server"], visit.viewer
    status = visit.gateway.watched_server(name, viewer)
    is_decided = is_judged(status.spec.transport)
    case = await visit.gateway.case(name, viewer=viewer) if is_decided else None
    lines = visit.gateway.last_output(name, viewer)
    usage = await visit.gateway.usage_by_server(_DAYS, viewer, server=name)
    recent = await _recent(visit, name) if name in usage else ()
    return {
        "page_title": f"{name} · Servers",
        "server": status,
        "state_text": state_text(status),
        "isolation": isolation_text(status),
        "shared_by": _SHARED[status.sharing.share],
        "window_minutes": round(visit.gateway.settings.supervision.window_s / 60),
        "tone": tone_of(status),
        "case": case,
        "trouble": trouble_of(status, awaits=bool(case and case.awaits), lines=lines),
        "lines": list(lines)[-_LINES:],
        "usage": usage.get(name),
        "latencies": [float(line["ms"]) for line in reversed(recent) if line.get("ms")],
        "users": Counter(str(line.get("who", "")) for line in recent).most_common(8),
        "may_decide": visit.gateway.is_allowed(viewer, "approve", server=name),
        "may_operate": visit.gateway.is_allowed(viewer, "operate", server=name),
        "is_decided": is_decided,
        "login_owners": await visit.gateway.login_owners(name, viewer),
    }


async def _recent(visit: Visit, name: str) -> Sequence[Mapping[str, Any]]:
    """The last calls of a server, if the viewer may read the audit trail."""
    if not visit.gateway.is_allowed(visit.viewer, "audit"):
        return ()
    found = await visit.gateway.audit_lines(visit.viewer, server=name, limit=_RECENT)
    return [line for line in found.lines if line.get("action") == "call"]


async def act(visit: Visit, form: Form) -> str:
    """Refresh, suspend, resume or restart a server."""
    name, what, viewer, gateway = visit.path["server"], visit.path["what"], visit.viewer, visit.gateway
    why = form.text("why")[:500] or "from the web interface"
    if what == "refresh":
        [report] = await gateway.sync([name], viewer=viewer)
        if report.error:
            visit.notify(f"{name} could not be listed: {report.error}", "fault")
        else:
            visit.notify(
                f"{name} was listed: {count_of(report.tools, 'tool')}, {report.changed or 'none'} changed."
            )
    elif what in ("suspend", "resume"):
        await gateway.decide(name, "suspend" if what == "suspend" else "resume", viewer=viewer, why=why)
        visit.notify(f"{name} is {'suspended' if what == 'suspend' else 'resumed; its next call starts it'}.")
    elif what == "restart":
        await _restart(visit, name)
    else:
        visit.notify("There is no such action.", "fault")
    return url_of("servers", name)


async def _restart(visit: Visit, name: str) -> None:
    """Stop a server, so that its next call starts it; one that a person suspended meanwhile stays so."""
    gateway, viewer, why = visit.gateway, visit.viewer, "to start it again"
    if (await gateway.case(name, viewer=viewer)).state == "suspended":
        visit.notify(f"{name} was not started again: it is suspended. Resume it if it should run.", "fault")
        return
    await gateway.decide(name, "suspend", viewer=viewer, why=why)
    await gateway.decide(name, "resume", viewer=viewer, why=why)
    visit.notify(f"{name} was stopped; it starts again with its next call.")


SCREEN: Final = WebScreen(
    title="Servers",
    role="operator",
    summary="the state of each server, and what can be done about it",
    pages=[
        ScreenPage(path="servers", template="servers/servers.html", view=view_all),
        ScreenPage(path="servers/{server}", template="servers/server.html", view=view_one),
    ],
    actions=[Action(path="servers/{server}/{what}", act=act)],
)
