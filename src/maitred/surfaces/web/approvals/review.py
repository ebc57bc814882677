"""What a person reads before a decision: each changed part, as it was approved beside as it is now.

Texts are compared by word and schemas by line; findings are marked where they are in the text, with their
rule. A part that is too large to be shown whole cannot be approved from a page.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, Final, Literal

from markupsafe import Markup, escape

from maitred.admission.definition import Definition, DefinitionChange, DefinitionPart, PartKey
from maitred.admission.findings import Finding
from maitred.gateway.cases import Case, DefinitionPair
from maitred.surfaces.web.text import as_markup

MOST_SHOWN: Final = 60_000
"""Characters of one text; a longer one is not shown whole."""
_MOST_COMPARED: Final = 2_000
_FIELDS: Final = {"inputSchema": "input", "outputSchema": "output", "instructions": "description"}
_TITLES: Final = {
    "description": "Description",
    "title": "Title",
    "input": "Parameters",
    "output": "Answer",
    "annotations": "Annotations",
    "name": "Name",
    "mimeType": "Type",
    "icons": "Icons",
    "_meta": "Further data (_meta)",
    "execution": "Task",
}
_WEIGHTS: Final = {"power": 0, "wording": 1, "less": 2}
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")
_CUT: Final = re.compile(r"…|\\u\{[0-9A-F]+\}")
_LEAST_EXCERPT: Final = 6

PartStatus = Literal["new", "changed", "gone", "withheld", "unchanged"]
_STATUS_ORDER: Final[Sequence[PartStatus]] = ("changed", "new", "withheld", "unchanged", "gone")


@dataclass(frozen=True, kw_only=True)
class FieldReview:
    """One field of a part, as it was approved and as it is now; either may be missing."""

    title: str
    before: Markup | None
    after: Markup | None
    is_same: bool
    is_code: bool


@dataclass(frozen=True, kw_only=True)
class PartReview:
    """One part to read. `mark` identifies it with its content: a form sends the marks of what was on screen.

    `gains` says that a change gives the server more power over its caller.
    """

    mark: str
    label: str
    status: PartStatus
    why: str
    fields: Sequence[FieldReview]
    changes: Sequence[DefinitionChange]
    findings: Sequence[Finding]
    is_whole: bool

    @property
    def gains(self) -> bool:
        """Whether the server gets more power by a change of this part."""
        return any(change.weight == "power" for change in self.changes)

    @property
    def is_suspicious(self) -> bool:
        """Whether a person should look at its texts."""
        return any(finding.severity != "warn" for finding in self.findings)


def parts_of(case: Case, pair: DefinitionPair) -> Sequence[PartReview]:
    """The parts that a decision on a server is about: those that differ, are withheld or look suspicious."""
    approved, live = pair.approved or Definition(), pair.live or Definition()
    findings = list(case.findings)
    keys = dict.fromkeys(
        [*(change.part for change in case.changes), *case.parts, *_suspected(live, findings)]
    )
    if pair.approved is None:  # nothing of it was ever approved
        keys |= dict.fromkeys(live.parts)
    reviews = [_part(key, case, approved.parts.get(key), live.parts.get(key)) for key in keys]
    return sorted(
        reviews, key=lambda one: (not one.gains, not one.is_suspicious, _STATUS_ORDER.index(one.status))
    )


@dataclass(frozen=True, kw_only=True)
class ManifestReview:
    """The fields of a manifest to read before a first approval; empty where there is none to read."""

    fields: Sequence[tuple[Markup, Markup]]
    is_whole: bool


def manifest_of(case: Case) -> ManifestReview:
    """The manifest of a server that was never approved, every character of it up to a limit."""
    every = case.manifest if case.state == "pending" else {}
    texts = [(name, _text(value)) for name, value in every.items()]
    return ManifestReview(
        fields=[
            (as_markup(name, MOST_SHOWN), as_markup(text, MOST_SHOWN))
            for name, text in texts
            if name != "name"
        ],
        is_whole=all(len(part) <= MOST_SHOWN for pair in texts for part in pair),
    )


def _suspected(live: Definition, findings: Iterable[Finding]) -> Iterator[PartKey]:
    keys = [one.key for one in findings if one.severity != "warn"]
    for part in live.parts:
        if any(_is_about(key, part) for key in keys):
            yield part


def _is_about(finding_key: str, part: PartKey) -> bool:
    name = str(part)
    return finding_key == name or finding_key.startswith(f"{name} ")


def general_findings(case: Case, parts: Sequence[PartReview]) -> Sequence[Finding]:
    """The findings that belong to no part that is shown, such as those about the name of the server."""
    placed = [finding for part in parts for finding in part.findings]
    return [finding for finding in case.findings if finding not in placed]


def _part(
    key: PartKey, case: Case, before: DefinitionPart | None, after: DefinitionPart | None
) -> PartReview:
    findings = [finding for finding in case.findings if _is_about(finding.key, key)]
    status: PartStatus = "withheld" if key in case.parts else "unchanged"
    if before is None or after is None:
        status = "gone" if after is None else "new"
    elif before.digest != after.digest:
        status = "changed"
    fields = list(_fields(before.content if before else {}, after.content if after else {}, findings))
    whole = all(len(text) <= MOST_SHOWN for part in (before, after) if part for text in _texts(part.content))
    digests = f"{before.digest if before else ''}:{after.digest if after else ''}"
    return PartReview(
        mark=hashlib.sha256(f"{key.kind}:{key.name}:{digests}".encode("utf-8", "replace")).hexdigest()[:24],
        label=str(key),
        status=status,
        why=case.parts.get(key, ""),
        fields=fields,
        changes=sorted(
            (one for one in case.changes if one.part == key), key=lambda one: _WEIGHTS[one.weight]
        ),
        findings=findings,
        is_whole=whole and not any(name.endswith("_hash") for name in (after.content if after else {})),
    )


def _texts(content: Mapping[str, Any]) -> Iterator[str]:
    for value in content.values():
        yield _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _fields(
    before: Mapping[str, Any], after: Mapping[str, Any], findings: Sequence[Finding]
) -> Iterator[FieldReview]:
    for name in dict.fromkeys([*_TITLES, *before, *after]):
        old, new = before.get(name), after.get(name)
        if old in (None, "", {}) and new in (None, "", {}):
            continue
        is_code = not isinstance(new if new is not None else old, str)
        old_text = None if old is None else _text(old)[:MOST_SHOWN]
        new_text = None if new is None else _text(new)[:MOST_SHOWN]
        old_spans, new_spans = _differences(old_text or "", new_text or "", by_line=is_code)
        quoted = [one for one in findings if _field_of(one) in (name, "")]
        yield FieldReview(
            title=_TITLES.get(name, name),
            before=None if old_text is None else _marked(old_text, old_spans, "del", ()),
            after=None if new_text is None else _marked(new_text, new_spans, "ins", quoted),
            is_same=old_text == new_text,
            is_code=is_code,
        )


def _field_of(finding: Finding) -> str:
    head = finding.place.strip("/").partition("/")[0]
    return _FIELDS.get(head, head)


Span = tuple[int, int]


def _differences(old: str, new: str, *, by_line: bool) -> tuple[Sequence[Span], Sequence[Span]]:
    """Where two texts differ; nothing where one of them is missing, or they are too long to compare."""
    if not old or not new or old == new:
        return (), ()
    split = (lambda text: text.splitlines(keepends=True)) if by_line else _WORD.findall
    left, right = split(old), split(new)
    if max(len(left), len(right)) > _MOST_COMPARED:
        return (), ()
    removed, added = [], []
    starts = [_offsets(left), _offsets(right)]
    for kind, a, b, c, d in SequenceMatcher(None, left, right).get_opcodes():
        if kind != "equal":
            removed.append((starts[0][a], starts[0][b]))
            added.append((starts[1][c], starts[1][d]))
    return removed, added


def _offsets(pieces: Sequence[str]) -> Sequence[int]:
    places = [0]
    for piece in pieces:
        places.append(places[-1] + len(piece))
    return places


def _marked(text: str, spans: Sequence[Span], tag: str, findings: Sequence[Finding]) -> Markup:
    """A text with its differences and findings; every piece of it is escaped."""
    quoted = [(*place, one) for one in findings if (place := _place_of(one.excerpt, text))]
    edges = {0, len(text)}
    edges |= {edge for span in spans for edge in span} | {edge for one in quoted for edge in one[:2]}
    pieces = []
    cuts = sorted(edges)
    for start, end in pairwise(cuts):
        piece = as_markup(text[start:end], MOST_SHOWN)
        for at, until, finding in quoted:
            if at <= start and end <= until:
                told = f"{finding.rule}: {finding.reason}"
                piece = Markup('<mark class="finding" title="{}">{}</mark>').format(told, piece)
                break
        if any(at <= start and end <= until for at, until in spans):
            piece = Markup("<{0}>{1}</{0}>").format(Markup(tag), piece)  # noqa: S704  # `ins` or `del`
        pieces.append(piece)
    return Markup("").join(pieces)


def _place_of(excerpt: str, text: str) -> Span | None:
    """Where the excerpt of a finding is in a text: an excerpt has single spaces, and may be cut."""
    longest = max(_CUT.split(excerpt), key=len).strip()
    if len(longest) < _LEAST_EXCERPT:
        return None
    words = r"\s+".join(re.escape(word) for word in longest.split())
    found = re.search(words, text)
    return found.span() if found else None


def alike(name: str, other: str) -> tuple[Markup, Markup]:
    """Two names that are easily taken for one another, in which the characters that differ are underlined."""
    removed, added = [], []
    for kind, a, b, c, d in SequenceMatcher(None, name, other, autojunk=False).get_opcodes():
        piece, counterpart = as_markup(name[a:b], 200), as_markup(other[c:d], 200)
        if kind == "equal":
            removed.append(escape(name[a:b]) if name[a:b].isascii() else piece)
            added.append(escape(other[c:d]) if other[c:d].isascii() else counterpart)
        else:
            removed.append(Markup("<u>{}</u>").format(piece) if name[a:b] else Markup(""))
            added.append(Markup("<u>{}</u>").format(counterpart) if other[c:d] else Markup(""))
    return Markup("").join(removed), Markup("").join(added)
