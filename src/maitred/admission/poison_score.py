"""A trained scorer beside the rules: how much a sentence reads like those by which definitions are poisoned.

Rules know phrases, this knows wordings: it is a linear model over what `poison_features` sees, trained on
definitions by several authors and on recorded ones of real servers (`training/poison.py`). Its weights ship
with the package. It has no reasons to give but the sentence.
"""

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from maitred.admission.confusables import fold
from maitred.admission.poison_features import SIZE, Seen, Table, kind_of, seen, subject
from maitred.admission.poison_text import MAX_CHARACTERS, passages, sentences, unspaced
from maitred.model.tools import canonical, content_hash

WEIGHTS: Final = Path(__file__).parent / "weights" / "poison.npz"
_MOST_SCORES: Final = 16_384
_MOST: Final = 400
_LEAST_WORDS: Final = 4
_LOOKED_AT: Final = 120
_COUNTED: Final = 40
LONG: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """One sentence of a definition: where it stands, as it was written, and folded."""

    where: str
    shown: str
    folded: str
    label: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """The sentence of a definition that reads most like poison, and by how much.

    From `held_from` on a definition is held for it. `clears` says that it is long, was read to its end, and
    that none of its sentences would be held alone, so that what a rule found in its wording is likely chance.
    """

    value: float
    clears: bool = False
    where: str = ""
    shown: str = ""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What training made: the table, and from which score on a definition is held.

    With every sentence there is another chance that an honest one scores high, so `slope` times the
    logarithm of their number, of which 40 count, is taken off.
    """

    table: Table
    held_from: float
    slope: float


def read_sentences(definition: Mapping[str, Any]) -> Iterator[Sentence]:
    """The sentences of a definition in its order, at most 400."""
    left, count = MAX_CHARACTERS, 0
    for passage in passages(definition):
        text = passage.text[:left]
        left -= len(text)
        parts = [text] if passage.label else [part for _, part in sentences(unspaced(text))]
        for part in parts:
            folded = " ".join(fold(part).split())
            if not passage.label and len(set(folded.split(" ")[:_LOOKED_AT])) < _LEAST_WORDS:
                continue  # a word repeated says nothing, and scores as nothing that was learned
            yield Sentence(where=passage.where, shown=part, folded=folded, label=passage.label)
            count += 1
            if count >= _MOST:
                return
        if left <= 0:
            return


def about(definition: Mapping[str, Any], found: "list[Sentence]") -> frozenset[str]:
    """What a definition is about: its names, those of its parameters, and its first sentence."""
    names = [str(definition.get(key) or "") for key in ("name", "title")]
    first = next((one.folded for one in found if not one.label), "")
    return subject([*names, *(one.folded for one in found if one.label)], first)


class Scorer:
    """Scores definitions by weights.

    It remembers sentences, which servers repeat, and the scores of definitions, which come with every
    connection anew.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._seen = lru_cache(maxsize=16_384)(self._look)
        self._scores: dict[str, Score] = {}

    def score(self, definition: Mapping[str, Any]) -> Score:
        """The highest score of any sentence of a definition."""
        try:
            key = content_hash(canonical(definition))
        except RecursionError:  # deeper than JSON of an honest server
            return self._score(definition)
        score = self._scores.get(key)
        if score is None:
            score = self._scores[key] = self._score(definition)
            if len(self._scores) > _MOST_SCORES:  # several threads may come here at once
                self._scores.clear()
        return score

    def _score(self, definition: Mapping[str, Any]) -> Score:
        found = list(read_sentences(definition))
        subjects = about(definition, found)
        best = Score(value=float("-inf"))
        for one in found:
            glance, total = self._seen(one.folded, kind_of(one.where), one.label)
            value = glance.score(total, self.weights.table, subjects)
            if value > best.value:
                best = Score(value=value, where=one.where, shown=one.shown)
        value = best.value - discount(len(found), self.weights.slope)
        clears = LONG <= len(found) < _MOST and best.value < self.weights.held_from  # no padding helps
        return replace(best, value=value, clears=clears)

    def _look(self, folded: str, kind: str, label: bool) -> tuple[Seen, float]:  # noqa: FBT001  # a key of the cache
        glance = seen(folded, kind, label=label)
        return glance, glance.total(self.weights.table)


def discount(sentences: int, slope: float) -> float:
    """What is taken off the highest score of so many sentences."""
    return slope * math.log(min(max(sentences, 1), _COUNTED))


@cache
def bundled() -> Scorer:
    """The scorer that ships with the package.

    Raises:
        OSError: Its weights cannot be read.
        ValueError: They are damaged.
    """
    return load(WEIGHTS)


def load(path: Path) -> Scorer:
    """A scorer with the weights of a file; see `bundled` for what it raises."""
    try:
        with path.open("rb") as data, np.load(data, allow_pickle=False) as file:
            return Scorer(unpacked(file))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"the weights of the poisoning scorer are missing: {path}. Install maitred again"
        ) from error
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, ValueError) as error:
        raise ValueError(
            f"the weights of the poisoning scorer are damaged: {path}. Install maitred again"
        ) from error


def packed(table: NDArray[np.float32], bias: float, held_from: float, slope: float) -> dict[str, Any]:
    """What stands in a weights file: the table in 255 steps, its scale, and the rest."""
    scale = float(np.abs(table).max()) / 127 or 1.0
    small = np.round(table / scale).astype(np.int8)
    return {
        "table": small,
        "rest": np.array([scale, bias, held_from, slope], dtype=np.float64),
    }


def unpacked(file: Mapping[str, Any]) -> Weights:
    """The weights of a file.

    Raises:
        KeyError: Something is missing.
        ValueError: Something has another shape, or is no number.
    """
    if file["table"].shape != (SIZE,) or not np.isfinite(file["rest"]).all():
        raise ValueError("the table has another size, or a number is none")
    scale, bias, held_from, slope = (float(value) for value in file["rest"])
    table = Table(values=file["table"].astype(np.float32) * np.float32(scale), bias=bias)
    return Weights(table=table, held_from=held_from, slope=slope)
