"""`maitred audit stream`: how far each destination of the audit trail is, and why one takes nothing."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rich.text import Text

from maitred.config.settings import Settings
from maitred.model.access import Viewer
from maitred.surfaces.cli.console import make_table, out, print_json, print_table, run, visible
from maitred.wiring import open_auditing
from maitred.wording import count_of

if TYPE_CHECKING:  # the audit trail takes a while to import, which `--help` need not wait for
    from maitred.audit.stream_store import StreamState


def show_stream(settings: Settings, viewer: Viewer, *, as_json: bool) -> None:
    """Print where each destination is."""
    rows = run(lambda: _read(settings, viewer))
    if as_json:
        print_json(rows)
        return
    if not rows:
        out.note("The audit trail is sent nowhere; `audit.stream` in the configuration names destinations.")
        return
    titles = ("destination", "kind", "to", "line", "waiting", "last sent", "state")
    print_table(make_table("", titles, [_cells(row) for row in rows]))


def describe_stream(name: str, state: "StreamState | None") -> tuple[str, bool]:
    """How a destination does, in one line, and whether that is a fault."""
    if state is None:
        return f"audit stream {name}: no gateway has served since it was configured", False
    position = state.position
    text = f"audit stream {name}: {count_of(state.waiting, 'line')} waiting"
    if position.error:
        return f"{text}; {position.error}", True
    return text, False


async def _read(settings: Settings, viewer: Viewer) -> list[Mapping[str, Any]]:
    async with open_auditing(settings) as auditing:
        states = await auditing.stream_states(viewer)
    return [
        {"destination": name, "kind": entry.kind, "to": _address(entry.url), **_figures(states.get(name))}
        for name, entry in settings.audit.stream.items()
    ]


def _figures(state: "StreamState | None") -> Mapping[str, Any]:
    if state is None:
        return {
            "line": 0,
            "waiting": None,
            "sent": 0,
            "skipped": 0,
            "sent_at": "",
            "error": "",
            "failed_at": "",
        }
    at = state.position
    return {
        "line": at.seq,
        "waiting": state.waiting,
        "sent": at.count,
        "skipped": at.skipped,
        "sent_at": at.sent_at,
        "error": at.error,
        "failed_at": at.failed_at if at.error else "",
    }


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    is_new = row["waiting"] is None
    skipped = f"{count_of(row['skipped'], 'line')} dropped before they were sent" if row["skipped"] else ""
    state = "not begun" if is_new else row["error"] or skipped or "fine"
    told = (
        row["destination"],
        row["kind"],
        row["to"],
        "" if is_new else str(row["line"]),
        "" if is_new else str(row["waiting"]),
        row["sent_at"][:19].replace("T", " "),
        state,
    )
    return tuple(visible(part) for part in told)


def _address(url: str) -> str:
    """An address without its path, which may be a secret; that of a socket is none."""
    parts = urlsplit(url)
    return url if parts.scheme == "unix" else f"{parts.scheme}://{parts.netloc}"


def stream_lines(lines: Mapping[str, tuple[str, bool]]) -> list[Text]:
    """What `doctor` prints of destinations."""
    return [
        Text.assemble(("fault", "red"), f" {text}") if fault else Text(text) for text, fault in lines.values()
    ]
