"""What the trained scorer sees of a sentence: which words and pieces of words meet in it, and where.

Each is hashed to a place in one table of weights, so there is no vocabulary to carry. The order is that of
training, which uses the same functions (`training/poison.py`); to change anything here is to train again.

A trained scorer beside the rules: how much a sentence reads like those by which definitions are poisoned.

Rules know phrases, this knows wordings: it is a linear model over what `poison_features` sees, trained on
definitions by several authors and on recorded ones of real servers (`training/poison.py`). Its weights ship
with the package. It has no reasons to give but the sentence.
"""

import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from maitred.model.tools import canonical, content_hash
from maitred.poisoning.confusables import fold
from maitred.poisoning.passages import MAX_CHARACTERS, passages, sentences, unspaced

SIZE: Final = 1 << 20
"""How many places the table has."""

Places = NDArray[np.int64]
Values = NDArray[np.float32]

_MOST_WORDS: Final = 120
_WORD: Final = re.compile(r"[a-z']+|[0-9]+|[^\x00-\x7f]|[<>{}\[\]`@$%*!]|://|~/|/")
_LETTERS: Final = re.compile(r"[a-z]+")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SMALL: Final = frozenset(
    [
        "the",
        "a",
        "an",
        "of",
        "to",
        "and",
        "or",
        "in",
        "is",
        "for",
        "with",
        "be",
        "by",
        "on",
        "if",
        "as",
        "from",
        "this",
        "that",
        "are",
        "it",
        "its",
        "at",
    ]
)
_STEM: Final = 6
_LEAST_STEM: Final = 4
_GAPS: Final = (2, 3, 4)
_RUN: Final = 4
_RUN_VALUE: Final = 0.5
_RELATED: Final = 2.0
_SCALE: Final = 6.0
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_STEP: Final = np.uint64(0xBF58476D1CE4E5B9)
_KINDS: Final = (
    ("/inputSchema", "param"),
    ("/arguments", "param"),
    ("/outputSchema", "out"),
    ("/description", "desc"),
    ("/instructions", "instr"),
    ("/annotations", "title"),
    ("/title", "title"),
)
_NOOK: Final = re.compile(r"/(enum|default|examples|title|const|pattern)(?:/|$)")


def kind_of(where: str) -> str:
    """What part of a definition a JSON pointer leads to, in a word."""
    kind = next((kind for start, kind in _KINDS if where.startswith(start)), "other")
    nook = _NOOK.search(where)
    return f"{kind}-{nook[1]}" if nook else kind


def subject(names: Sequence[str], first: str) -> frozenset[str]:
    """The stems of what a definition is about: its names, and its first sentence."""
    words = _LETTERS.findall(" ".join(_HUMP.sub(" ", name) for name in names).lower())
    words += [word for word in _LETTERS.findall(first.lower()) if word not in _SMALL]
    return frozenset(word[:_STEM] for word in words if len(word) >= _LEAST_STEM)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The weight of each place, and what every sentence begins with."""

    values: NDArray[np.float32]
    bias: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceFeatures:
    """What is seen of a sentence: `plain` places count once, `runs` half; `stems` are its words."""

    plain: Places
    runs: Places
    stems: tuple[str, ...]

    def total(self, table: Table) -> float:
        """The sum of the weights, before the length of the sentence and its subject are known."""
        return float(table.values[self.plain].sum() + _RUN_VALUE * table.values[self.runs].sum())

    def score(self, total: float, table: Table, subjects: frozenset[str]) -> float:
        """The score within a definition about these subjects; `total` as above."""
        related = self._related(subjects)
        total += sum(float(table.values[place]) * value for place, value in related)
        return total * self._scale + table.bias

    def features(self, subjects: frozenset[str]) -> tuple[Places, Values]:
        """All places and their values, for training."""
        related = self._related(subjects)
        places = [self.plain, self.runs, np.array([place for place, _ in related], dtype=np.int64)]
        values = np.ones(len(self.plain) + len(self.runs) + 2, dtype=np.float32)
        values[len(self.plain) :] = _RUN_VALUE
        values[-2:] = [value for _, value in related]
        return np.concatenate(places), values * np.float32(self._scale)

    @property
    def _scale(self) -> float:
        return _SCALE / math.sqrt(len(self.plain) + len(self.runs) + 2)

    def _related(self, subjects: frozenset[str]) -> tuple[tuple[int, float], tuple[int, float]]:
        """How much of it is about what its definition is about."""
        share = sum(stem in subjects for stem in self.stems) / max(1, len(self.stems))
        return (_RELATED_PLACE, share * _RELATED), (_UNRELATED_PLACE, float(share == 0))


def seen(sentence: str, kind: str, *, label: bool) -> SentenceFeatures:
    """What is seen of a folded sentence; `kind` as `kind_of` tells, `label` of a name."""
    words = ["0" if word.isdigit() else word for word in _WORD.findall(sentence.lower())[:_MOST_WORDS]]
    hashes = _hashed(words)
    content = [place for place, word in enumerate(words) if word not in _SMALL]
    few = hashes[content]
    plain: list[NDArray[np.uint64]] = [
        hashes + _salt(1),
        _pairs(hashes, 1, 2),
        hashes[:-2] * _MIX + hashes[1:-1] * _STEP + hashes[2:] + _salt(3),
        *(_pairs(few, gap, 4) for gap in _GAPS),
        _marks(words, kind, label=label),
    ]
    stems = tuple(words[place][:_STEM] for place in content if len(words[place]) >= _LEAST_STEM)
    return SentenceFeatures(
        plain=_each_once(_spread(np.concatenate(plain))),
        runs=_each_once(_spread(_runs(" ".join(words)))),
        stems=stems,
    )


def _each_once(places: NDArray[np.uint64]) -> Places:
    """The places in their order, each once; `np.unique` takes several times as long for so few."""
    ordered = np.sort(places)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first].astype(np.int64)


def _hashed(texts: Sequence[str]) -> NDArray[np.uint64]:
    return np.array([crc32(text.encode("utf-8", "replace")) for text in texts], dtype=np.uint64)


def _salt(kind: int) -> np.uint64:
    """What is added to the hashes of a kind, lest they meet those of another."""
    return np.uint64(kind)


def _spread(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread hashes over the table; all of a sentence at once, since each step costs as much for one."""
    mixed = hashes * _MIX
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _STEP
    return (mixed >> np.uint64(32)) & np.uint64(SIZE - 1)


def _pairs(hashes: NDArray[np.uint64], gap: int, kind: int) -> NDArray[np.uint64]:
    return hashes[:-gap] * _MIX + hashes[gap:] + _salt(kind)


def _runs(text: str) -> NDArray[np.uint64]:
    """Every four letters in a row, so that words count that were never seen."""
    codes = np.frombuffer(f" {text} ".encode("utf-32-le", "replace"), dtype=np.uint32).astype(np.uint64)
    if len(codes) < _RUN:
        return codes[:0]
    runs = codes[: len(codes) - _RUN + 1].copy()
    for step in range(1, _RUN):
        runs = runs * np.uint64(1_114_113) + codes[step : len(codes) - _RUN + 1 + step]
    return runs + _salt(5)


def _marks(words: Sequence[str], kind: str, *, label: bool) -> NDArray[np.uint64]:
    marks = [f"kind {kind}", f"length {min(6, len(words) // 8)}", f"first {words[0] if words else ''}"]
    if len(words) > 1:
        marks.append(f"first {words[0]} {words[1]}")
    if label:
        marks.append("label")
    return _hashed(marks) + _salt(7)


_RELATED_PLACE, _UNRELATED_PLACE = (
    int(place) for place in _spread(_hashed(["related", "unrelated"]) + _salt(6))
)


WEIGHTS: Final = Path(__file__).parent / "weights" / "poison.npz"
_MOST_SCORES: Final = 16_384
_MOST: Final = 400
_LEAST_WORDS: Final = 4
_LOOKED_AT: Final = 120
_COUNTED: Final = 40
LONG: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredSentence:
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
class ScorerWeights:
    """What training made: the table, and from which score on a definition is held.

    With every sentence there is another chance that an honest one scores high, so `slope` times the
    logarithm of their number, of which 40 count, is taken off.
    """

    table: Table
    held_from: float
    slope: float


def read_sentences(definition: Mapping[str, Any]) -> Iterator[ScoredSentence]:
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
            yield ScoredSentence(where=passage.where, shown=part, folded=folded, label=passage.label)
            count += 1
            if count >= _MOST:
                return
        if left <= 0:
            return


def about(definition: Mapping[str, Any], found: "list[ScoredSentence]") -> frozenset[str]:
    """What a definition is about: its names, those of its parameters, and its first sentence."""
    names = [str(definition.get(key) or "") for key in ("name", "title")]
    first = next((one.folded for one in found if not one.label), "")
    return subject([*names, *(one.folded for one in found if one.label)], first)


class Scorer:
    """Scores definitions by weights.

    It remembers sentences, which servers repeat, and the scores of definitions, which come with every
    connection anew.
    """

    def __init__(self, weights: ScorerWeights) -> None:
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

    def _look(self, folded: str, kind: str, label: bool) -> tuple[SentenceFeatures, float]:  # noqa: FBT001  # a key of the cache
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


def unpacked(file: Mapping[str, Any]) -> ScorerWeights:
    """The weights of a file.

    Raises:
        KeyError: Something is missing.
        ValueError: Something has another shape, or is no number.
    """
    if file["table"].shape != (SIZE,) or not np.isfinite(file["rest"]).all():
        raise ValueError("the table has another size, or a number is none")
    scale, bias, held_from, slope = (float(value) for value in file["rest"])
    table = Table(values=file["table"].astype(np.float32) * np.float32(scale), bias=bias)
    return ScorerWeights(table=table, held_from=held_from, slope=slope)
