"""The whole work session of any line of the trail: what came before the line, and what came after it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from maitred.audit.service import moment_of
from maitred.errors import PathNotFoundError
from maitred.surfaces.web.activity import PAUSE, WorkSession, key_of, work_sessions
from maitred.surfaces.web.screen import Visit

Line = Mapping[str, Any]
MOST_LINES: Final = 500
"""How many lines of a session one page has."""
_MOST_AFTER: Final = 250
"""How many of them are newer than the one that was asked for."""
_STEP: Final = 500
_MOST_STEPS: Final = 8
_MOST_OFTEN: Final = timedelta(days=1)
"""How long a work session is at most, but for a few."""


@dataclass(frozen=True, kw_only=True)
class SessionPart:
    """A work session, or a part of a long one, which goes on before and after lines with these numbers."""

    work: WorkSession
    earlier: int = 0
    later: int = 0


async def session_of(visit: Visit, number: int) -> SessionPart:
    """The work session that has a line of the trail.

    Raises:
        PathNotFoundError: There is no such line.
    """
    gateway, viewer = visit.gateway, visit.viewer
    found = (await gateway.audit_lines(viewer, before=number + 1, limit=1)).lines
    if not found or found[0]["seq"] != number:
        raise PathNotFoundError(f"replay?of={number}")
    last, goes_on = await _last_of(visit, found[0])
    who, since = str(last.get("who", "")), _moment(last) - _MOST_OFTEN
    for at in (moment_of(since), ""):  # few sessions are longer, and to look at all lines takes a while
        page = await gateway.audit_lines(viewer, since=at, who=who, before=last["seq"] + 1, limit=MOST_LINES)
        sessions = work_sessions(page.lines)
        work = next(one for one in sessions if one.lines[0]["seq"] == last["seq"])
        if _moment(work.lines[-1]) > since + PAUSE:
            break
    is_cut = bool(page.before) and work.lines[-1]["seq"] == page.lines[-1]["seq"]
    return SessionPart(
        work=work, earlier=work.lines[-1]["seq"] if is_cut else 0, later=last["seq"] if goes_on else 0
    )


async def _last_of(visit: Visit, line: Line) -> tuple[Line, bool]:
    """The last line of the session of a line, or one `_MOST_AFTER` after it; and whether more may follow."""
    gateway, viewer = visit.gateway, visit.viewer
    key, last, count, at = key_of(line), line, 0, line["seq"]
    for _ in range(_MOST_STEPS):
        before = at + _STEP + 1
        newest = (await gateway.audit_lines(viewer, before=before, limit=1)).lines
        if not newest or newest[0]["seq"] <= at:
            return last, False
        page = await gateway.audit_lines(viewer, who=key[0], before=before, limit=_STEP)
        for one in reversed(page.lines):
            if one["seq"] <= at or key_of(one) != key:
                continue
            if _moment(one) - _moment(last) > PAUSE:
                return last, False
            if count == _MOST_AFTER:
                return last, True
            last, count = one, count + 1
        if _moment(newest[0]) - _moment(last) > PAUSE:
            return last, False
        at += _STEP
    return last, True


def _moment(line: Line) -> datetime:
    return datetime.fromisoformat(str(line["at"]))
