"""A trained scorer beside the rules: how much a text reads like an order to a model.

Rules know phrases; this knows wordings. It is a linear model over the words and pieces of words of a
sentence, and of two neighbours together. It hashes each to a place in one table of weights, so it needs no
vocabulary. It scores definitions and answers, with a threshold for each. `training/poison.py` trains it with
the functions of this module. After a change to them, train again. The weights ship with the package.
"""

import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from maitred.model.tools import canonical, content_hash
from maitred.poisoning.confusables import fold
from maitred.poisoning.ideas import IDEAS
from maitred.poisoning.passages import MAX_CHARACTERS, Passage, passages, plain_parts
from maitred.poisoning.subjects import ideas_with_traits

SIZE: Final = 1 << 20
"""Places in the table of weights."""

Places = NDArray[np.int32]
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
_OWNER_SHIFT: Final = np.uint64(20)
"""How far the index of a sentence is above its place, which is below `SIZE`."""
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


ANSWER: Final = "answer"
"""The kind of a sentence that is not in a definition."""


def kind_of(where: str) -> str:
    """Name the part of a definition that a JSON pointer leads to, in a word."""
    kind = next((kind for start, kind in _KINDS if where.startswith(start)), "other")
    nook = _NOOK.search(where)
    return f"{kind}-{nook[1]}" if nook else kind


def subject(names: Sequence[str], first: str) -> frozenset[str]:
    """Return the stems of the subject of a definition: its names and its first sentence."""
    words = _LETTERS.findall(" ".join(_HUMP.sub(" ", name) for name in names).lower())
    words += [word for word in _LETTERS.findall(first.lower()) if word not in _SMALL]
    return frozenset(word[:_STEM] for word in words if len(word) >= _LEAST_STEM)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The weight of each place, and the bias that every sentence starts from."""

    values: NDArray[np.float32]
    bias: float

    @cached_property
    def relation(self) -> tuple[float, float]:
        """The weights of a sentence that is related to its definition, and of one that is not."""
        return float(self.values[_RELATED_PLACE]), float(self.values[_UNRELATED_PLACE])


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceFeatures:
    """Features of a sentence: `plain` places count once, `runs` half; `stems` are its words."""

    plain: Places
    runs: Places
    stems: tuple[str, ...]

    def total(self, table: Table) -> float:
        """Sum the weights, before the length of the sentence and its subject are known."""
        return float(table.values[self.plain].sum() + _RUN_VALUE * table.values[self.runs].sum())

    def score(self, total: float, table: Table, subjects: frozenset[str]) -> float:
        """Score the sentence within a definition about these subjects; `total` is the result of `total()`."""
        related = self._relation(subjects)
        total += sum(weight * value for weight, (_, value) in zip(table.relation, related, strict=True))
        return total * self._scale + table.bias

    def features(self, subjects: frozenset[str]) -> tuple[Places, Values]:
        """Return all places and their values, for training."""
        related = self._relation(subjects)
        places = [self.plain, self.runs, np.array([place for place, _ in related], dtype=np.int32)]
        values = np.ones(len(self.plain) + len(self.runs) + 2, dtype=np.float32)
        values[len(self.plain) :] = _RUN_VALUE
        values[-2:] = [value for _, value in related]
        return np.concatenate(places), values * np.float32(self._scale)

    def joined(self, following: "SentenceFeatures") -> "SentenceFeatures":
        """Return the features of this sentence and the one that follows it, as one window."""
        return SentenceFeatures(
            plain=np.concatenate([self.plain, following.plain]),
            runs=np.concatenate([self.runs, following.runs]),
            stems=self.stems + following.stems,
        )

    @property
    def _scale(self) -> float:
        return _SCALE / math.sqrt(len(self.plain) + len(self.runs) + 2)

    def _relation(self, subjects: frozenset[str]) -> tuple[tuple[int, float], tuple[int, float]]:
        """Return how much of the sentence is about the subject of its definition."""
        share = sum(stem in subjects for stem in self.stems) / max(1, len(self.stems))
        return (_RELATED_PLACE, share * _RELATED), (_UNRELATED_PLACE, float(share == 0))


def sentence_features(sentence: str, kind: str, *, label: bool) -> SentenceFeatures:
    """Return the features of a folded sentence; `kind` comes from `kind_of`, `label` marks a name."""
    return features_of([(sentence, kind, label)])[0]


def features_of(sentences_read: Sequence[tuple[str, str, bool]]) -> list[SentenceFeatures]:
    """Return the features of folded sentences, each given with its kind and whether it is a name.

    All hashes of all sentences are computed at once: a step of numpy costs as much for one word as for a
    thousand.
    """
    words_of = [
        ["0" if word.isdigit() else word for word in _WORD.findall(sentence.lower())[:_MOST_WORDS]]
        for sentence, _, _ in sentences_read
    ]
    words = [word for sentence_words in words_of for word in sentence_words]
    all_words = _Hashes(_hash(words), _owners([len(one) for one in words_of]))
    large_words = all_words.only(np.array([word not in _SMALL for word in words], dtype=np.bool_))
    marks_of = [
        _marks(one, kind, label=label) for one, (_, kind, label) in zip(words_of, sentences_read, strict=True)
    ]
    marks = [mark for sentence_marks in marks_of for mark in sentence_marks]
    ideas = [ideas_with_traits(sentence) for sentence, _, _ in sentences_read]
    plain = [
        _idea_hashes(ideas).salted(8),
        all_words.salted(1),
        all_words.pairs(1).salted(2),
        all_words.triples().salted(3),
        *(large_words.pairs(gap).salted(4) for gap in _GAPS),
        _Hashes(_hash(marks), _owners([len(one) for one in marks_of])).salted(7),
    ]
    runs = _runs([" ".join(one) for one in words_of]).salted(5)
    return [
        SentenceFeatures(plain=plain_places, runs=run_places, stems=_stems(sentence_words))
        for plain_places, run_places, sentence_words in zip(
            _places(plain, len(words_of)), _places([runs], len(words_of)), words_of, strict=True
        )
    ]


@dataclass(frozen=True, slots=True)
class _Hashes:
    """Hashes of the parts of several sentences in order, and the index of each part's sentence."""

    values: NDArray[np.uint64]
    owners: NDArray[np.uint64]

    def only(self, chosen: NDArray[np.bool_]) -> "_Hashes":
        return _Hashes(self.values[chosen], self.owners[chosen])

    def salted(self, kind: int) -> "_Hashes":
        """Add a number to the hashes of a kind, so that they do not meet those of another."""
        return _Hashes(self.values + np.uint64(kind), self.owners)

    def pairs(self, gap: int) -> "_Hashes":
        """Hash every two parts of a sentence that are `gap` apart."""
        values = self.values[:-gap] * _MIX + self.values[gap:]
        return _Hashes(values, self.owners[:-gap]).only(self.owners[:-gap] == self.owners[gap:])

    def triples(self) -> "_Hashes":
        """Hash every three parts of a sentence in a row."""
        values = self.values[:-2] * _MIX + self.values[1:-1] * _STEP + self.values[2:]
        return _Hashes(values, self.owners[:-2]).only(self.owners[:-2] == self.owners[2:])


def _idea_hashes(ideas_of_each: Sequence[int]) -> _Hashes:
    """Hash every idea of a sentence, and every two ideas that meet in it."""
    names = [
        [idea for idea in range(len(IDEAS)) if bits >> idea & 1] if bits else [] for bits in ideas_of_each
    ]
    values = [
        one * len(IDEAS) + other + 1
        for ideas in names
        for at, one in enumerate(ideas)
        for other in ideas[at:]
    ]
    counts = [len(ideas) * (len(ideas) + 1) // 2 for ideas in names]
    return _Hashes(np.array(values, dtype=np.uint64) * _STEP, _owners(counts))


def _owners(lengths: Sequence[int]) -> NDArray[np.uint64]:
    return np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)


def _hash(texts: Sequence[str]) -> NDArray[np.uint64]:
    return np.array([crc32(text.encode("utf-8", "replace")) for text in texts], dtype=np.uint64)


def _runs(texts: Sequence[str]) -> _Hashes:
    """Hash every four letters of a text in a row, so that words count that training never saw."""
    padded = [f" {text} " for text in texts]
    encoded = "".join(padded).encode("utf-32-le", "replace")
    codes = np.frombuffer(encoded, dtype=np.uint32).astype(np.uint64)
    owners = _owners([len(text) for text in padded])
    if len(codes) < _RUN:
        return _Hashes(codes[:0], owners[:0])
    runs = codes[: len(codes) - _RUN + 1].copy()
    for step in range(1, _RUN):
        runs = runs * np.uint64(1_114_113) + codes[step : len(codes) - _RUN + 1 + step]
    last = _RUN - 1
    return _Hashes(runs, owners[:-last]).only(owners[:-last] == owners[last:])


def _marks(words: Sequence[str], kind: str, *, label: bool) -> list[str]:
    marks = [f"kind {kind}", f"length {min(6, len(words) // 8)}", f"first {words[0] if words else ''}"]
    if len(words) > 1:
        marks.append(f"first {words[0]} {words[1]}")
    if label:
        marks.append("label")
    return marks


def _stems(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word[:_STEM] for word in words if len(word) >= _LEAST_STEM and word not in _SMALL)


def _places(parts: Sequence[_Hashes], count: int) -> list[Places]:
    """The places in the table of each of `count` sentences, sorted and without duplicates.

    A place is sorted together with the index of its sentence; `np.unique` takes several times as long.
    """
    places = _spread(np.concatenate([one.values for one in parts]))
    ordered = np.sort((np.concatenate([one.owners for one in parts]) << _OWNER_SHIFT) | places)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    ordered = ordered[first]
    ends = np.searchsorted(ordered, np.arange(1, count, dtype=np.uint64) << _OWNER_SHIFT)
    every = (ordered & np.uint64(SIZE - 1)).astype(np.int32)
    bounds = [0, *ends.tolist(), len(every)]
    return [every[start:end] for start, end in pairwise(bounds)]  # faster than `split`


def _spread(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread hashes over the table."""
    mixed = hashes * _MIX
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _STEP
    return (mixed >> np.uint64(32)) & np.uint64(SIZE - 1)


_RELATED_PLACE, _UNRELATED_PLACE = (
    int(place) for place in _spread(_hash(["related", "unrelated"]) + np.uint64(6))
)


WEIGHTS: Final = Path(__file__).parent / "weights" / "poison.npz"
_MOST_SCORES: Final = 16_384
_MOST_FEATURES: Final = 4_096
_MOST: Final = 400
_LEAST_WORDS: Final = 4
_LOOKED_AT: Final = 120
_COUNTED: Final = 40
_READ_WHOLE: Final = 120
_WORST: Final = 40
_MOST_WORD_WEIGHTS: Final = 65_536
LONG: Final = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredSentence:
    """One sentence of a text: its place in a definition, as written, folded, and its kind."""

    where: str
    shown: str
    folded: str
    kind: str
    label: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """The sentence of a text that reads most like an order to a model, and its score.

    From a threshold on, the gateway withholds the text. `clears` means that a definition is long and was read
    to its end, and that no sentence would be withheld alone. A finding about its wording is then likely
    chance.
    """

    value: float
    clears: bool = False
    where: str = ""
    shown: str = ""


@dataclass(frozen=True, kw_only=True)
class ScorerWeights:
    """The result of training: the table, and the scores from which a definition and an answer are held.

    With every sentence there is another chance that an honest one scores high. Therefore `slope` times the
    logarithm of their number is subtracted; at most 40 of them count.
    """

    table: Table
    held_from: float
    slope: float
    answers_from: float


def read_sentences(
    definition: Mapping[str, Any], read: Iterable[Passage] | None = None
) -> Iterator[ScoredSentence]:
    """Yield the sentences of a definition in its order, at most 400; `read` are its passages, if known."""
    remaining, count = MAX_CHARACTERS, 0
    for passage in passages(definition) if read is None else read:
        text = passage.text[:remaining]
        remaining -= len(text)
        parts = [(text, " ".join(fold(text).split()))] if passage.label else plain_parts(text)
        for part, folded in parts:
            if not passage.label and _is_empty(folded):
                continue
            kind = kind_of(passage.where)
            yield ScoredSentence(
                where=passage.where, shown=part, folded=folded, kind=kind, label=passage.label
            )
            count += 1
            if count >= _MOST:
                return
        if remaining <= 0:
            return


def read_text(text: str) -> list[ScoredSentence]:
    """Return the sentences of a text that is no definition, such as an answer."""
    return [
        ScoredSentence(where="", shown=part, folded=folded, kind=ANSWER)
        for part, folded in plain_parts(text[:MAX_CHARACTERS])
        if not _is_empty(folded)
    ]


def _is_empty(folded: str) -> bool:
    """Whether a sentence says nothing: a repeated word scores like nothing in the training data."""
    return len(set(folded.split(" ")[:_LOOKED_AT])) < _LEAST_WORDS and folded.isascii()


def windows_of(
    sentences_read: Sequence[ScoredSentence], numbers: Sequence[int] | None = None
) -> list[tuple[int, ...]]:
    """Return the windows to score by their places: each sentence alone, and with the one that follows it.

    `numbers` are those of the sentences in their text, if some are left out.
    """
    following = numbers or range(len(sentences_read))
    alone = [(place,) for place in range(len(sentences_read))]
    return alone + [
        (place, place + 1)
        for place, (one, another) in enumerate(pairwise(sentences_read))
        if not one.label and not another.label and following[place + 1] == following[place] + 1
    ]


def about(definition: Mapping[str, Any], sentences_read: Sequence[ScoredSentence]) -> frozenset[str]:
    """Return the subject of a definition: its names, those of its parameters, and its first sentence."""
    names = [str(definition.get(key) or "") for key in ("name", "title")]
    first = next((one.folded for one in sentences_read if not one.label), "")
    return subject([*names, *(one.folded for one in sentences_read if one.label)], first)


class Scorer:
    """Scores definitions and other texts by weights.

    It caches sentences, which servers repeat, and the scores of definitions, which every connection brings
    again.
    """

    def __init__(self, weights: ScorerWeights) -> None:
        self.weights = weights
        self._features: dict[tuple[str, str, bool], tuple[SentenceFeatures, float]] = {}
        self._scores: dict[str, Score] = {}
        self._words: dict[str, float] = {}

    def score(self, definition: Mapping[str, Any], read: Iterable[Passage] | None = None) -> Score:
        """Return the highest score of any window of a definition; `read` are its passages, if known."""
        try:
            key = content_hash(canonical(definition))
        except RecursionError:  # nested deeper than the JSON of an honest server
            return self._score_definition(definition, read)
        score = self._scores.get(key)
        if score is None:
            score = self._scores[key] = self._score_definition(definition, read)
            if len(self._scores) > _MOST_SCORES:  # several threads may do this at once
                self._scores.clear()
        return score

    def score_text(self, text: str) -> Score:
        """Return the highest score of any window of a text that is no definition.

        Of a long text it reads the sentences whole, with their neighbours, that a look at their single words
        finds worst.
        """
        read = read_text(text)
        numbers = self._worst_by_word(read)
        best = self._score([read[number] for number in numbers], frozenset(), numbers)
        return replace(best, value=best.value - discount(len(read), self.weights.slope))

    def _worst_by_word(self, read: Sequence[ScoredSentence]) -> Sequence[int]:
        """The numbers of the sentences to score, in their order: all of a short text."""
        if len(read) <= _READ_WHOLE:
            return range(len(read))
        words = [_WORD.findall(one.folded)[:_MOST_WORDS] for one in read]
        sums = [sum(map(self._word_weight, one)) / math.sqrt(len(one) + 1) for one in words]
        worst = sorted(range(len(read)), key=sums.__getitem__, reverse=True)[:_WORST]
        near = {number + step for number in worst for step in (-1, 0, 1)}
        return sorted(near & set(range(len(read))))

    def _word_weight(self, word: str) -> float:
        """The weight of a word by itself."""
        weight = self._words.get(word)
        if weight is None:
            place = int(_spread(_hash(["0" if word.isdigit() else word]) + np.uint64(1))[0])
            weight = float(self.weights.table.values[place])
            if len(self._words) >= _MOST_WORD_WEIGHTS:  # several threads may do this at once
                self._words.clear()
            self._words[word] = weight
        return weight

    def _score_definition(self, definition: Mapping[str, Any], read: Iterable[Passage] | None) -> Score:
        sentences_read = list(read_sentences(definition, read))
        best = self._score(sentences_read, about(definition, sentences_read))
        value = best.value - discount(len(sentences_read), self.weights.slope)
        # A definition at the limit is not cleared, so padding does not help.
        clears = LONG <= len(sentences_read) < _MOST and best.value < self.weights.held_from
        return replace(best, value=value, clears=clears)

    def _score(
        self,
        sentences_read: Sequence[ScoredSentence],
        subjects: frozenset[str],
        numbers: Sequence[int] | None = None,
    ) -> Score:
        """The best window, without a discount; of two sentences it shows the worse one."""
        if not sentences_read:
            return Score(value=float("-inf"))
        windows = windows_of(sentences_read, numbers)
        scores = self._scores_of(windows, sentences_read, subjects)
        best = int(scores.argmax())
        shown = sentences_read[max(windows[best], key=lambda place: float(scores[place]))]
        return Score(value=float(scores[best]), where=shown.where, shown=shown.shown)

    def _scores_of(
        self,
        windows: Sequence[tuple[int, ...]],
        sentences_read: Sequence[ScoredSentence],
        subjects: frozenset[str],
    ) -> NDArray[np.float32]:
        """The score of each window; that of two sentences is of their features together."""
        found = self._features_of([(one.folded, one.kind, one.label) for one in sentences_read])
        columns = [
            (
                total,
                len(glance.plain) + len(glance.runs),
                len(glance.stems),
                sum(stem in subjects for stem in glance.stems),
            )
            for glance, total in found
        ]
        values = np.array(columns, np.float32)
        first = np.array([window[0] for window in windows])
        second = np.array([window[-1] for window in windows])
        summed = values[first] + values[second] * (second != first)[:, None]
        totals, sizes, stems, shared = summed.T
        share = shared / np.maximum(stems, 1)
        related, unrelated = self.weights.table.relation
        totals = totals + related * share * _RELATED + unrelated * (share == 0)
        scores: NDArray[np.float32] = totals * (_SCALE / np.sqrt(sizes + 2)) + self.weights.table.bias
        return scores

    def _features_of(self, keys: Sequence[tuple[str, str, bool]]) -> list[tuple[SentenceFeatures, float]]:
        """The features of sentences with their totals; new ones are computed together."""
        cached = {key: features for key in keys if (features := self._features.get(key)) is not None}
        new = [key for key in dict.fromkeys(keys) if key not in cached]
        if new:
            if len(self._features) + len(new) > _MOST_FEATURES:  # several threads may do this at once
                self._features.clear()
            for key, glance in zip(new, features_of(new), strict=True):
                cached[key] = self._features[key] = (glance, glance.total(self.weights.table))
        return [cached[key] for key in keys]


def discount(sentences: int, slope: float) -> float:
    """Return what is subtracted from the highest score of so many sentences."""
    return slope * math.log(min(max(sentences, 1), _COUNTED))


@cache
def bundled_scorer() -> Scorer:
    """Return the scorer that ships with the package.

    Raises:
        OSError: Its weights cannot be read.
        ValueError: Its weights are damaged.
    """
    return load(WEIGHTS)


def load(path: Path) -> Scorer:
    """Load a scorer with the weights of a file; it raises the same errors as `bundled_scorer`."""
    try:
        with path.open("rb") as data, np.load(data, allow_pickle=False) as file:
            return Scorer(unpack_weights(file))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"the weights of the poisoning scorer are missing: {path}. Install maitred again"
        ) from error
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, ValueError) as error:
        raise ValueError(
            f"the weights of the poisoning scorer are damaged: {path}. Install maitred again"
        ) from error


def pack_weights(
    table: NDArray[np.float32], bias: float, held_from: float, slope: float, answers_from: float
) -> dict[str, Any]:
    """Make the content of a weights file: the table in 255 steps, its scale, and the rest."""
    scale = float(np.abs(table).max()) / 127 or 1.0
    small = np.round(table / scale).astype(np.int8)
    return {
        "table": small,
        "rest": np.array([scale, bias, held_from, slope, answers_from], dtype=np.float64),
    }


def unpack_weights(file: Mapping[str, Any]) -> ScorerWeights:
    """Read the weights from the content of a file.

    Raises:
        KeyError: A field is missing.
        ValueError: A field has another shape, or is not a number.
    """
    if file["table"].shape != (SIZE,) or not np.isfinite(file["rest"]).all():
        raise ValueError("the table has another size, or a field is not a number")
    scale, bias, held_from, slope, answers_from = (float(value) for value in file["rest"])
    table = Table(values=file["table"].astype(np.float32) * np.float32(scale), bias=bias)
    return ScorerWeights(table=table, held_from=held_from, slope=slope, answers_from=answers_from)
