"""Examples of calls from a schema: of values that the schema itself names, else of its types.

Pure. It writes no example where it would have to guess what a text means, but for a few known formats. So an
example may not fit every keyword of the schema: the caller checks it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from maitred.disclosure.signature import members, resolve_reference

_FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T09:30:00Z",
    "time": "09:30:00Z",
    "email": "ann@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "ipv4": "192.0.2.1",
    "hostname": "example.com",
}
_MAX_DEPTH: Final = 3
_MAX_STEPS: Final = 100
_MOST: Final = 3
_NOTHING: Final = object()


def call_examples(schema: Any) -> list[dict[str, Any]]:
    """Return a few sets of arguments: whole ones that the schema gives, then the required, then more.

    The last has also the optional parameters for which the schema names a value. Empty if there is none.
    """
    if not isinstance(schema, Mapping):
        return []
    found: list[dict[str, Any]] = []
    for arguments in _candidates(schema):
        if arguments and arguments not in found:
            found.append(arguments)
    return found[:_MOST]


def _candidates(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    whole = schema.get("examples")
    for one in whole[:_MOST] if isinstance(whole, list) else ():
        if isinstance(one, dict):
            yield one
    reader = _ExampleReader(schema)
    properties, required = members(schema, schema)
    needed = {name: reader.value(properties[name], name) for name in properties if name in required}
    if _NOTHING in needed.values():
        return
    yield needed
    named = {name: reader.named(properties[name]) for name in properties if name not in required}
    yield needed | {name: value for name, value in named.items() if value is not _NOTHING}


class _ExampleReader:
    """Reads values from one schema, with a bound on its steps."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = _MAX_STEPS

    def named(self, schema: Any) -> Any:
        """Return a value that a schema names; a default of null is none."""
        if not isinstance(schema, Mapping):
            return _NOTHING
        schema = resolve_reference(schema, self._root)
        examples = schema.get("examples")
        if isinstance(examples, list) and examples:
            return examples[0]
        for key in ("example", "const", "default"):
            if schema.get(key) is not None:
                return schema[key]
        enum = schema.get("enum")
        return (
            next((one for one in enum if one is not None), _NOTHING) if isinstance(enum, list) else _NOTHING
        )

    def value(self, schema: Any, name: str, depth: int = 0) -> Any:
        """Return a value that a schema names, or one of its type; `_NOTHING` if neither is there."""
        self._steps -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._steps < 0:
            return _NOTHING
        schema = resolve_reference(schema, self._root)
        if (named := self.named(schema)) is not _NOTHING:
            return named
        options = next((o for k in ("anyOf", "oneOf") if isinstance(o := schema.get(k), list)), None)
        if options is not None:
            values = (self.value(option, name, depth + 1) for option in options[:_MOST])
            return next((one for one in values if one is not _NOTHING and one is not None), _NOTHING)
        return self._of_type(schema, name, depth)

    def _of_type(self, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), None)
        if kind == "array":
            item = self.value(schema.get("items", {}), name, depth + 1)
            return [] if item is _NOTHING else [item]
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        least = schema.get("minimum", 1)
        number = least if isinstance(least, int | float) else 1
        simple = {"string": _text(schema, name), "integer": number, "number": number, "boolean": True}
        return simple.get(str(kind), _NOTHING)

    def _object(self, schema: Mapping[str, Any], depth: int) -> Any:
        properties, required = members(schema, self._root)
        values = {key: self.value(properties[key], key, depth + 1) for key in properties if key in required}
        return _NOTHING if _NOTHING in values.values() else values


def _text(schema: Mapping[str, Any], name: str) -> Any:
    """Return a text of a known format, else a placeholder with the name of the parameter."""
    if "format" in schema:
        return _FORMATS.get(str(schema["format"]), _NOTHING)
    return _NOTHING if "pattern" in schema else f"<{name}>"
