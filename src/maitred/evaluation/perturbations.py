"""Queries as people write them: with the values at hand, or with typing errors; made from a labelled set.

What a query becomes depends on its id alone, so that a part of a set gives the same queries as the whole.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, Literal

from maitred.evaluation.labelled_queries import LabelledQuery
from maitred.word_lists import read_rows

Perturbation = Literal["none", "values", "typos"]

_SHORTEST: Final = 5
"""Letters of the shortest word that gets an error; most errors are in longer words."""
_SHARE: Final = 0.25
_WORD: Final = re.compile(rf"[A-Za-z]{{{_SHORTEST},}}")
_ROWS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_BESIDE: Final[Mapping[str, str]] = {
    key: row[max(at - 1, 0) : at] + row[at + 1 : at + 2] for row in _ROWS for at, key in enumerate(row)
}
"""The keys beside a key."""


def perturb(queries: Sequence[LabelledQuery], how: Perturbation) -> list[LabelledQuery]:
    """Return the queries changed in one way."""
    if how == "none":
        return list(queries)
    change = _CHANGES[how]
    changed = []
    for query in queries:
        source = random.Random(f"{how}/{query.id}")  # noqa: S311  # a sample, not a secret
        phrases = tuple(change(phrase, source) for phrase in query.phrases)
        changed.append(replace(query, phrases=phrases))
    return changed


def _with_value(phrase: str, source: random.Random) -> str:
    """Append a path, an address, an id, a date or the like."""
    return f"{phrase} {source.choice(_sample_values())}"


def _with_typos(phrase: str, source: random.Random) -> str:
    """Mistype a quarter of the longer words, and one at least."""
    spans = [match.span() for match in _WORD.finditer(phrase)]
    chosen = [span for span in spans if source.random() < _SHARE]
    if spans and not chosen:
        chosen = [source.choice(spans)]
    for start, end in reversed(chosen):
        phrase = phrase[:start] + _mistype(phrase[start:end], source) + phrase[end:]
    return phrase


def _mistype(word: str, source: random.Random) -> str:
    """Leave out, double, replace or swap one letter behind the first."""
    kind, at = source.randrange(4), source.randrange(1, len(word) - 1)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + word[at] + word[at:]
    if kind == 2:  # noqa: PLR2004  # the third kind
        return word[:at] + source.choice(_BESIDE[word[at].lower()]) + word[at + 1 :]
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


@cache
def _sample_values() -> Sequence[str]:
    rows = read_rows(Path(__file__).with_name("data") / "sample_values.tsv")
    return [value for _, value in rows]


_CHANGES: Final[Mapping[str, Callable[[str, random.Random], str]]] = {
    "values": _with_value,
    "typos": _with_typos,
}
