"""Clients: which have been here, and what goes into the file of each, so that it uses this gateway.

Who was here is what the audit trail and the running gateway know: a claim of each client, and no proof.
To add a client that a person may connect, add it to `clients.yaml` in `maitred.config.clients`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from maitred.audit.line_index import SUCCESSES
from maitred.config.clients.entries import program_path, start_command
from maitred.config.clients.table import KnownClient, client_named, known_clients
from maitred.gateway import ClientFileChange, ClientWay, SeenClient
from maitred.surfaces.web.outcomes import Outcomes
from maitred.surfaces.web.screen import Action, Form, McpEndpoint, ScreenPage, Visit, WebScreen, url_of

_LINES: Final = 2_000
"""How many lines of the audit trail are read."""
_MOST_ROWS: Final = 100
_PLANNED: Final = Outcomes[ClientFileChange]()


@dataclass(kw_only=True)
class ClientRow:
    """A client of one principal, with what it did."""

    client: str
    who: str
    surface: str
    last: str
    first: str
    acts: int = 0
    failed: int = 0
    eras: set[str] = field(default_factory=set)
    is_connected: bool = False
    version: str = ""

    @property
    def title(self) -> str:
        """The client that usually has this name; empty if none is known."""
        client = client_named(self.client)
        return client.title if client else ""


@dataclass(frozen=True, kw_only=True)
class ClientGuide:
    """What to paste for a client; a text is empty where there is none."""

    client: KnownClient
    stdio: str
    command: str
    http: str
    was_here: bool


def client_rows(lines: Iterable[Mapping[str, Any]], seen: Iterable[SeenClient] = ()) -> Sequence[ClientRow]:
    """The clients in lines of the audit trail, and those that the gateway saw; the last one is first."""
    rows: dict[tuple[str, str, str], ClientRow] = {}
    for line in lines:
        key = (str(line.get("client", "")), str(line.get("who", "")), str(line.get("surface", "")))
        if key[0] or key[2] == "mcp":
            row = _row(rows, key, str(line.get("at", "")))
            row.acts += 1
            row.version = row.version or str(line.get("version", ""))
            row.failed += line.get("outcome", "ok") not in SUCCESSES
    for one in seen:
        row = _row(rows, (one.client, one.principal, "mcp"), one.first)
        row.version = one.version if one.last >= row.last else row.version
        row.last = max(row.last, one.last)
        row.eras.add(one.era)
        row.is_connected |= one.is_connected
    return sorted(rows.values(), key=lambda row: row.last, reverse=True)


def _row(rows: dict[tuple[str, str, str], ClientRow], key: tuple[str, str, str], at: str) -> ClientRow:
    client, who, surface = key
    row = rows.setdefault(key, ClientRow(client=client, who=who, surface=surface, last=at, first=at))
    row.first, row.last = min(row.first, at), max(row.last, at)
    return row


async def view(visit: Visit) -> Mapping[str, Any]:
    """The clients that were here, and a guide for each client that is known."""
    found = await visit.gateway.audit_lines(visit.viewer, limit=_LINES)
    rows = client_rows(found.lines, visit.gateway.seen_clients(visit.viewer))
    settings, endpoint = visit.gateway.settings, visit.endpoint
    words = start_command(program_path(), settings.source)
    seen = {row.title for row in rows}
    guides = [_guide(one, words, endpoint, was_here=one.title in seen) for one in known_clients()]
    return {
        "rows": rows[:_MOST_ROWS],
        "lines": _LINES,
        "is_on": settings.audit.enabled,
        "guides": sorted(guides, key=lambda one: not one.was_here),
        "endpoint": endpoint,
        "source": settings.source.absolute(),
    }


def _guide(
    client: KnownClient, words: Sequence[str], endpoint: McpEndpoint | None, *, was_here: bool
) -> ClientGuide:
    entry = client.stdio(words)
    remote = client.http(endpoint.url, endpoint.needs_token) if endpoint and client.http else None
    return ClientGuide(
        client=client,
        stdio=client.text(entry),
        command=client.command(entry) if client.command else "",
        http=client.text(remote) if remote else "",
        was_here=was_here,
    )


async def view_files(visit: Visit) -> Mapping[str, Any]:
    """The files of clients on the machine of the gateway, and a change that a person looks at."""
    return {
        "page_title": "Files of clients",
        "files": await visit.gateway.client_files(visit.viewer),
        "plan": _PLANNED.find(visit.session, visit.query.text("of")),
        "of": visit.query.text("of"),
        "profiles": list(visit.gateway.settings.profiles),
        "source": visit.gateway.settings.source.absolute(),
    }


async def preview(visit: Visit, form: Form) -> str:
    """Work out what a change of a file would do; the page that follows shows it."""
    kind: ClientWay = "disconnect" if form.text("kind") == "disconnect" else "connect"
    takes_out = form.text("takes_out") == "yes"
    plan = await visit.gateway.plan_client_file(
        form.text("name"), kind, visit.viewer, takes_out=takes_out, profile=form.text("profile")
    )
    return url_of("clients", "files", of=_PLANNED.keep(visit.session, plan)) + "#change"


async def write(visit: Visit, form: Form) -> str:
    """Write the change that was shown, and no other."""
    plan = _PLANNED.find(visit.session, form.text("of"))
    if plan is None:
        visit.notify("This change is not kept any more. Show it again, then write it.", "fault")
        return url_of("clients", "files")
    path = await visit.gateway.write_client_file(plan, visit.viewer)
    done = "connected" if plan.kind == "connect" else "disconnected"
    visit.notify(f"{plan.client.title} is {done}; its file is {path}. {plan.client.then}")
    return url_of("clients", "files")


SCREEN: Final = WebScreen(
    title="Clients",
    role="admin",
    summary="which clients were here, and how to connect one",
    pages=[
        ScreenPage(path="clients", template="clients/clients.html", view=view),
        ScreenPage(path="clients/files", template="clients/files.html", view=view_files),
    ],
    actions=[Action(path="clients/preview", act=preview), Action(path="clients/write", act=write)],
)
