"""The shape of answers: a JSON Schema of what a tool returned, without any of its values.

Pure. A name of a field is kept only if it looks like one: in `{"ann@example.com": {...}}` the names are data.
"""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

from pydantic_core import from_json

Schema = Mapping[str, Any]

_MAX_CHARS: Final = 64 * 1024
_MAX_DEPTH: Final = 3
_MAX_FIELDS: Final = 24
_SAMPLE: Final = 10
_ALIKE: Final = 4
"""So many fields with objects of the same fields are a table by keys."""

_FIELD = re.compile(r"[@$]?[A-Za-z_](?:[A-Za-z_-]|[0-9]{1,2}(?![0-9]))*")
_MAX_NAME: Final = 40
_TYPES: Final = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"))
_ANY: Final[Schema] = {}
_NULL: Final[Schema] = {"type": "null"}


def shape_of_answer(result: Mapping[str, Any]) -> Schema | None:
    """Return the shape of a result of `tools/call`; `None` if it is no text, or too long to be read."""
    structured = result.get("structuredContent")
    if isinstance(structured, dict | list):
        return shape_of(structured)
    blocks = result.get("content")
    if not isinstance(blocks, list) or not blocks:
        return None
    texts = [b["text"] for b in blocks if isinstance(b, Mapping) and isinstance(b.get("text"), str)]
    if len(texts) != len(blocks):
        return None
    return _shape_of_text(texts[0]) if len(texts) == 1 else {"type": "string"}


def _shape_of_text(text: str) -> Schema | None:
    if text.lstrip()[:1] not in ("{", "["):
        return {"type": "string"}
    if len(text) > _MAX_CHARS:
        return None
    try:
        return shape_of(from_json(text))
    except ValueError:
        return {"type": "string"}


def shape_of(value: Any, depth: int = 0) -> Schema:
    """Return the shape of a JSON value, down to a few levels."""
    if value is None:
        return _NULL
    if isinstance(value, Mapping):
        return _shape_of_object(value, depth)
    if isinstance(value, list):
        if not value or depth >= _MAX_DEPTH:
            return {"type": "array"}
        items = reduce(merge_shapes, (shape_of(item, depth + 1) for item in value[:_SAMPLE]))
        return {"type": "array", "items": items}
    return {"type": next((name for kind, name in _TYPES if isinstance(value, kind)), "string")}


def _shape_of_object(value: Mapping[str, Any], depth: int) -> Schema:
    if depth >= _MAX_DEPTH or not 0 < len(value) <= _MAX_FIELDS or not all(map(_is_field, value)):
        return {"type": "object"}
    if _is_table(list(value.values())):
        return {"type": "object"}
    properties = {name: shape_of(member, depth + 1) for name, member in value.items()}
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _is_field(name: str) -> bool:
    return len(name) <= _MAX_NAME and _FIELD.fullmatch(name) is not None


def _is_table(values: Sequence[Any]) -> bool:
    """Whether the values are objects with the same fields, so that their names are keys and no fields."""
    objects = [frozenset(value) for value in values if isinstance(value, Mapping)]
    return len(objects) == len(values) >= _ALIKE and len(set(objects)) == 1


def merge_shapes(one: Schema, other: Schema) -> Schema:
    """Return the shape that both fit: fields of one alone are optional, and `null` fits anywhere."""
    if other in (one, _NULL):
        return one
    if one == _NULL:
        return other
    kinds = {one.get("type"), other.get("type")}
    if kinds == {"integer", "number"}:
        return {"type": "number"}
    if len(kinds) > 1:
        return _ANY
    if kinds == {"array"}:
        items = [shape["items"] for shape in (one, other) if "items" in shape]
        return {"type": "array", "items": reduce(merge_shapes, items)} if items else {"type": "array"}
    return _merged_objects(one, other) if kinds == {"object"} else _ANY


def _merged_objects(one: Schema, other: Schema) -> Schema:
    if "properties" not in one or "properties" not in other:
        return {"type": "object"}
    first, second = one["properties"], other["properties"]
    names = list(dict.fromkeys([*first, *second]))
    if len(names) > _MAX_FIELDS:
        return {"type": "object"}
    properties = {
        name: merge_shapes(first[name], second[name])
        if name in first and name in second
        else first.get(name, second.get(name))
        for name in names
    }
    required = sorted({*one.get("required", ())} & {*other.get("required", ())})
    return {"type": "object", "properties": properties, "required": required}
