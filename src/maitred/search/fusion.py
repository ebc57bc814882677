"""Join the lexical and the vector scores of a phrase, and the rankings of several phrases.

The score of a phrase is a convex sum, whose share depends on the query. The figures below were chosen on the
training part of the tuning sets; `docs/search.md` has the ablation. The list of several phrases has no
duplicates, not too many tools of one server, and the best hits of every phrase.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from maitred.model.tools import Tool, ToolKey
from maitred.search.lexical import LexicalScores
from maitred.search.results import Hit
from maitred.search.tokenize import index_terms, normalise_name

CANDIDATES: Final = 100
_BREAK = re.compile(r"(?<![.!?;,\n])[.!?;,\n]+(?=\s|$)")
_SHARE = (0.1, 0.1)  # of the lexical score: constant, and by the number of rare words in the best hit
_SHARE_LEAST, _SHARE_MOST = 0.15, 0.7
_HYBRID = (-5.1, 0.8, 7.6)  # confidence: constant, by coverage, by cosine
_LEXICAL = (-3.3, 2.3, 0.85)  # without vectors: constant, by coverage, by rare words matched
_DENSE = (-4.9, 7.9)  # without words: constant, by cosine


@dataclass(frozen=True)
class Ranking:
    """Rows, best first. `scores` order them; `confidences` (0 to 1) say how likely each serves the query.

    `share` of a score is that of words, the rest that of meaning. `words` and `meaning` are both (0 to 1) for
    each row; `None` if they do not count.
    """

    rows: NDArray[np.intp]
    scores: NDArray[np.float32]
    confidences: NDArray[np.float32]
    share: float = 1.0
    words: NDArray[np.float32] | None = None
    meaning: NDArray[np.float32] | None = None


def fuse(lexical: LexicalScores, cosines: NDArray[np.float32] | None, mask: NDArray[np.bool_]) -> Ranking:
    """Rank the rows of a mask.

    Args:
        lexical: Scores of all rows; 0 means that no word matches. Only a share of 0 ignores them.
        cosines: Similarities of all rows (-1 if there is none), or `None` without an embedder.
        mask: The rows that the caller may see.
    """
    words = np.where(mask, lexical.scores, 0)
    first = _top(words, words > 0)
    if cosines is None:
        order = first[np.argsort(-words[first], kind="stable")]
        best = words[order[0]] if len(order) else 1.0
        scores = (words[order] / best).astype(np.float32)
        rare_share = (words[order] / lexical.rare).astype(np.float32)
        likely = _likely(_LEXICAL, lexical.coverage[order], rare_share)
        return Ranking(order, scores, likely, words=scores)
    near = np.where(mask, cosines, -1)
    second = _top(near, near > 0)
    rows = np.union1d(first, second)
    most = float(words[first].max(initial=0)) / lexical.rare
    share = min(max(_SHARE[0] + _SHARE[1] * most, _SHARE_LEAST), _SHARE_MOST) if len(first) else 0.0
    fewest = len(first) < CANDIDATES  # then all matches are in, and the next row would match nothing
    lexically = _scale(words[rows], words[first], 0.0 if fewest else float(words[first].min()))
    nearly = _scale(near[rows], near[second], float(near[second].min(initial=1.0)))
    scores = share * lexically + (1 - share) * nearly
    order = np.argsort(-scores, kind="stable")
    rows = rows[order]
    confidences = _likely(_HYBRID, lexical.coverage[rows], near[rows])
    return Ranking(
        rows,
        scores[order].astype(np.float32),
        confidences,
        share=share,
        words=lexically[order],
        meaning=nearly[order],
    )


def only_vectors(cosines: NDArray[np.float32], mask: NDArray[np.bool_]) -> Ranking:
    """Rank by similarity alone."""
    near = np.where(mask, cosines, -1)
    rows = _top(near, near > 0)
    rows = rows[np.argsort(-near[rows], kind="stable")]
    return Ranking(rows, near[rows], _likely(_DENSE, near[rows]), share=0.0, meaning=near[rows])


def clauses(text: str) -> Sequence[str]:
    """Return the parts of a query between full stops, commas and the like; none if there is one part."""
    parts = [part.strip() for part in _BREAK.split(text)]
    parts = [part for part in parts if len(part.split()) > 1]
    return parts if len(parts) > 1 else []


def _top(scores: NDArray[np.float32], among: NDArray[np.bool_]) -> NDArray[np.intp]:
    rows = np.flatnonzero(among)
    if len(rows) > CANDIDATES:
        rows = rows[np.argpartition(-scores[rows], CANDIDATES)[:CANDIDATES]]
    return rows


def _scale(scores: NDArray[np.float32], top: NDArray[np.float32], least: float) -> NDArray[np.float32]:
    """Scale scores so that `least` is 0 and the greatest of `top` is 1."""
    most = float(top.max(initial=least))
    if most <= least:
        return (scores >= most).astype(np.float32) if len(top) else np.zeros_like(scores)
    return np.asarray(np.clip((scores - least) / (most - least), 0, 1), np.float32)


def _likely(weights: Sequence[float], *features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the likelihood that a row serves the query, by a logistic model of some features."""
    constant, *rest = weights
    sums = constant + sum(weight * feature for weight, feature in zip(rest, features, strict=True))
    return np.asarray(1 / (1 + np.exp(-sums)), np.float32)


_FIRST = 5
_FROM_ONE_SERVER = 3
_AS_GOOD = 0.85
_FEWEST_WORDS = 4
_MORE_WORDS = 3
_MORE_CHARACTERS = 60


Seniority = Callable[[Tool], tuple[Any, ...]]
"""The order of equal tools: the one that was approved, or else known, before the others is the least."""


def fold(hits: Iterable[Hit], limit: int, seniority: Seniority) -> list[Hit]:
    """Join hits that differ only by their server under the first by seniority, up to `limit` different ones.

    It has the place and the score of the best of them.
    """
    groups: dict[tuple[str, ...], list[Hit]] = {}
    for hit in hits:
        tool = hit.tool
        key: tuple[str, ...] = (normalise_name(tool.key.name), tool.description, tool.title, tool.input_hash)
        if any(one.tool.server == tool.server for one in groups.get(key, ())):
            key = (*key, tool.name)
        if key not in groups and len(groups) >= limit:
            break
        groups.setdefault(key, []).append(hit)
    return [_joined(group, seniority) for group in groups.values()]


def _joined(group: Sequence[Hit], seniority: Seniority) -> Hit:
    if len(group) == 1:
        return group[0]
    first, *others = sorted((hit.tool for hit in group), key=seniority)
    return replace(group[0], tool=first, also=others, confidence=max(hit.confidence for hit in group))


def put_copies_back(hits: Sequence[Hit], seniority: Seniority) -> list[Hit]:
    """Move tools that copy an older one of another server behind the first five places.

    A copy has the words of the other tool and up to three more, or lacks up to three. Where it goes before
    the older tool, that one gets its place.
    """
    first: list[Hit] = []
    copies: list[Hit] = []
    for position, hit in enumerate(hits):
        if len(first) >= _FIRST:
            return [*first, *copies, *hits[position:]]
        at = next((at for at, other in enumerate(first) if is_copy(hit.tool, other.tool)), None)
        if at is None:
            first.append(hit)
        elif seniority(hit.tool) < seniority(first[at].tool):
            copies.append(first[at])
            first[at] = replace(hit, score=max(hit.score, first[at].score))
        else:
            copies.append(hit)
    return [*first, *copies]


def is_copy(tool: Tool, other: Tool) -> bool:
    """Whether two tools of different servers have the same words, but for a few that one has more."""
    if tool.server == other.server or abs(len(tool.description) - len(other.description)) > _MORE_CHARACTERS:
        return False
    words, others = _words_of(tool), _words_of(other)
    few, many = (words, others) if len(words) <= len(others) else (others, words)
    return len(few) >= _FEWEST_WORDS and len(many) - len(few) <= _MORE_WORDS and few <= many


def _words_of(tool: Tool) -> AbstractSet[str]:
    return _words_in(f"{tool.key.name} {tool.title} {tool.description}")


@lru_cache(maxsize=2_048)
def _words_in(text: str) -> AbstractSet[str]:
    return frozenset(index_terms(text))


def spread(hits: Sequence[Hit]) -> list[Hit]:
    """Limit a server to three of the first five places while others have hits of similar score."""
    places: Counter[str] = Counter()
    first: list[Hit] = []
    rest = list(hits)
    while rest and len(first) < _FIRST:
        hit = rest[0]
        if places[hit.tool.server] >= _FROM_ONE_SERVER:
            alternatives = (hit for hit in rest if places[hit.tool.server] < _FROM_ONE_SERVER)
            alternative = next(alternatives, None)
            if alternative is not None and alternative.score >= _AS_GOOD * hit.score:
                hit = alternative
        rest.remove(hit)
        first.append(hit)
        places[hit.tool.server] += 1
    return first + rest


def merge(rankings: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Take every phrase's best first, then every second best, and so on; no tool twice."""
    hits: dict[ToolKey, Hit] = {}
    for rank in range(max((len(ranking) for ranking in rankings), default=0)):
        for ranking in rankings:
            if rank < len(ranking) and len(hits) < limit:
                hits.setdefault(ranking[rank].tool.key, ranking[rank])
    return list(hits.values())
