"""From the rankings of phrases to one list: doubles folded, no server crowding, each phrase its due."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from maitred.model.tools import ToolKey
from maitred.search.found import Hit
from maitred.search.words import normalised

_FIRST = 5
_FROM_ONE_SERVER = 3
_AS_GOOD = 0.85


def fold(hits: Iterable[Hit], limit: int) -> list[Hit]:
    """Join hits that differ by their server alone, until there are `limit` different ones."""
    kept: dict[tuple[str, ...], Hit] = {}
    for hit in hits:
        tool = hit.tool
        key: tuple[str, ...] = (normalised(tool.key.name), tool.description, tool.title, tool.input_hash)
        if key in kept and kept[key].tool.server != tool.server:
            kept[key] = replace(kept[key], also=(*kept[key].also, tool))
            continue
        if key in kept:
            key = (*key, tool.name)
        if len(kept) >= limit:
            break
        kept[key] = hit
    return list(kept.values())


def spread(hits: Sequence[Hit]) -> list[Hit]:
    """Let no server fill more than three of the first five places while others have hits about as good."""
    taken: Counter[str] = Counter()
    first: list[Hit] = []
    rest = list(hits)
    while rest and len(first) < _FIRST:
        chosen = rest[0]
        if taken[chosen.tool.server] >= _FROM_ONE_SERVER:
            others = (hit for hit in rest if taken[hit.tool.server] < _FROM_ONE_SERVER)
            other = next(others, None)
            if other is not None and other.score >= _AS_GOOD * chosen.score:
                chosen = other
        rest.remove(chosen)
        first.append(chosen)
        taken[chosen.tool.server] += 1
    return first + rest


def merge(rankings: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Every phrase's best first, then every second best, and so on; no tool twice."""
    merged: dict[ToolKey, Hit] = {}
    for rank in range(max((len(ranking) for ranking in rankings), default=0)):
        for ranking in rankings:
            if rank < len(ranking) and len(merged) < limit:
                merged.setdefault(ranking[rank].tool.key, ranking[rank])
    return list(merged.values())
