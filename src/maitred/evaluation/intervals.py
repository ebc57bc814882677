"""Confidence intervals of means over queries, by the bootstrap; differences are paired query by query.

The queries are drawn again with replacement, with a fixed seed, and the interval holds 95 % of the means. All
measures share the draws. The share of things that are counted has Wilson's interval, which is right for few
things, too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_DRAWS: Final = 2_000
_SEED: Final = 29
_EDGES: Final = (2.5, 97.5)
_Z: Final = 1.959964
"""Standard deviations on either side of the mean that hold 95 % of a normal distribution."""
_CELLS: Final = 4_000_000
"""Numbers in memory at a time."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean, and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


def share_interval(part: int, of: int) -> Interval | None:
    """Return the share of `part` things among `of`, with its 95 % interval; `None` if there are no things.

    The interval is Wilson's (1927): it does not close around 0 or 1 where few things were counted.
    """
    if not of:
        return None
    share, z2 = part / of, _Z * _Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return Interval(mean=share, low=max(0.0, middle - half), high=min(1.0, middle + half))


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
