"""The figures of retrieval, as functions of one ranking and of what would have been right.

A ranking is a sequence of ids, best first, without repetition; relevance is yes or no. All figures lie
between 0 and 1, and none is defined where nothing is relevant.
"""

import math
from collections.abc import Collection, Sequence


def recall(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """The share of the relevant that is among the first `k`; below 1 where there are more than `k` of them.

    Raises:
        ValueError: Nothing is relevant.
    """
    wanted = _checked(relevant)
    return len(wanted.intersection(ranking[:k])) / len(wanted)


def ndcg(ranking: Sequence[str], relevant: Collection[str], k: int = 10) -> float:
    """Gain of the first `k`, each place weighing 1 / log2(1 + place), as a share of the best possible gain.

    Raises:
        ValueError: Nothing is relevant.
    """
    wanted = _checked(relevant)
    gain = sum(_discount(place) for place, found in enumerate(ranking[:k], 1) if found in wanted)
    return gain / sum(_discount(place) for place in range(1, min(len(wanted), k) + 1))


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str]) -> float:
    """One divided by the place of the first relevant one, 0 if there is none.

    Raises:
        ValueError: Nothing is relevant.
    """
    wanted = _checked(relevant)
    return next((1 / place for place, found in enumerate(ranking, 1) if found in wanted), 0.0)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least `share` (0 to 1) of them do not exceed; 0 of nothing."""
    if not values:
        return 0.0
    rank = math.ceil(share * len(values))
    return sorted(values)[min(max(rank, 1), len(values)) - 1]


def _checked(relevant: Collection[str]) -> frozenset[str]:
    if not relevant:
        raise ValueError("nothing is relevant, so there is nothing to find")
    return frozenset(relevant)


def _discount(place: int) -> float:
    return 1 / math.log2(1 + place)
