"""The figures of retrieval, as functions of one ranking and of the relevant ids.

A ranking is a sequence of ids, best first, without repetition; relevance is yes or no, or for the gain a
grade. All figures are between 0 and 1. None is defined if nothing is relevant.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

_NO_GRADES: Final[Mapping[str, int]] = MappingProxyType({})


def recall(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant ids that is among the first `k`; below 1 if there are more than `k`.

    Raises:
        ValueError: Nothing is relevant.
    """
    relevant_ids = _require_relevant(relevant)
    return len(relevant_ids.intersection(ranking[:k])) / len(relevant_ids)


def hit(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return 1 if a relevant id is among the first `k`, else 0.

    Raises:
        ValueError: Nothing is relevant.
    """
    return float(not _require_relevant(relevant).isdisjoint(ranking[:k]))


def needs_met(shown: Collection[str], needs: Sequence[Collection[str]]) -> float:
    """Return the share of the needs of which at least one id is shown.

    Raises:
        ValueError: There are no needs.
    """
    _require_relevant([id_ for need in needs for id_ in need])
    ids = frozenset(shown)
    return sum(not ids.isdisjoint(need) for need in needs) / len(needs)


def ndcg(
    ranking: Sequence[str],
    relevant: Collection[str],
    k: int = 10,
    *,
    grades: Mapping[str, int] = _NO_GRADES,
) -> float:
    """Return the gain of the first `k`, divided by the best possible gain.

    The gain of an id is its grade / log2(1 + place); a relevant id without a grade has the grade 1.

    Raises:
        ValueError: Nothing is relevant.
    """
    gains = {id_: grades.get(id_, 1) for id_ in _require_relevant(relevant)}
    gain = sum(_discount(place) * gains.get(id_, 0) for place, id_ in enumerate(ranking[:k], 1))
    best = sorted(gains.values(), reverse=True)[:k]
    return gain / sum(_discount(place) * grade for place, grade in enumerate(best, 1))


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """Return one divided by the place of the first relevant id, 0 if there is none.

    Raises:
        ValueError: Nothing is relevant.
    """
    relevant_ids = _require_relevant(relevant)
    return next((1 / place for place, id_ in enumerate(ranking, 1) if id_ in relevant_ids), 0.0)


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; 0 for no values."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0 to 1) of them do not exceed; 0 for no values."""
    if not values:
        return 0.0
    rank = math.ceil(share * len(values))
    return sorted(values)[min(max(rank, 1), len(values)) - 1]


def _require_relevant(relevant: Collection[str]) -> frozenset[str]:
    if not relevant:
        raise ValueError("nothing is relevant, so there is nothing to find")
    return frozenset(relevant)


def _discount(place: int) -> float:
    return 1 / math.log2(1 + place)
