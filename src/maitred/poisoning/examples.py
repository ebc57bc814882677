"""Known orders to a model, each with the honest sentence nearest to it: they explain what the scorer found.

`training/poison.py` chooses them from the labelled pairs into `data/examples.tsv`. They decide nothing.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from maitred.poisoning.confusables import fold
from maitred.word_lists import read_rows

FILE: Final = Path(__file__).with_name("data") / "examples.tsv"
_RUN: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """An order, its kind, and an honest sentence about the same matter."""

    kind: str
    order: str
    honest: str


def nearest_example(sentence: str) -> Example | None:
    """Return the example with the most rare words and runs of letters of a sentence; `None` without any."""
    wanted = _parts(sentence)
    best, most = None, 0.0
    table = _table()
    for example, weights in table:
        alike = sum(weights[part] for part in wanted & weights.keys())
        if alike > most:
            best, most = example, alike
    return best


@cache
def _table() -> tuple[tuple[Example, Mapping[str, float]], ...]:
    """Each example with the weights of its parts, whose squares sum to 1: rare parts count more."""
    rows = [Example(kind=kind, order=order, honest=honest) for kind, order, honest in read_rows(FILE)]
    parts = [_parts(row.order) for row in rows]
    counts = Counter(part for one in parts for part in one)
    table = []
    for row, one in zip(rows, parts, strict=True):
        weights = {part: math.log(1 + len(rows) / counts[part]) for part in one}
        length = math.sqrt(sum(weight * weight for weight in weights.values()))
        table.append((row, {part: weight / length for part, weight in weights.items()}))
    return tuple(table)


def _parts(sentence: str) -> frozenset[str]:
    folded = " ".join(fold(sentence).split())
    runs = (folded[at : at + _RUN] for at in range(max(len(folded) - _RUN + 1, 1)))
    return frozenset((*folded.split(" "), *runs))
