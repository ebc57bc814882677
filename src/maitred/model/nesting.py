"""How deeply a JSON value is nested, found level by level: recursion ends where a value is hostile."""

from collections.abc import Mapping
from typing import Any


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
