"""Join the lexical and the vector scores of a phrase, and the rankings of several phrases.

The score of a phrase is a convex sum, whose share depends on the query. The figures below were chosen on the
training part of the tuning sets; `docs/search.md` has the ablation. The list of several phrases has no
duplicates, not too many tools of one server, and the best hits of every phrase.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from maitred.model.tools import ToolKey
from maitred.search.lexical import LexicalScores
from maitred.search.results import Hit
from maitred.search.tokenize import normalise_name

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


def fold(hits: Iterable[Hit], limit: int) -> list[Hit]:
    """Join hits that differ only by their server, until there are `limit` different ones."""
    distinct: dict[tuple[str, ...], Hit] = {}
    for hit in hits:
        tool = hit.tool
        key: tuple[str, ...] = (normalise_name(tool.key.name), tool.description, tool.title, tool.input_hash)
        if key in distinct and distinct[key].tool.server != tool.server:
            distinct[key] = replace(distinct[key], also=(*distinct[key].also, tool))
            continue
        if key in distinct:
            key = (*key, tool.name)
        if len(distinct) >= limit:
            break
        distinct[key] = hit
    return list(distinct.values())


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
