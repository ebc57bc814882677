"""The lexical half of search: BM25F over split and stemmed words, as numpy arrays.

A document is a row; a row number is never used for another document. Postings are in segments, one for each
batch of documents. Segments of similar size are merged, so that ten new documents cost only their own work.
The weight of a word depends on its field and saturates with repetition.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from maitred.search.base import ToolDocument
from maitred.search.spelling import Lexicon, Spellings
from maitred.search.tokenize import index_terms, term_trigrams

_K1 = 1.2
_WEIGHTS = (3.0, 1.5, 1.0, 0.7, 0.4)  # name, title, description, parameters, server
_B = (0.3, 0.3, 0.4, 0.75, 0.0)
_AVERAGE = (4.0, 4.0, 25.0, 20.0, 2.0)  # words of a field; constant, so that rows keep their weights
_MOST_REPEATED = 3
_TYPO_SHARE = 0.45
_TYPO_WEIGHT = 0.7
_TYPO_TERMS = 3


@dataclass(frozen=True)
class _Segment:
    """Postings sorted by term: those of `terms[i]` are `rows[starts[i]:starts[i + 1]]`."""

    terms: NDArray[np.int32]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class LexicalScores:
    """The result of a query: a score for each row, and how much of the query each row covers (0 to 1)."""

    scores: NDArray[np.float32]
    coverage: NDArray[np.float32]
    rare: float
    """The weight of a word that no document has: the unit for scores in catalogs of different size."""


class LexicalIndex:
    """Scores all rows for a query. Not thread-safe; `maitred.search.index` has the lock."""

    def __init__(self) -> None:
        self._terms: dict[str, int] = {}
        self._counts: NDArray[np.int32] = np.zeros(1024, np.int32)
        self._segments: list[_Segment] = []
        self._alive: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._documents = 0
        self._trigrams: dict[str, list[int]] = {}
        self._trigram_terms = 0
        self._spellings: list[str] = []
        self._written = Spellings()

    def add(self, rows: Sequence[int], documents: Iterable[ToolDocument], capacity: int) -> None:
        """Index documents under row numbers below `capacity`."""
        terms, places, weights = array("i"), array("i"), array("f")
        for row, document in zip(rows, documents, strict=True):
            weights_here = word_weights(document)
            for text in field_texts(document):
                self._written.add(text)
            terms.extend(self._term(term) for term in weights_here)
            places.extend([row] * len(weights_here))
            weights.extend(weights_here.values())
        self._grow(capacity)
        self._alive[list(rows)] = True
        self._documents += len(rows)
        if terms:
            numbers = np.frombuffer(terms, np.int32), np.frombuffer(places, np.int32)
            self._append(*numbers, np.frombuffer(weights, np.float32))

    def remove(self, rows: Sequence[int]) -> None:
        """Remove documents; the next merge drops their postings."""
        self._alive[list(rows)] = False
        self._documents -= len(rows)
        removed = np.zeros(len(self._alive), np.bool_)
        removed[list(rows)] = True
        for segment in self._segments:
            hit = removed[segment.rows]
            if hit.any():
                of_term = np.repeat(segment.terms, np.diff(segment.starts))
                np.subtract.at(self._counts, of_term[hit], 1)

    def search(self, terms: Sequence[str], capacity: int, *, misspelled: bool = False) -> LexicalScores:
        """Score every row for the terms of a query, as `maitred.search.tokenize.query_terms` gives them.

        If no word is known, or if `misspelled`, an unknown word matches words of similar spelling.
        """
        scores = np.zeros(capacity, np.float32)
        covered = np.zeros(capacity, np.float32)
        total = 0.0
        for alternatives in self._resolve(terms, each=misspelled):
            idf = max((self._idf(number) for number, _ in alternatives), default=self._idf(-1))
            total += idf
            for number, share in alternatives:
                for rows, weights in self._postings(number):
                    scores[rows] += weights * np.float32(self._idf(number) * share)
                    covered[rows] += np.float32(idf * share)
        scores[~self._alive[:capacity]] = 0
        coverage = np.minimum(covered / np.float32(max(total, 1e-9)), 1)
        return LexicalScores(scores, coverage, self._idf(-1))

    def detach(self) -> None:
        """Share no table with the index that this one is a shallow copy of; segments never change."""
        self._terms, self._segments = dict(self._terms), list(self._segments)
        self._counts, self._alive = self._counts.copy(), self._alive.copy()
        self._trigrams, self._trigram_terms, self._spellings = {}, 0, []
        self._written = copy(self._written)
        self._written.detach()

    def resolve(self, term: str, *, alike: bool) -> list[tuple[str, float]]:
        """Return the indexed words that a term of a query counts for, with the weight of each in this index.

        They are the term itself, or with `alike` words of similar spelling; none if there are none.
        """
        found = self._exact(term) or (self._alike(term) if alike else [])
        return [
            (term if share == 1 else self._spellings[number], self._idf(number) * share)
            for number, share in found
        ]

    def occurs(self, words: Iterable[str], mask: NDArray[np.bool_]) -> bool:
        """Return whether a row of the mask has one of these indexed words."""
        numbers = [self._terms[word] for word in words if word in self._terms]
        return any(bool(mask[rows].any()) for number in numbers for rows, _ in self._postings(number))

    def lexicon(self, mask: NDArray[np.bool_]) -> Lexicon:
        """Return what the rows of a mask say of words."""

        def count(terms: Iterable[str]) -> dict[str, int]:
            return {term: self._count_in(term, mask) for term in terms}

        return Lexicon(counts=count, spellings=self._written)

    # Terms.

    def _count_in(self, term: str, mask: NDArray[np.bool_]) -> int:
        number = self._terms.get(term, -1)
        if number < 0 or not self._counts[number]:
            return 0
        return sum(int(np.count_nonzero(mask[rows])) for rows, _ in self._postings(number))

    def _term(self, term: str) -> int:
        number = self._terms.setdefault(term, len(self._terms))
        if number >= len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        return number

    def _idf(self, number: int) -> float:
        count = float(self._counts[number]) if number >= 0 else 0.0
        return float(np.log1p((self._documents - count + 0.5) / (count + 0.5)))

    def _resolve(self, terms: Sequence[str], *, each: bool) -> list[list[tuple[int, float]]]:
        """Return the indexed words for each term, with a share: itself, or words of similar spelling."""
        exact_matches = [self._exact(term) for term in terms]
        if any(exact_matches) and not each:
            return exact_matches
        return [exact or self._alike(term) for exact, term in zip(exact_matches, terms, strict=True)]

    def _exact(self, term: str) -> list[tuple[int, float]]:
        number = self._terms.get(term, -1)
        return [(number, 1.0)] if number >= 0 and self._counts[number] > 0 else []

    def _alike(self, term: str) -> list[tuple[int, float]]:
        """Return the indexed words that share most letter groups with a word that is not indexed."""
        self._spell()
        trigrams = term_trigrams(term)
        common_counts: Counter[int] = Counter()
        for trigram in trigrams:
            common_counts.update(self._trigrams.get(trigram, ()))
        by_share = sorted(
            (2 * common / (len(trigrams) + len(self._spellings[number]) + 2), number)
            for number, common in common_counts.items()
            if self._counts[number] > 0
        )
        near = [(share, number) for share, number in by_share[-_TYPO_TERMS:] if share >= _TYPO_SHARE]
        return [(number, share * _TYPO_WEIGHT) for share, number in near]

    def _spell(self) -> None:
        if self._trigram_terms == len(self._terms):
            return
        self._spellings = list(self._terms)
        for number in range(self._trigram_terms, len(self._spellings)):
            for trigram in term_trigrams(self._spellings[number]):
                self._trigrams.setdefault(trigram, []).append(number)
        self._trigram_terms = len(self._spellings)

    # Postings.

    def _postings(self, number: int) -> Iterable[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        for segment in self._segments:
            at = int(np.searchsorted(segment.terms, number))
            if at < len(segment.terms) and segment.terms[at] == number:
                start, end = segment.starts[at], segment.starts[at + 1]
                yield segment.rows[start:end], segment.weights[start:end]

    def _append(
        self, terms: NDArray[np.int32], rows: NDArray[np.int32], weights: NDArray[np.float32]
    ) -> None:
        np.add.at(self._counts, terms, 1)
        self._segments.append(_segment(terms, rows, weights))
        while len(self._segments) > 1 and len(self._segments[-1].rows) * 2 >= len(self._segments[-2].rows):
            self._segments[-2:] = [self._merge(*self._segments[-2:])]

    def _merge(self, *segments: _Segment) -> _Segment:
        terms = np.concatenate([np.repeat(s.terms, np.diff(s.starts)) for s in segments])
        rows = np.concatenate([s.rows for s in segments])
        weights = np.concatenate([s.weights for s in segments])
        alive = self._alive[rows]
        return _segment(terms[alive], rows[alive], weights[alive])

    def _grow(self, capacity: int) -> None:
        if capacity > len(self._alive):
            more = np.zeros(max(capacity, 2 * len(self._alive)) - len(self._alive), np.bool_)
            self._alive = np.concatenate([self._alive, more])


def _segment(terms: NDArray[np.int32], rows: NDArray[np.int32], weights: NDArray[np.float32]) -> _Segment:
    order = np.argsort(terms, kind="stable")
    distinct, starts = np.unique(terms[order], return_index=True)
    ends = np.append(starts, len(terms)).astype(np.int64)
    return _Segment(distinct.astype(np.int32), ends, rows[order], weights[order])


FIELDS: Final = ("name", "title", "description", "parameters", "server")
"""The parts of a document, in the order of `field_texts`."""


def field_texts(document: ToolDocument) -> tuple[str, ...]:
    """Return the texts of the parts of a document."""
    parameters = " ".join(f"{name} {about}" for name, about in document.parameters)
    return document.name, document.title, document.description, parameters, document.server


def word_weights(document: ToolDocument) -> dict[str, float]:
    """Return each word of a document with its saturated weight over all fields."""
    mass: dict[str, float] = {}
    for text, weight, b, average in zip(field_texts(document), _WEIGHTS, _B, _AVERAGE, strict=True):
        terms = index_terms(text)
        share = weight / (1 - b + b * len(terms) / average)
        for term, count in Counter(terms).items():
            mass[term] = mass.get(term, 0.0) + share * min(count, _MOST_REPEATED)
    return {term: value * (_K1 + 1) / (value + _K1) for term, value in mass.items()}
