"""How deeply a JSON value is nested, found level by level: recursion ends where a value is hostile."""

import math
from collections.abc import Mapping
from typing import Any, Final

_LEAVES: Final = frozenset({str, int, float, bool, type(None)})


def depth_within(value: Any, limit: int) -> bool:
    """Whether a JSON value has at most so many levels; a number or text alone is one."""
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if isinstance(outer, Mapping | list)
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
        ]
        if not level:
            return True
    return False


def size_of(value: Any, limit: int) -> tuple[int, int]:
    """How many levels a JSON value has, and how many parts; what is deeper than `limit` does not count."""
    depth = parts = 0
    level: list[Any] = [value]
    while level and depth <= limit:
        depth += 1
        parts += len(level)
        deeper: list[Any] = []
        for item in level:
            if type(item) in _LEAVES:  # quicker to know than that it is no mapping
                continue
            if isinstance(item, Mapping):
                deeper.extend(item.values())
            elif isinstance(item, list | tuple):
                deeper.extend(item)
        level = deeper
    return depth, parts


def is_finite(value: Any) -> bool:
    """Whether all numbers in a JSON value are finite."""
    if isinstance(value, Mapping):
        return all(map(is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
