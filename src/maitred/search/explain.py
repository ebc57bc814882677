"""Explain a ranking of the index: places, scores, and the words of each tool that the phrase has.

`HybridIndex.explain` calls it under its lock, with the scores that a search with the same arguments uses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maitred.model.tools import Tool, ToolKey
from maitred.search.base import ToolDocument
from maitred.search.fusion import Ranking
from maitred.search.lexical import FIELDS, field_texts, word_weights
from maitred.search.reasons import Cause, HitReasons, WordReason
from maitred.search.results import Hit
from maitred.search.tokenize import index_terms


@dataclass(frozen=True, kw_only=True)
class ReadWord:
    """A word of a phrase: as it is typed, and the indexed words that it counts for, with their weights."""

    word: str
    term: str
    read_as: Sequence[tuple[str, float]]


class RankingReader:
    """Reads the reasons for places from one ranking; `rows` has the row of each tool in it."""

    def __init__(self, ranking: Ranking, words: Sequence[ReadWord]) -> None:
        self._ranking = ranking
        self._words = words
        self._places: Mapping[int, int] = {row: at for at, row in enumerate(ranking.rows.tolist())}

    def place(self, row: int) -> int:
        """Return the place of a row in the ranking, from 1; 0 if it is no candidate."""
        return self._places.get(row, -1) + 1

    def reasons(self, hit: Hit, row: int, document: ToolDocument, *, place: int, cause: Cause) -> HitReasons:
        """Return the reasons for a hit at a place of the results."""
        at, ranking = self._places.get(row), self._ranking
        score = 0.0 if at is None else float(ranking.scores[at])
        return HitReasons(
            tool=hit.tool,
            place=place,
            band=hit.band,
            likely=hit.confidence,
            score=hit.score,
            words=None if at is None or ranking.words is None else float(ranking.words[at]),
            meaning=None if at is None or ranking.meaning is None else float(ranking.meaning[at]),
            used=max(hit.score - score, 0.0) if cause == "rank" else 0.0,
            matches=word_reasons(self._words, document),
            also=hit.also,
            cause=cause,
        )

    def hit(self, tool: Tool, row: int) -> Hit:
        """Return a tool of the ranking that is no result as a hit."""
        at = self._places[row]
        return Hit(
            tool=tool,
            score=float(self._ranking.scores[at]),
            confidence=float(self._ranking.confidences[at]),
        )


def word_reasons(words: Sequence[ReadWord], document: ToolDocument) -> list[WordReason]:
    """Return the words of a phrase that a document has, the one that counts most first."""
    weights = word_weights(document)
    by_field = [frozenset(index_terms(text)) for text in field_texts(document)]
    points = [
        (weights[other] * weight, one, other)
        for one in words
        for other, weight in one.read_as
        if other in weights
    ]
    total = sum(point for point, *_ in points) or 1.0
    return [
        WordReason(
            word=one.word,
            read_as="" if other == one.term else other,
            fields=[name for name, terms in zip(FIELDS, by_field, strict=True) if other in terms],
            share=point / total,
        )
        for point, one, other in sorted(points, key=lambda item: -item[0])
    ]


def folded_into(hits: Sequence[Hit], key: ToolKey) -> Hit | None:
    """Return the hit that shows a tool of another server as well."""
    return next((hit for hit in hits if any(one.key == key for one in hit.also)), None)
