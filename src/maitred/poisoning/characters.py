"""Characters and mark-up that show a model another text than a person sees.

This module knows no phrases. It accepts what honest text needs: joiners in the scripts and emoji that have
them, flags, units with Greek letters, a byte order mark at the start. It also accepts direction marks beside
letters that run from right to left.
"""

import re
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from maitred.model.approvals import Severity
from maitred.poisoning.confusables import fold, mixes
from maitred.poisoning.ideas import ideas_in, mask

LONGEST_TEXT: Final = 40_000
"""Characters of one text. The longest text of an honest server that we have seen has 34,500."""

_TAG = re.compile("[\U000e0000-\U000e0fff]+")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{1,8}\U000e007f")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u061c\u2060-\u2065\u206a-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a]+"
)
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
_OVERRIDE = frozenset("\u202d\u202e")
_LONGEST_JOIN = 2
_SPACES = "\u200b\ufeff\u2060"  # a word processor leaves a few of these at the edge of a word
_MARKS = frozenset("\u200e\u200f\u061c")
_JOINING = frozenset("\u200c\u200d\ufe0e\ufe0f\u180b\u180c\u180d")
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")
_STYLED = re.compile("[\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\u24b6-\u24e9\U0001f130-\U0001f149]")
_MANY_STYLED = 8
_GAP = re.compile(r"(?<!\s)\s{100,}+(?=.)", re.DOTALL)
_LEAST_PADDED = 100
_LEAST_REPEATING = 2_000
_REPEATS = 20  # honest texts compress to a third, schemas and tables to a tenth
_MARKS_UP = re.compile(r"[<\[{#:]|not ")
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_MIXED = 4

_TEMPLATE = re.compile(
    r"<\|(?:im_(?:start|end|sep)|(?:start|end)_header_id|eot_id|system|user|assistant|end(?:of(?:text"
    r"|prompt))?)\|>"
    r"|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|</(?:description|tools?|function_?s?|system_?prompt)>",
    re.IGNORECASE,
)
_TURN = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*)?(system|human|user|assistant)(?: message| prompt)?(?:\*\*)?:",
    re.IGNORECASE | re.MULTILINE,
)
_ROLE = re.compile(r"[\"']role[\"']\s{0,3}:\s{0,3}[\"']system[\"']", re.IGNORECASE)
_NOTE = re.compile(r"^[ \t]*\[//\]:[^\n]*", re.MULTILINE)
_CONCEALED = re.compile(
    r"<\w+[^<>]{0,80}(?:display\s{0,2}:\s{0,2}none|visibility\s{0,2}:\s{0,2}hidden"
    r"|opacity\s{0,2}:\s{0,2}0\b|font-size\s{0,2}:\s{0,2}0"
    r"|colou?r\s{0,2}[:=]\s{0,2}[\"']?white|\bhidden\b|size=[\"']?0)[^<>]{0,80}>[^<]{0,10}\w",
    re.IGNORECASE,
)
_BEACON = re.compile(
    r"!?\[[^\]\n]{0,80}\]\(https?://[^)\s?]{1,200}\?[^)\n]{0,80}(?:<|\{|%s|\$|DATA\b|[A-Z]{4,})",
    re.IGNORECASE,
)
_ADDRESSED = re.compile(
    r"<(?:instructions?|important|note)\s[^<>]{0,40}\b(?:assistant|model|ai|llm|agent)\b[^<>]{0,40}>"
    r"|[\[{(<*#]{1,4} ?(?:system|ai|llm|model|assistant|critical|hidden)[ _-]?(?:note|instructions?"
    r"|message|prompt|only|override|directive)"
    r"|[\[{(<*#]{1,4} ?(?:ai|llm|assistant|language model|agent|note to (?:ai|assistant|model)) ?:"
    r"|[\[{(<*#]{1,4} ?[\w ]{0,30}(?:instructions?|note|message)s? (?:for|to) (?:the )?(?:ai|llm|model"
    r"|assistant|language model|agent)"
    r"|\bfor the (?:model|assistant|llm|ai)\b.{0,10}\bnot (?:for )?the user",
    re.IGNORECASE,
)
_ENCLOSED = re.compile(
    r"</(?:system|secret|hidden|assistant|admin|llm|ai|model|developer|override|internal|private)>"
    r"|\{\{[#/]\w{0,20}(?:llm|model|hidden)",
    re.IGNORECASE,
)
_NOTICE = re.compile(
    r"\b(?:SYSTEM|OVERRIDE|HIDDEN|ADMIN|ASSISTANT|MODEL|AI|LLM) (?:NOTE|NOTICE|INSTRUCTION|DIRECTIVE"
    r"|MESSAGE|OVERRIDE|COMMAND)S?\b"
    r"|\b[Ss]ystem (?:[Nn]ote|[Ii]nstruction|[Dd]irective|[Oo]verride)s? ?:"
)
_IMPORTANT = re.compile(r"<(?:important|critical|instructions?|attention|must|warning)>", re.IGNORECASE)
_INNER = 300
_ACTING: Final = mask("send read call")
_TAKEN: Final = mask("secret file context private")
_ORDERING: Final = mask("agent call send read field")


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenCharacters:
    """One suspicious feature of a text, and the part of the text that has it."""

    id: str
    severity: Severity
    reason: str
    shown: str


def signs(text: str, *, label: bool) -> Iterator[HiddenCharacters]:
    """Yield the signs of one text; `label` marks a name, which needs none of these characters."""
    if not (text.isascii() and text.isprintable()):
        yield from _characters(text, label=label)
    if label:
        return
    if len(text) > LONGEST_TEXT:
        reason = f"a text of {len(text):,} characters; people do not read that far"
        yield HiddenCharacters(id="long-text", severity="ask", reason=reason, shown=text[:80])
    if len(text) > _LEAST_PADDED and (gap := _GAP.search(text)):
        shown = text[max(gap.start() - 20, 0) : gap.start()] + " … " + text[gap.end() : gap.end() + 100]
        yield HiddenCharacters(
            id="padding", severity="ask", reason="blank space that moves text out of sight", shown=shown
        )
    if len(text) > _LEAST_REPEATING and len(zlib.compress(text.encode(errors="replace"), 1)) * _REPEATS < len(
        text
    ):
        yield HiddenCharacters(
            id="padding", severity="ask", reason="the same words again and again", shown=text[:80]
        )
    if _MARKS_UP.search(text):
        yield from _markup(text)


def _characters(text: str, *, label: bool) -> Iterator[HiddenCharacters]:
    grave: Severity = "refuse" if label else "ask"
    if control := _CONTROL.search(text):
        reason = "control characters, which can hide or rewrite text on a terminal"
        yield HiddenCharacters(id="control", severity=grave, reason=reason, shown=_around(text, control))
    if text.isascii():
        return
    if tag := _TAG.search(_FLAG.sub("", text)):
        reason = "tag characters, which a model can read and a person cannot see"
        yield HiddenCharacters(id="invisible", severity="refuse", reason=reason, shown=tag[0])
    elif run := _invisible_run(text, label=label):
        reason = "characters that take no place on a screen"
        yield HiddenCharacters(id="invisible", severity=grave, reason=reason, shown=_around(text, run))
    direction = _DIRECTION.search(text)
    if direction and (label or _OVERRIDE & set(text) or not _runs_left(text)):
        reason = "characters that change the direction of text, so that a person reads another text"
        yield HiddenCharacters(id="bidi", severity="refuse", reason=reason, shown=_around(text, direction))
    if word := _mixed_word(text, label=label):
        reason = "letters of another alphabet that look like Latin ones"
        yield HiddenCharacters(id="lookalike-letters", severity=grave, reason=reason, shown=word)
    if len(_STYLED.findall(text)) >= _MANY_STYLED:
        reason = "letters in a style or width that a search for words does not match"
        yield HiddenCharacters(id="styled-letters", severity="warn", reason=reason, shown=text)


def _invisible_run(text: str, *, label: bool) -> re.Match[str] | None:
    """Match the first run of invisible characters that the text around it does not need."""
    leftward = not label and _runs_left(text)
    for run in _UNSEEN.finditer(text):
        if label or not _is_needed(text, run, leftward=leftward):
            return run
    return None


def _is_needed(text: str, run: re.Match[str], *, leftward: bool) -> bool:
    """Return whether honest text has such a run here to join letters, mark a direction or break a word."""
    found, start = set(run[0]), run.start()
    before = text[start - 1] if start else ""
    after = text[run.end() : run.end() + 1]
    if (
        len(run[0]) <= _LONGEST_JOIN
        and not (before.isalnum() and after.isalnum())
        and not run[0].strip(_SPACES)
    ):
        return True
    if found <= _JOINING and before and len(run[0]) <= _LONGEST_JOIN:
        return not before.isascii()
    return (start == 0 and run[0] == "\ufeff") or run[0] == "\u00ad" or (leftward and found <= _MARKS)


def _runs_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in set(text))


def _mixed_word(text: str, *, label: bool) -> str:
    least = 2 if label else _LEAST_MIXED
    return next(
        (word for word in _WORD.findall(text) if len(word) >= least and word.isalpha() and mixes(word)), ""
    )


def _markup(text: str) -> Iterator[HiddenCharacters]:
    if ":" in text or "<" in text or "[" in text:
        yield from _roles(text)
    if "<" in text or "[" in text:
        for comment in _comments(text):
            grave = bool(ideas_in(comment.lower()) & _ORDERING)
            reason = "a comment that a model reads and a person does not see"
            yield HiddenCharacters(
                id="hidden-markup", severity="ask" if grave else "warn", reason=reason, shown=comment
            )
        if element := _CONCEALED.search(text):
            reason = "mark-up that hides what it holds"
            yield HiddenCharacters(id="hidden-markup", severity="ask", reason=reason, shown=element[0])
        if beacon := _BEACON.search(text):
            reason = "a link or picture whose address carries data away"
            yield HiddenCharacters(id="beacon", severity="ask", reason=reason, shown=beacon[0])
    if passage := _ADDRESSED.search(text) or _ENCLOSED.search(text) or _NOTICE.search(text):
        reason = "a passage set apart for the model"
        yield HiddenCharacters(
            id="instruction-tag", severity="ask", reason=reason, shown=_around(text, passage)
        )
    elif important := _IMPORTANT.search(text):
        reason = "a passage set apart by tags, as orders to the model often are"
        inner = ideas_in(fold(text[important.end() : important.end() + _INNER]))
        grave = bool(inner & _ACTING and inner & _TAKEN)
        shown = _around(text, important)
        yield HiddenCharacters(
            id="instruction-tag", severity="ask" if grave else "warn", reason=reason, shown=shown
        )


def _roles(text: str) -> Iterator[HiddenCharacters]:
    turns = list(_TURN.finditer(text)) if ":" in text else []
    if marker := _TEMPLATE.search(text):
        reason = "the marks that show a model who speaks"
        yield HiddenCharacters(id="role-marker", severity="ask", reason=reason, shown=_around(text, marker))
    elif len({turn[1].lower() for turn in turns}) > 1 or any(turn[1].lower() == "system" for turn in turns):
        reason = "turns of a conversation that did not take place"
        yield HiddenCharacters(id="role-marker", severity="ask", reason=reason, shown=_around(text, turns[0]))
    elif ":" in text and (role := _ROLE.search(text)):
        reason = "a message in the role of the system"
        yield HiddenCharacters(id="role-marker", severity="warn", reason=reason, shown=_around(text, role))


def _comments(text: str) -> Iterator[str]:
    yield from _NOTE.findall(text)
    start = text.find("<!--")
    while start >= 0:
        end = text.find("-->", start)
        yield text[start:] if end < 0 else text[start:end]
        start = text.find("<!--", end) if end >= 0 else -1


def _around(text: str, match: re.Match[str]) -> str:
    return text[max(match.start() - 20, 0) : match.end() + 100]
