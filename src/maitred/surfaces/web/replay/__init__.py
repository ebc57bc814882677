"""Replay: one work session of the audit trail on a time line, also as one file to pass on.

The trail has what was asked of servers and how it ended. Arguments are there as the settings keep them: as a
hash, or with their secrets masked. The file is masked again as a whole, and loads nothing.
To add a column, change `pieces.html`, which the page and the file share.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from markupsafe import Markup

from maitred.audit.masking import mask_value
from maitred.audit.service import moment_of
from maitred.errors import PathNotFoundError
from maitred.surfaces.web.activity import FINE_OUTCOMES, PAUSE, WorkSession, work_sessions
from maitred.surfaces.web.screen import ScreenPage, Visit, WebScreen, url_of
from maitred.surfaces.web.templates import render

_PAGE: Final = 500
_LISTED: Final = 40
_MOST_OFTEN: Final = timedelta(days=1)
"""How long a work session is at most, but for a few."""
_NARROWEST: Final = 0.4
"""The least width of a bar, in percent of the session."""


@dataclass(frozen=True, kw_only=True)
class TimedAct:
    """One act: `after_ms` counts from the beginning of the session; `left` and `width` are percents of it."""

    line: Mapping[str, Any]
    after_ms: float
    ms: float
    left: float = 0.0
    width: float = 100.0

    @property
    def is_fine(self) -> bool:
        """Whether it did what it should, or still may."""
        return (self.line.get("outcome") or "ok") in FINE_OUTCOMES

    @property
    def chain(self) -> str:
        """The id of its chain, if it is part of one."""
        return str(self.line.get("chain_id") or "")

    @property
    def arguments(self) -> Any:
        """The arguments with their secrets masked, or their hash; `None` if the trail has neither."""
        return self.line.get("arguments", self.line.get("arguments_hash"))


def acts_of(session: WorkSession) -> Sequence[TimedAct]:
    """The acts of a session, the oldest first; the beginning and the end of a change are one act."""
    lines = list(reversed(session.lines))
    ended = {line.get("begun") for line in lines if line.get("begun")}
    whole = [line for line in lines if not (line.get("outcome") == "begun" and line.get("seq") in ended)]
    spans = [(_end_ms(line) - _ms(line), _ms(line)) for line in whole]
    first = min((start for start, _ in spans), default=0.0)
    length = max((start + ms for start, ms in spans), default=first) - first or 1.0
    acts = [
        TimedAct(
            line=line,
            after_ms=start - first,
            ms=ms,
            left=100 * (start - first) / length,
            width=max(100 * ms / length, _NARROWEST),
        )
        for line, (start, ms) in zip(whole, spans, strict=True)
    ]
    return sorted(acts, key=lambda act: act.after_ms)


def _ms(line: Mapping[str, Any]) -> float:
    return float(line.get("ms") or 0)


def _end_ms(line: Mapping[str, Any]) -> float:
    return _moment(line).timestamp() * 1e3


def _moment(line: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(line["at"]))


async def view(visit: Visit) -> Mapping[str, Any]:
    """One page of work sessions, or the one of the address."""
    number = visit.query.number("of")
    values: dict[str, Any] = {"work": None, "is_on": visit.gateway.settings.audit.enabled}
    if not number:
        before = visit.query.number("before")
        found = await visit.gateway.audit_lines(visit.viewer, before=before, limit=_PAGE)
        sessions = work_sessions(found.lines)
        shown = sessions[:_LISTED]
        rest = sessions[_LISTED].lines[0]["seq"] + 1 if len(sessions) > _LISTED else found.before
        return values | {
            "sessions": [_listed(one) for one in shown],
            "newer": url_of("replay") if before else "",
            "older": url_of("replay", before=rest) if rest else "",
        }
    session = await _session(visit, number)
    acts = acts_of(session)
    return values | {
        "page_title": f"{session.who} · Replay",
        "work": session,
        "acts": acts,
        "failed": sum(not act.is_fine for act in acts),
        "length_ms": max(act.after_ms + act.ms for act in acts),
        "file": _file(session),
        "keeps": visit.gateway.settings.audit.arguments,
    }


def _listed(session: WorkSession) -> Mapping[str, Any]:
    acts = acts_of(session)
    return {
        "of": session.lines[0]["seq"],
        "work": session,
        "acts": len(acts),
        "failed": sum(not act.is_fine for act in acts),
        "chains": len({act.chain for act in acts if act.chain}),
        "ms": sum(act.ms for act in acts if not act.chain or act.line.get("action") == "chain"),
    }


async def _session(visit: Visit, number: int) -> WorkSession:
    """The work session that ends with a line of the trail.

    Raises:
        PathNotFoundError: There is no such line.
    """
    gateway, viewer = visit.gateway, visit.viewer
    newest = (await gateway.audit_lines(viewer, before=number + 1, limit=1)).lines
    if not newest or newest[0]["seq"] != number:
        raise PathNotFoundError(f"replay?of={number}")
    who, since = str(newest[0].get("who", "")), _moment(newest[0]) - _MOST_OFTEN
    for at in (moment_of(since), ""):  # few sessions are longer, and to look at all lines takes a while
        found = await gateway.audit_lines(viewer, since=at, who=who, before=number + 1, limit=_PAGE)
        session = next(one for one in work_sessions(found.lines) if one.lines[0]["seq"] == number)
        if _moment(session.lines[-1]) > since + PAUSE:
            break
    return session


def _file(session: WorkSession) -> Markup:
    """The session as an address that holds a whole HTML file, masked."""
    masked = WorkSession(who=session.who, client=session.client, surface=session.surface)
    masked.lines = [mask_value(dict(line)) for line in session.lines]
    page = render("replay/file.html", work=masked, acts=acts_of(masked))
    body = base64.b64encode(page.encode("utf-8", "replace")).decode()
    return Markup(f"data:text/html;base64,{body}")  # noqa: S704  # base64 needs no escape, and no bound


SCREEN: Final = WebScreen(
    title="Replay",
    role="admin",
    summary="one work session on a time line",
    pages=[ScreenPage(path="replay", template="replay/replay.html", view=view)],
)
