"""Replay: one work session of the audit trail on a time line, also as one file to pass on.

The trail has what was asked of the menu and of servers, and how it ended. Arguments and texts of answers are
there as the settings keep them: as a hash or not at all, or with their secrets masked. A text that is not
kept is not made again, since the catalog has changed. The file is masked again as a whole, and loads nothing.
To add a column, change `pieces.html`, which the page and the file share.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from anyio import to_thread
from markupsafe import Markup

from maitred.audit.answers import KeptText
from maitred.audit.line_index import SUCCESSES
from maitred.audit.masking import mask_text, mask_value
from maitred.surfaces.web.activity import WorkSession, activity_at, own_ms, work_sessions
from maitred.surfaces.web.activity.asked_texts import asked_text, reasons_of
from maitred.surfaces.web.activity.held_traces import held_traces
from maitred.surfaces.web.replay.whole_session import MOST_LINES, session_of
from maitred.surfaces.web.screen import ScreenPage, Visit, WebScreen, url_of
from maitred.surfaces.web.templates import render

_LISTED: Final = 40
_NARROWEST: Final = 0.4
"""The least width of a bar, in percent of the session."""
_MOST_TEXT: Final = 400_000
"""How many characters of answers a page has, and its file again."""
Texts = Mapping[str, KeptText]


@dataclass(frozen=True, kw_only=True)
class TimedAct:
    """One act: `after_ms` counts from the beginning of the session; `left` and `width` are percents of it.

    `text` is what the agent read; `None` if that is not kept. `reason` says why it failed, as far as the
    text does.
    """

    line: Mapping[str, Any]
    after_ms: float
    ms: float
    left: float = 0.0
    width: float = 100.0
    text: KeptText | None = None
    reason: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether it did what it should, or still may."""
        return (self.line.get("outcome") or "ok") in SUCCESSES

    @property
    def waited_ms(self) -> float:
        """How long a person took to decide on it."""
        return float(self.line.get("waited_ms") or 0)

    @property
    def took_ms(self) -> float:
        """How long it took without that."""
        return own_ms(self.line)

    @property
    def tokens(self) -> int:
        """What the agent read of its answer; 0 if that is not known."""
        return int(self.line.get("tokens") or 0)

    @property
    def chain(self) -> str:
        """The id of its chain, if it is part of one."""
        return str(self.line.get("chain_id") or "")

    @property
    def arguments(self) -> Any:
        """The arguments with their secrets masked, or their hash; `None` if the trail has neither."""
        return self.line.get("arguments", self.line.get("arguments_hash"))


def acts_of(
    session: WorkSession, texts: Texts | None = None, reasons: Mapping[str, str] | None = None
) -> Sequence[TimedAct]:
    """The acts of a session, the oldest first; the beginning and the end of a change are one act.

    `texts` are the texts of answers by the field `answer` of their lines, `reasons` those of failures.
    """
    known, why = texts or {}, reasons or {}
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
            text=known.get(str(line.get("answer", ""))),
            reason=why.get(str(line.get("answer", "")), ""),
        )
        for line, (start, ms) in zip(whole, spans, strict=True)
    ]
    return sorted(acts, key=lambda act: act.after_ms)


def _ms(line: Mapping[str, Any]) -> float:
    return float(line.get("ms") or 0)


def _end_ms(line: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(str(line["at"])).timestamp() * 1e3


async def view(visit: Visit) -> Mapping[str, Any]:
    """One page of work sessions, or the one of the address."""
    number = visit.query.number("of")
    values: dict[str, Any] = {"work": None, "is_on": visit.gateway.settings.audit.enabled}
    if not number:
        before = visit.query.number("before")
        found = await visit.gateway.audit_lines(visit.viewer, before=before, limit=MOST_LINES)
        sessions = work_sessions(found.lines)
        shown = sessions[:_LISTED]
        rest = sessions[_LISTED].lines[0]["seq"] + 1 if len(sessions) > _LISTED else found.before
        return values | {
            "sessions": [_listed(one) for one in shown],
            "newer": url_of("replay") if before else "",
            "older": url_of("replay", before=rest) if rest else "",
        }
    part = await session_of(visit, number)
    session = part.work
    texts, left_out = await _texts(visit, session)
    reasons = await reasons_of(visit, session.lines)
    acts = acts_of(session, texts, reasons)
    on_page = {act.line["seq"] for act in acts}
    audit = visit.gateway.settings.audit
    return values | {
        "page_title": f"{session.who} · Replay",
        "work": session,
        "acts": acts,
        "failed": sum(not act.is_fine for act in acts),
        "file": await to_thread.run_sync(_file, session, texts, reasons),
        "traces": await held_traces(visit, session.lines),
        "asked": asked_text,
        "activity": activity_at,
        "there": lambda seq: f"#act-{seq}" if seq in on_page else f"{url_of('replay', of=seq)}#act-{seq}",
        "earlier": url_of("replay", of=part.earlier) if part.earlier else "",
        "later": url_of("replay", of=part.later) if part.later else "",
        "keeps": audit.arguments,
        "answers": audit.answers,
        "days": audit.answers_days,
        "left_out": left_out,
    }


def _listed(session: WorkSession) -> Mapping[str, Any]:
    acts = acts_of(session)
    return {
        "of": session.lines[0]["seq"],
        "work": session,
        "acts": len(acts),
        "failed": sum(not act.is_fine for act in acts),
        "chains": len({act.chain for act in acts if act.chain}),
    }


async def _texts(visit: Visit, session: WorkSession) -> tuple[Texts, int]:
    """The texts of a session that are kept, the first ones up to a bound, and how many more there are."""
    digests = [str(line["answer"]) for line in reversed(session.lines) if line.get("answer")]
    if not digests:
        return {}, 0
    found = await visit.gateway.audit_answers(digests, visit.viewer)
    shown: dict[str, KeptText] = {}
    length = 0
    for digest, text in found.items():
        length += len(text.text)
        if length > _MOST_TEXT:
            break
        shown[digest] = text
    return shown, len(found) - len(shown)


def _file(session: WorkSession, texts: Texts, reasons: Mapping[str, str]) -> Markup:
    """The session as an address that holds a whole HTML file, masked."""
    masked = replace(
        session,
        who=mask_text(session.who),
        client=mask_text(session.client),
        version=mask_text(session.version),
        project=mask_text(session.project),
        lines=[mask_value(dict(line)) for line in session.lines],
    )
    masked_texts = {digest: replace(one, text=mask_text(one.text)) for digest, one in texts.items()}
    acts = acts_of(masked, masked_texts, reasons)
    page = render("replay/file.html", work=masked, acts=acts, asked=asked_text)
    body = base64.b64encode(page.encode("utf-8", "replace")).decode()
    return Markup(f"data:text/html;base64,{body}")  # noqa: S704  # base64 needs no escape, and no bound


SCREEN: Final = WebScreen(
    title="Replay",
    role="admin",
    summary="one work session on a time line",
    pages=[ScreenPage(path="replay", template="replay/replay.html", view=view)],
)
