"""How much work a check of one value by a schema may take, computed before the check.

A schema of a kilobyte can make a checker try the same part of a value a billion times: each of its parts
tries ten others, each of those ten more. So this module counts the tries, as if none of them ended early. It
counts once for each part and each depth of a value, which takes time in proportion to the schema.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import inf, prod
from typing import Any, Final
from urllib.parse import unquote

MOST_TRIES: Final = 2_000_000
"""The most of one check: 0.15 s of processor time and 60 MB if all of them fail; measured 2026-11-23."""
_SAME: Final = ("$ref", "$dynamicRef", "$recursiveRef", "not", "if", "then", "else")
_SAME_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SAME_MAPS: Final = ("dependentSchemas", "dependencies")
_BELOW: Final = (
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "additionalProperties"),
    *("unevaluatedProperties", "propertyNames"),
)
_BELOW_MAPS: Final = ("properties", "patternProperties")
_AGAIN: Final = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""For these keywords a checker goes through all subschemas of the same value once more."""
_NAMING: Final = frozenset({"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})
"""With these keywords, a reference may mean another schema than the one it names."""
_ELSEWHERE: Final = ("http://", "https://", "file:", "urn:")
_TRACING: Final = ("(?=", "(?!", "(?<", "\\1", "\\2", "\\3", "\\k", "++", "*+", "?+", "}+")
"""The parts of a pattern that need tries which may fail (backtracking)."""
_TRACED: Final = 500.0
_DEAR: Final = 10
_REPEATED: Final = re.compile(r"\)\{(\d{1,9})(?:,(\d{0,9}))?\}")
_MOST_REPEATED: Final = 2_000
_LONGEST: Final = 20_000
_MOST_PARTS: Final = 20_000


class SchemaWork:
    """Counts the tries that one schema may take; `inf` if they cannot be known."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._known: dict[tuple[int, int], float] = {}

    def of(self, nodes: int, depth: int) -> float:
        """The most tries for a value of so many parts, nested so deep. A plain value has one of each."""
        if self._is_unknown:
            return inf
        try:
            return nodes * self._tries(self._root, depth)
        except (
            RecursionError,
            LookupError,
            TypeError,
            ValueError,
        ):  # nested too deep, or a reference that leads nowhere
            return inf

    def _tries(self, schema: Any, depth: int) -> float:
        """The most tries for one part of a value, and for all parts on one way down from it."""
        key = (id(schema), depth)
        known = self._known.get(key)
        if known is not None:
            return known
        if not isinstance(schema, Mapping) or depth <= 0:
            return 1.0
        self._known[key] = inf  # a reference that comes back here never ends
        self._known[key] = tries = self._added(schema, depth)
        return tries

    def _added(self, schema: Mapping[str, Any], depth: int) -> float:
        same = sum(self._tries(part, depth) for part in self._on_same(schema))
        below = sum(self._tries(part, depth - 1) for key in _BELOW for part in _schemas(schema.get(key)))
        for key in _BELOW_MAPS:  # each property has one schema, and may fit several patterns
            tries = [self._tries(part, depth - 1) for part in _values(schema.get(key))]
            below += max(tries, default=0.0) if key == "properties" else sum(tries)
        pattern = schema.get("pattern")
        patterns = [pattern, *_values_of_keys(schema.get("patternProperties"))]
        own = 1.0 + sum(map(_traced, patterns)) + _compared(schema)
        return own + (same * 2 if not _AGAIN.isdisjoint(schema) else same) + below

    def _on_same(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for key in _SAME:
            part = schema.get(key)
            yield self._referred(part) if isinstance(part, str) else part
        for key in _SAME_LISTS:
            yield from _schemas(schema.get(key))
        for key in _SAME_MAPS:
            yield from _values(schema.get(key))

    def _referred(self, reference: str) -> Any:
        """The schema that a reference names. A remote one is never fetched, and any value fits it.

        Raises:
            LookupError: The reference names nothing that is known.
        """
        if reference.startswith(_ELSEWHERE):
            return None
        if reference not in ("", "#") and not reference.startswith("#/"):
            raise LookupError(reference)
        place: Any = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            place = place[int(key)] if isinstance(place, list) else place[key]
        return place

    @cached_property
    def _is_unknown(self) -> bool:
        """Whether references may mean another schema than they name, or the schema is too large to search."""
        waiting: list[Any] = list(self._root.values())
        refers, named, count = any(key in self._root for key in _SAME[:3]), False, 0
        while waiting:
            part = waiting.pop()
            count += 1
            if count > _MOST_PARTS:
                return True
            if isinstance(part, Mapping):
                refers = refers or any(isinstance(part.get(key), str) for key in _SAME[:3])
                named = named or any(isinstance(part.get(key), str) for key in _NAMING)
                waiting.extend(part.values())
            elif isinstance(part, list):
                waiting.extend(part)
        return refers and named


def _schemas(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, Mapping) else []


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else []


def _values_of_keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Mapping) else []


def _compared(schema: Mapping[str, Any]) -> float:
    """The lists of values or names that a checker compares with, one after the other."""
    members = _schemas(schema.get("enum"))
    dear = sum(isinstance(one, Mapping | list) for one in members)
    wanted = sum(len(_schemas(one)) + 1 for one in _values(schema.get("dependentRequired")))
    return float(len(members) - dear + _DEAR * dear + wanted)


def _traced(pattern: Any) -> float:
    """The tries of a pattern. One that repeats groups of repeated groups takes them for each character."""
    if not isinstance(pattern, str):
        return 0.0
    times = prod(max(1, int(found[-1] or found[0] or 1)) for found in _REPEATED.findall(pattern[:_LONGEST]))
    if times > _MOST_REPEATED or len(pattern) > _LONGEST:
        return inf
    return _TRACED if any(sign in pattern for sign in _TRACING) else 0.0
