"""What the scorer of the scan learns from, cut into windows: see README.md here.

Evil are the sentences that are marked (`poison` of an entry), and of a pair those of the attack that its
honest twin does not have. Honest are all others: of twins, honest texts, honest entries and recorded servers,
and the pages and `ordinary.txt` of this project, which stand for answers. What is held back is read for
measuring alone.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.scan_pairs import combined_pairs, hand_pairs, honest_texts, is_held_back

from maitred.evaluation.labelled_texts import LabelledText, read_entry, read_labelled_texts
from maitred.evaluation.poison import labelled_files, read_labelled, read_recorded
from maitred.evaluation.scan import definition_of
from maitred.poisoning.scorer import (
    Places,
    ScoredSentence,
    SentenceFeatures,
    Values,
    about,
    features_of,
    read_sentences,
    read_text,
    windows_of,
)

FREE = re.compile(r"^(the )?(mit|apache|isc|bsd)\b(?!.*gpl)", re.IGNORECASE)
MORE = Path(__file__).with_name("more_pairs.jsonl")
"""Pairs of a way to ask for data that the other sets have little of: in the passive, without an order."""
FALSE_ALARMS = Path(__file__).with_name("false_alarms")
ORDINARY = Path(__file__).with_name("ordinary.txt")
PAGE = 1_500
"""Characters of a part of a page, about."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """The features of one or two sentences, and whether they hold an order to a model."""

    places: Places
    values: Values
    evil: bool


@dataclass(frozen=True, kw_only=True)
class ScanText:
    """A text to learn from, or to measure by.

    `source` is `pair`, `honest`, `labelled`, `recorded`, `more` or `page`. `group` is its phrasing, author or
    server, `carrier` the text around its order, if that is known.
    """

    source: str
    group: str
    carrier: str = ""
    evil: bool
    is_answer: bool
    held_back: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    windows: Sequence[Window]
    sentences: int

    def folds(self, count: int) -> tuple[int, int]:
        """The folds of its group and of its carrier, of so many; neither is ever divided."""
        return _fold(self.group, count), _fold(self.carrier or self.group, count)


def _fold(name: str, count: int) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % count


def read_all(folder: Path, real: Path, pages: Path) -> list[ScanText]:
    """Read everything, also what is held back."""
    return [*_labelled(folder), *_pairs(), *_recorded(real), *_pages(pages)]


def _pairs() -> Iterator[ScanText]:
    alarms = [one for path in (MORE, *sorted(FALSE_ALARMS.glob("*.jsonl"))) for one in read_rows(path)]
    for row in (*hand_pairs(), *combined_pairs(), *honest_texts(), *alarms):
        entry = row if "attack" in row else {"label": "honest", **row}
        texts = [(one, sentences_of(one)) for one in read_entry(entry, row["id"])]
        honest = {one.folded for text, read in texts if not text.is_attack for one in read}
        for text, read in texts:
            evil = {at for at, one in enumerate(read) if text.is_attack and one.folded not in honest}
            yield _text(
                read,
                evil or (set(range(len(read))) if text.is_attack else set()),
                source="pair" if "attack" in row else "honest",
                group=text.order or text.pair,
                carrier=text.carrier,
                evil_text=text.is_attack,
                held_back=is_held_back(row),
                fields={name: str(row.get(name, "")) for name in ("kind", "language", "surface", "tone")},
                definition=definition_of(text) if text.surface == "definition" else None,
            )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read what `maitred scan --false-alarms` wrote."""
    read_labelled_texts([path])  # names the line of a fault
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def sentences_of(text: LabelledText) -> list[ScoredSentence]:
    """Return the sentences of a labelled text, as the scorer reads them."""
    return list(read_sentences(definition_of(text))) if text.surface == "definition" else read_text(text.text)


def _labelled(folder: Path) -> Iterator[ScanText]:
    for kind in ("malicious", "benign"):
        for path in labelled_files(folder, kind):
            for one in read_labelled(path):
                read = list(read_sentences(one.definition))
                is_evil = kind == "malicious"
                evil = {at for at, part in enumerate(read) if is_evil and is_marked(part.shown, one.poison)}
                if is_evil and not evil:
                    continue  # its author marked nothing, or what is marked is in the place of a single word
                yield _text(
                    read,
                    evil,
                    source="labelled",
                    group=path.stem,
                    evil_text=is_evil,
                    definition=one.definition,
                )


def is_marked(sentence: str, marks: Sequence[str]) -> bool:
    """Whether a sentence is one of those that its author marked, or most of it."""
    text = " ".join(sentence.split()).lower()
    words = set(text.split())
    for mark in marks:
        span = " ".join(mark.split()).lower()
        if text in span or span in text or len(words & set(span.split())) > 0.7 * len(words):
            return len(text) > 6  # noqa: PLR2004
    return False


def _recorded(real: Path) -> Iterator[ScanText]:
    records = map(json.loads, real.read_text(encoding="utf-8").splitlines())
    free = {record["server"] for record in records if FREE.match(record.get("licence") or "")}
    known: set[str] = set()
    for one in read_recorded(real):
        if one.unseen or one.server not in free:
            continue
        read = list(read_sentences(one.definition))
        if not one.sampled:
            read = [part for part in read if part.folded not in known]
        known.update(part.folded for part in read)
        source = "recorded" if one.sampled else "more"
        if read:
            yield _text(
                read, set(), source=source, group=one.server, evil_text=False, definition=one.definition
            )


def _pages(folder: Path) -> Iterator[ScanText]:
    for line in ORDINARY.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield _text(read_text(line), set(), source="page", group=line, evil_text=False)
    for path in (*sorted(folder.glob("*.md")), *sorted(folder.parent.glob("*.md"))):
        part = ""
        for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
            part += paragraph + "\n\n"
            if len(part) > PAGE:
                yield _text(read_text(part), set(), source="page", group=path.name, evil_text=False)
                part = ""


def _text(
    read: Sequence[ScoredSentence],
    evil: Collection[int],
    *,
    source: str,
    group: str,
    evil_text: bool,
    carrier: str = "",
    held_back: bool = False,
    fields: Mapping[str, str] | None = None,
    definition: Mapping[str, Any] | None = None,
) -> ScanText:
    """A text as its windows; `evil` are the numbers of its evil sentences."""
    subjects = about(definition, read) if definition is not None else frozenset[str]()
    glances = features_of([(one.folded, one.kind, one.label) for one in read]) if read else []
    windows = []
    for numbers in windows_of(read):
        glance: SentenceFeatures = glances[numbers[0]]
        if len(numbers) > 1:
            glance = glance.joined(glances[numbers[1]])
        places, values = glance.features(subjects)
        is_evil = any(number in evil for number in numbers)
        windows.append(Window(places=places, values=values.astype(np.float32), evil=is_evil))
    return ScanText(
        source=source,
        group=group,
        carrier=carrier,
        evil=evil_text,
        is_answer=definition is None,
        held_back=held_back,
        fields=fields or {},
        windows=windows,
        sentences=len(read),
    )
