"""Compare two JSON Schemas, parameter by parameter, in words and by whether they ask for more.

A schema is flattened: each place in it has its type, its text and its remaining keywords. Two such layouts
are then compared place by place. References are compared as text and not followed, and definitions are places
like others. So a schema that contains itself takes no longer than its text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Weight = Literal["power", "wording", "less"]
"""Whether a change gives a server more power over its caller, neither more nor less, or less."""
Place = tuple[str, ...]

_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE: Final = frozenset({
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_TEXTS: Final = ("title", "description", "$comment")
_EXCERPT: Final = 160
_AROUND: Final = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaDifference:
    """A difference: a stable word for its kind, and a clause to follow the tool's name."""

    kind: str
    weight: Weight
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spot:
    """One place of a schema. Empty `types` mean any type."""

    types: frozenset[str] = frozenset()
    required: bool = False
    text: str = ""
    rest: Mapping[str, Any] = field(default_factory=dict)


def differences(before: Any, after: Any) -> Iterator[SchemaDifference]:
    """Differences from the input schema `before` to `after`; each is any JSON value, or `None` for none."""
    old, new = _layout(before), _layout(after)
    for place, spot in new.items():
        if place not in old:
            if place and place[:-2] in old:  # the content of a new place is not reported separately
                yield _added_difference(place, spot)
        elif spot != old[place]:
            yield from _place_differences(place, old[place], spot)
    for place in old:
        if place not in new and place[:-2] in new:
            yield SchemaDifference(kind="parameter_gone", weight="less", text=f"{_name(place)} is gone")


def _layout(schema: Any) -> dict[Place, _Spot]:
    """Every place of a schema; each step to it is two words, the keyword and the name or number in it."""
    spots: dict[Place, _Spot] = {}
    stack: list[tuple[Place, Any, bool]] = [((), schema, False)]
    while stack:
        place, value, required = stack.pop()
        if not isinstance(value, Mapping):
            spots[place] = _Spot(required=required, rest={} if value is None else {"": value})
            continue
        inner = list(_inside(value))
        keywords = {keyword for keyword, _, _, _ in inner}
        types, told_by = _types(value)
        covered = keywords | _NOT_REST | {told_by}
        rest = {k: v for k, v in value.items() if k not in covered}
        if isinstance(rest.get("required"), list):
            del rest["required"]
        text = "\n".join(str(value[key]) for key in _TEXTS if key in value)
        spots[place] = _Spot(types=types, required=required, text=text, rest=rest)
        stack += [((*place, keyword, name), part, need) for keyword, name, part, need in reversed(inner)]
    return spots


_NOT_REST: Final = frozenset({"type", "$ref", *_TEXTS})


def _inside(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, bool]]:
    """The direct subschemas: keyword, name, schema, and whether it is a required property."""
    raw_required = schema.get("required")
    required = (
        [name for name in raw_required if isinstance(name, str)] if isinstance(raw_required, list) else []
    )
    properties = schema.get("properties")
    for name in required:
        if not isinstance(properties, Mapping) or name not in properties:
            yield "properties", name, {}, True
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, Mapping):
            need = frozenset(required if keyword == "properties" else ())
            yield from ((keyword, name, part, name in need) for name, part in value.items())
        elif keyword in _LISTS and isinstance(value, list):
            is_covered = _types(schema)[1] == keyword  # a type alone is reported with the types
            yield from (
                (keyword, str(n), part, False)
                for n, part in enumerate(value, start=1)
                if not (is_covered and _is_type(part))
            )
        elif keyword in _SINGLE and isinstance(value, Mapping):
            yield keyword, "", value, False


def _is_type(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.keys() == {"type"}


def _types(schema: Mapping[str, Any]) -> tuple[frozenset[str], str]:
    """The types and references that a schema accepts, and the keyword of the alternatives that name them."""
    reference, kinds = schema.get("$ref"), schema.get("type")
    if reference is not None or kinds is not None:
        names = [*(kinds if isinstance(kinds, list) else [kinds]), reference]
        return frozenset(str(name) for name in names if name is not None), ""
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list) and options and all(isinstance(o, Mapping) for o in options):
            types_of_options = [_types({k: o.get(k) for k in ("type", "$ref")})[0] for o in options]
            if all(types_of_options):
                return frozenset().union(*types_of_options), keyword
    return frozenset(), ""


def _added_difference(place: Place, spot: _Spot) -> SchemaDifference:
    kind = f"{_name(place)} ({_type_text(spot.types)})"
    if spot.required:
        return SchemaDifference(
            kind="parameter_required", weight="power", text=f"{kind} was added and is required"
        )
    return SchemaDifference(kind="parameter_added", weight="wording", text=f"{kind} was added")


def _place_differences(place: Place, old: _Spot, new: _Spot) -> Iterator[SchemaDifference]:
    name = _name(place)
    if new.required and not old.required:
        yield SchemaDifference(kind="parameter_required", weight="power", text=f"{name} has become required")
    if old.required and not new.required:
        yield SchemaDifference(kind="parameter_optional", weight="less", text=f"{name} is no longer required")
    if new.types != old.types:
        text = f"{name} takes {_type_text(new.types)} instead of {_type_text(old.types)}"
        yield SchemaDifference(kind="parameter_type", weight=_type_weight(old.types, new.types), text=text)
    if new.text != old.text:
        yield SchemaDifference(
            kind="parameter_reworded", weight="wording", text=rewording_clause(name, old.text, new.text)
        )
    if new.rest != old.rest:
        keys = sorted({k for k in (*old.rest, *new.rest) if old.rest.get(k) != new.rest.get(k)})
        for key in keys:
            was, now = _value(old.rest, key), _value(new.rest, key)
            subject = f"{key!r} of {name}" if key else name
            yield SchemaDifference(
                kind="parameter_limits", weight="wording", text=f"{subject} {_became(was, now)}"
            )


def _type_weight(old: frozenset[str], new: frozenset[str]) -> Weight:
    if not new:
        return "power"
    if not old or new < old:
        return "less"
    harmless = {"null", "number"} if "integer" in old else {"null"}
    return "wording" if new - old <= harmless else "power"


def _type_text(types: Iterable[str]) -> str:
    return short(" or ".join(sorted(types))) or "anything"


def _name(place: Place) -> str:
    """A place in words for a person."""
    if not place:
        return "the schema"
    steps = list(zip(place[::2], place[1::2], strict=True))
    if any(keyword != "properties" for keyword, _ in steps):
        words = [f".{n}" if k == "properties" else f".{k}({n})" if n else "[]" if k == "items" else f".{k}"
                 for k, n in steps]  # fmt: skip
    else:
        words = [f".{name}" for _, name in steps]
    return f"parameter {short(''.join(words).removeprefix('.'))!r}"


def _value(rest: Mapping[str, Any], key: str) -> str | None:
    return json.dumps(rest[key], ensure_ascii=True, sort_keys=True) if key in rest else None


def _became(was: str | None, now: str | None) -> str:
    if was is None:
        return f"was added: {short(now or '')}"
    return f"was {short(was)} and is gone" if now is None else _from_to(was, now)


def rewording_clause(name: str, old: str, new: str) -> str:
    """A clause about a text that changed, with enough of both versions to show the difference."""
    if not old:
        return f"{name} got a text: {short(new)!r}"
    return f"{name} lost its text, {short(old)!r}" if not new else f"{name} was reworded {_from_to(old, new)}"


def _from_to(old: str, new: str) -> str:
    """The parts of two texts that differ, each with a little context."""
    same = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    start = max(0, same - _AROUND)
    rest = min(len(old), len(new)) - same
    tail = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    end = max(0, tail - _AROUND)
    cut = "…" if start else ""
    was, now = (cut + short(t[start : len(t) - end], more=bool(end)) for t in (old, new))
    return f"from {was!r} to {now!r}"


def short(text: str, *, more: bool = False) -> str:
    """The start of a text that fits in a line; an ellipsis marks a cut."""
    return text[:_EXCERPT] + "…" if more or len(text) > _EXCERPT else text
