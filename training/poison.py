"""Makes the weights of the poisoning scorer: `python -m training.poison`. See README.md here.

A logistic regression over sentences. Evil are the sentences that are marked (`poison` of an entry); in
entries without marks those that rules find, or the worst by a first round. Honest are all sentences of honest
entries and of recorded servers; servers of the unseen half (`is_unseen`) and the folder `unseen` are never
read. The figures it prints are out of sample: each fold leaves out whole series of texts and whole servers.
`LEAST` decides at present from which score on a definition is held; README.md tells how it came about.
"""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from maitred.evaluation.poison import (
    LabelledDefinition,
    is_unseen,
    labelled_files,
    read_labelled,
    read_recorded,
)
from maitred.model.approvals import Severity
from maitred.poisoning.scan import PoisonScan
from maitred.poisoning.scorer import (
    LONG,
    SIZE,
    WEIGHTS,
    Places,
    Values,
    about,
    discount,
    kind_of,
    pack_weights,
    read_sentences,
    sentence_features,
)

FOLDS = 7
PENALTY = 3.0
EVIL_WEIGHT = 3.0
MISTAKES = 0.015
LEAST = -1.5
SLOPE = 1.0
FREE = re.compile(r"^(the )?(mit|apache|isc|bsd)\b(?!.*gpl)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sentence of the definition of a number; `evil` is unknown where nobody marked it."""

    definition: int
    places: Places
    values: Values
    evil: bool | None


@dataclass(frozen=True, kw_only=True)
class Read:
    """One definition: in which fold, whether it is evil, recorded, and counted as such, what rules found."""

    fold: int
    evil: bool
    recorded: bool
    counted: bool
    ruled: frozenset[Severity]


def main() -> None:
    """Read, fit, choose and write."""
    options = _options()
    console = Console()
    reads, rows = _read(options.folder, options.real)
    console.print(
        f"{len(reads):,} definitions, {len(rows):,} sentences, {sum(r.evil is True for r in rows):,} evil"
    )
    rows = _marked(reads, rows)
    held_out = np.full(len(reads), -np.inf)
    for fold in range(FOLDS):
        table, bias = fit([row for row in rows if reads[row.definition].fold != fold])
        for row in rows:
            if reads[row.definition].fold == fold:
                score = _score(row, table, bias)
                held_out[row.definition] = max(held_out[row.definition], score)
    counts = np.bincount([row.definition for row in rows], minlength=len(reads))
    held_from = _chosen(reads, held_out, counts, options.least, console)
    table, bias = fit(rows)
    np.savez_compressed(options.out, **pack_weights(table, bias, held_from, SLOPE))
    console.print(f"wrote {options.out} ({options.out.stat().st_size / 1e3:.0f} kB)")


def _read(folder: Path, real: Path) -> tuple[list[Read], list[Row]]:
    reads: list[Read] = []
    rows: list[Row] = []
    for kind in ("malicious", "benign"):
        for path in labelled_files(folder, kind):
            author = int(path.stem.partition("-")[2] or 0)
            for one in read_labelled(path):
                _take(one, kind == "malicious", author % FOLDS, reads, rows, counted=False)
    free = {
        record["server"]
        for record in map(json.loads, real.read_text(encoding="utf-8").splitlines())
        if FREE.match(record.get("licence") or "")
    }
    known: set[str] = set()
    for recorded in read_recorded(real):
        if recorded.server in free and not is_unseen(recorded.server):
            one = LabelledDefinition(id="", pattern="", definition=recorded.definition)
            fold = sum(recorded.server.encode()) % FOLDS
            _take(one, False, fold, reads, rows, counted=recorded.sampled, known=known)  # noqa: FBT003
    return reads, rows


def _take(
    one: LabelledDefinition,
    evil: bool,  # noqa: FBT001
    fold: int,
    reads: list[Read],
    rows: list[Row],
    *,
    counted: bool,
    known: set[str] | None = None,
) -> None:
    """Take in a definition; sentences that are `known` are not learned twice, but are scored."""
    found = list(read_sentences(one.definition))
    subjects = about(one.definition, found)
    names = {"own": [str(one.definition.get("name", "")), *one.siblings], "other": one.others}
    findings = PoisonScan(names, scorer=None).scan("own", one.definition)
    severities = frozenset(finding.severity for finding in findings)
    marks = one.poison or [f.excerpt.rstrip("…") for f in findings if f.severity != "warn"]
    for sentence in found:
        marked = evil and _is_marked(sentence.shown, marks)
        is_evil = None if evil and not marks else marked
        if known is not None and not counted:
            if sentence.folded in known:
                continue
            known.add(sentence.folded)
        places, values = sentence_features(
            sentence.folded, kind_of(sentence.where), label=sentence.label
        ).features(subjects)
        rows.append(Row(definition=len(reads), places=places, values=values, evil=is_evil))
    reads.append(Read(fold=fold, evil=evil, recorded=known is not None, counted=counted, ruled=severities))


def _is_marked(sentence: str, marks: Sequence[str]) -> bool:
    text = " ".join(sentence.split()).lower()
    words = set(text.split())
    for mark in marks:
        span = " ".join(mark.split()).lower()
        if text in span or span in text or len(words & set(span.split())) > 0.7 * len(words):
            return len(text) > 6  # noqa: PLR2004
    return False


def _marked(reads: Sequence[Read], rows: Sequence[Row]) -> list[Row]:
    """The rows with marks where there were none, by a first round: the worst sentence of each definition."""
    table, bias = fit([row for row in rows if row.evil is not None])
    worst: dict[int, float] = {}
    for row in rows:
        if row.evil is None:
            worst[row.definition] = max(worst.get(row.definition, -np.inf), _score(row, table, bias))
    marked: list[Row] = []
    for row in rows:
        if row.evil is None:
            score = _score(row, table, bias)
            if score < max(worst[row.definition], 0.0):
                continue
            row = Row(definition=row.definition, places=row.places, values=row.values, evil=True)  # noqa: PLW2901
        marked.append(row)
    return marked


def _score(row: Row, table: NDArray[np.float32], bias: float) -> float:
    return float(table[row.places] @ row.values) + bias


def fit(rows: Sequence[Row]) -> tuple[NDArray[np.float32], float]:
    """The table and the bias of a logistic regression with a penalty on the squares of its weights."""
    starts = np.cumsum([0, *(len(row.places) for row in rows)])
    values = np.concatenate([row.values for row in rows])
    places = np.concatenate([row.places for row in rows])
    matrix = csr_matrix((values, places, starts), shape=(len(rows), SIZE))
    wanted = np.array([row.evil is True for row in rows])
    model = LogisticRegression(C=PENALTY, solver="liblinear", max_iter=200, random_state=0)
    model.fit(matrix, wanted, sample_weight=np.where(wanted, EVIL_WEIGHT, 1.0))
    return model.coef_[0].astype(np.float32), float(model.intercept_[0])


def _chosen(
    reads: Sequence[Read],
    scores: NDArray[np.float64],
    counts: NDArray[np.int64],
    least: float,
    console: Console,
) -> float:
    """From which score on definitions are held, so that few recorded ones are, by it or by a rule.

    The slope is given and not chosen: poisoned examples are short because they were written for this.
    """
    evil, recorded, counted = (
        np.array([getattr(one, name) for one in reads]) for name in ("evil", "recorded", "counted")
    )
    refused, asked = (np.array([level in one.ruled for one in reads]) for level in ("refuse", "ask"))
    own = scores - np.array([discount(int(count), SLOPE) for count in counts])

    def held(held_from: float) -> NDArray[np.bool_]:
        cleared = (counts >= LONG) & (scores < held_from)
        return (own >= held_from) | refused | (asked & ~cleared)

    held_from = least
    while held(held_from)[counted].mean() > MISTAKES:
        held_from += 0.05
    found = held(held_from)
    console.print(f"held from {held_from:.2f}; out of sample, with the rules:")
    for name, part in (
        ("poisoned", evil),
        ("recorded, at most twenty of a server", counted),
        ("recorded, the rest", recorded & ~counted),
        ("honest, looking suspicious", ~evil & ~recorded),
    ):
        console.print(
            f"{name}: {found[part].sum():,} of {part.sum():,} held, {100 * found[part].mean():.1f} %"
        )
    return held_from


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.poison", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("tests/data/poison"), help="labelled definitions")
    shared = Path("../shared/data/real_servers/servers.jsonl")
    parser.add_argument("--real", type=Path, default=shared, help="recorded servers")
    parser.add_argument("--least", type=float, default=LEAST, help="hold from no lower score than this")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="where the weights go")
    return parser.parse_args()


if __name__ == "__main__":
    main()
