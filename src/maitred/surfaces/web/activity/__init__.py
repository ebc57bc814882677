"""Activity: what principals did through the gateway, as work sessions, from the audit trail.

A work session is a run of acts of one principal by one client in one project and by one surface, without a
pause of half an hour. There are no empty ones. A page is made of one page of the trail, so an old session may
be cut there.
To add a filter, pass it to `Gateway.audit_lines`, and add it to the form of `activity.html`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from maitred.audit.line_index import NOTHING_FOUND, SUCCESSES
from maitred.audit.service import moment_ago
from maitred.surfaces.web.activity.asked_texts import asked_text, keeps_question, reasons_of
from maitred.surfaces.web.activity.held_traces import held_traces
from maitred.surfaces.web.audit_words import outcome_text
from maitred.surfaces.web.screen import ScreenPage, Visit, WebScreen, url_of

_PAGE: Final = 200
_WITHOUT: Final = dict.fromkeys(
    (
        "chain_id", "server", "tool", "published", "outcome", "ms", "waited_ms", "tokens", "shown", "more",
        "detail", "cached", "action", "via", "answer", "held",
    ),
    "",
)  # fmt: skip
"""The fields that a line leaves out where they are empty."""
PAUSE: Final = timedelta(minutes=30)
"""After a longer pause, a principal begins another work session."""
_SPANS: Final = (("", "any time"), ("1h", "last hour"), ("24h", "last day"), ("7d", "last week"))
_COMMON: Final = (
    *("ok", "held", NOTHING_FOUND, "tool_error", "arguments_invalid", "not_allowed", "call_not_approved"),
    *("tool_withheld", "server_unavailable", "call_timeout", "cancelled"),
)
_OUTCOMES: Final = (
    ("", "any outcome"),
    ("failed", "failed"),
    *((code, outcome_text(code)) for code in _COMMON),
)
_FIELDS: Final = ("tool", "who", "client", "project", "chain", "held", "outcome", "span")
_AROUND: Final = 100
"""How many lines of the trail a page has at most that are newer than the one that a link leads to."""


@dataclass(kw_only=True)
class WorkSession:
    """One work session, with its acts from the newest to the oldest.

    `version` is the last one that the client said it has, `project` the folder it works in; both may be
    empty.
    """

    who: str
    client: str
    surface: str
    project: str = ""
    version: str = ""
    lines: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def first(self) -> str:
        """When its first act was."""
        return str(self.lines[-1]["at"])

    @property
    def last(self) -> str:
        """When its last act was."""
        return str(self.lines[0]["at"])

    @property
    def failed(self) -> int:
        """How many of its acts failed."""
        return sum(line.get("outcome") not in SUCCESSES for line in self.lines)

    @property
    def work_ms(self) -> float:
        """How long its acts took together, without the time in which a person decided."""
        return sum(own_ms(line) for line in self.lines if not is_within_chain(line))

    @property
    def elapsed_ms(self) -> float:
        """How long it was from the beginning of its first act to the end of its last one."""
        ends = [(_moment(line["at"]).timestamp() * 1e3, float(line.get("ms") or 0)) for line in self.lines]
        return max(end for end, _ in ends) - min(end - ms for end, ms in ends)

    @property
    def tokens(self) -> int:
        """What the agent read, as far as its lines have that."""
        return sum(int(line.get("tokens") or 0) for line in self.lines)


def is_within_chain(line: Mapping[str, Any]) -> bool:
    """Whether an act is part of a chain, which has a line of its own."""
    return bool(line.get("chain_id")) and line.get("action") != "chain"


def own_ms(line: Mapping[str, Any]) -> float:
    """How long an act took, without the time in which a person decided."""
    return max(float(line.get("ms") or 0) - float(line.get("waited_ms") or 0), 0.0)


def work_sessions(lines: Iterable[Mapping[str, Any]]) -> Sequence[WorkSession]:
    """Lines from the newest to the oldest as work sessions, the one with the newest act first."""
    found: list[WorkSession] = []
    open_ones: dict[tuple[str, str, str, str], WorkSession] = {}
    for line in lines:
        who, client, surface, project = key = key_of(line)
        session = open_ones.get(key)
        if session is None or _moment(session.first) - _moment(line["at"]) > PAUSE:
            session = open_ones[key] = WorkSession(who=who, client=client, surface=surface, project=project)
            found.append(session)
        session.version = session.version or str(line.get("version", ""))
        session.lines.append({**_WITHOUT, **line})
    return found


def activity_at(seq: int) -> str:
    """The address of a line of the trail on the page of activity, with what was about that time."""
    return f"{url_of('activity', before=seq + _AROUND)}#act-{seq}"


def key_of(line: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """What all lines of a work session have in common."""
    who, client, surface, project = (
        str(line.get(name, "")) for name in ("who", "client", "surface", "project")
    )
    return who, client, surface, project


def _moment(text: Any) -> datetime:
    return datetime.fromisoformat(str(text))


async def view(visit: Visit) -> Mapping[str, Any]:
    """One page of the audit trail as work sessions."""
    query = visit.query
    fields = {name: query.text(name)[:200] for name in _FIELDS}
    found = await visit.gateway.audit_lines(
        visit.viewer,
        since=moment_ago(fields["span"]),
        who=fields["who"],
        client=fields["client"],
        project=fields["project"],
        chain=fields["chain"],
        held=fields["held"],
        tool=fields["tool"],
        outcome=fields["outcome"],
        before=query.number("before"),
        limit=_PAGE,
    )
    on_page = {line["seq"] for line in found.lines}
    return {
        **fields,
        "sessions": work_sessions(found.lines),
        "traces": await held_traces(visit, found.lines),
        "reasons": await reasons_of(visit, found.lines),
        "lacks_questions": not all(keeps_question(line) for line in found.lines),
        "own_ms": own_ms,
        "asked": asked_text,
        "there": lambda seq: f"#act-{seq}" if seq in on_page else activity_at(seq),
        "spans": _SPANS,
        "outcomes": _OUTCOMES,
        "is_filtered": any(fields.values()),
        "is_on": visit.gateway.settings.audit.enabled,
        "answers": visit.gateway.settings.audit.answers,
        "newer": url_of("activity", **fields) if query.number("before") else "",
        "older": url_of("activity", **fields, before=found.before) if found.before else "",
    }


SCREEN: Final = WebScreen(
    title="Activity",
    role="admin",
    summary="who did what through the gateway",
    pages=[ScreenPage(path="activity", template="activity/activity.html", view=view)],
)
