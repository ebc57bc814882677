"""Confidence intervals of means over queries, by the bootstrap; differences are paired query by query.

The queries are drawn again with replacement, with a fixed seed, and the interval holds 95 % of the means. All
measures share the draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_DRAWS: Final = 2_000
_SEED: Final = 29
_EDGES: Final = (2.5, 97.5)
_CELLS: Final = 4_000_000
"""Numbers in memory at a time."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean, and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


Measures = Mapping[str, float]
"""The measures of one query, by name."""


def intervals(queries: Sequence[Measures]) -> Mapping[str, Interval]:
    """Return the mean of each measure with its interval; every query must have the same measures."""
    import numpy as np  # noqa: PLC0415  # `maitred eval --help` need not wait for it

    if not queries:
        return {}
    names = list(queries[0])
    values = np.array([[one[name] for name in names] for one in queries])
    count = len(values)
    random = np.random.default_rng(_SEED)
    together = max(_CELLS // count, 1)
    means = np.concatenate(
        [
            random.multinomial(count, np.full(count, 1 / count), size=min(together, _DRAWS - start)) @ values
            for start in range(0, _DRAWS, together)
        ]
    )
    low, high = np.percentile(means / count, _EDGES, axis=0)
    ends = zip(names, values.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True)
    return {name: Interval(mean=mean, low=least, high=most) for name, mean, least, most in ends}


def differences(queries: Mapping[str, Measures], against: Mapping[str, Measures]) -> Mapping[str, Interval]:
    """Return by how much each measure is above that of another run, over the queries and measures of both."""
    pairs = [(queries[id_], against[id_]) for id_ in queries if id_ in against]
    names = [name for name in pairs[0][0] if all(name in other for _, other in pairs)] if pairs else []
    return intervals([{name: one[name] - other[name] for name in names} for one, other in pairs])
