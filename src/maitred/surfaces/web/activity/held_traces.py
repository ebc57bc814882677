"""What belongs to a held call in the audit trail: the call, and the decision of a person in another session.

Lines of older gateways do not name their held call, so they have no trace.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from maitred.surfaces.web.audit_words import Tone
from maitred.surfaces.web.screen import Visit

Line = Mapping[str, Any]
DECISIONS: Final[Mapping[str, str]] = {
    "call.approve": "approved by",
    "call.refuse": "refused by",
    "call.expire": "ended undecided by",
}
"""The acts that end the waiting of a held call, in words before who did it."""
_MOST_LOOKED_UP: Final = 12
"""For how many held calls a page looks at further lines of the trail; others lead to all lines of theirs."""
_MOST_LINES: Final = 20


@dataclass(frozen=True, kw_only=True)
class HeldTrace:
    """The lines of one held call; `call` is that of the call itself, or of its holding while it waits."""

    id: str
    call: Line | None = None
    decision: Line | None = None

    def other(self, line: Line) -> Line | None:
        """The line at the other end of one of them: of a decision the call, else the decision."""
        return self.call if line.get("action") in DECISIONS else self.decision

    def tone(self, tone: Tone) -> Tone:
        """The tone of one of them: what was decided does not wait any more."""
        return "quiet" if tone == "warn" and self.decision else tone

    @property
    def words(self) -> str:
        """What became of it, before who decided; empty while it waits."""
        return DECISIONS[str(self.decision["action"])] if self.decision else ""


async def held_traces(visit: Visit, lines: Sequence[Line]) -> Mapping[str, HeldTrace]:
    """The traces of the held calls of some lines, by id; the lines that are not among them are looked up."""
    found = {held: _trace(held, lines) for held in dict.fromkeys(_held_ids(lines))}
    partial = [one.id for one in found.values() if one.decision is None or one.call is None]
    for held in partial[:_MOST_LOOKED_UP]:
        every = await visit.gateway.audit_lines(visit.viewer, held=held, limit=_MOST_LINES)
        found[held] = _trace(held, every.lines)
    return found


def _held_ids(lines: Iterable[Line]) -> Iterable[str]:
    return (str(line["held"]) for line in lines if line.get("held"))


def _trace(held: str, lines: Iterable[Line]) -> HeldTrace:
    """The trace among lines from the newest to the oldest; a refused attempt to decide is no decision."""
    own = [line for line in lines if line.get("held") == held]
    ends = [one for one in own if one.get("action") in DECISIONS]
    decided = [one for one in ends if one.get("outcome", "ok") in ("ok", "expired")]
    calls = [one for one in own if one.get("action") not in (*DECISIONS, "call.hold")]
    holds = [one for one in own if one.get("action") == "call.hold"]
    return HeldTrace(id=held, call=next(iter([*calls, *holds]), None), decision=next(iter(decided), None))
