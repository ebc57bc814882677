"""Write in a few characters what a JSON Schema asks for: `str`, `int[]`, `"a"|"b"`, `{name: str, age?: int}`.

Models read this notation as well as the schema, at a twentieth of its length. The module accepts every schema
that servers really send: invalid, recursive, remote references, keywords of any draft.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_NAMES = {
    "string": "str",
    "integer": "int",
    "number": "num",
    "boolean": "bool",
    "null": "null",
    "array": "any[]",
}
_MAX_ENUM = 6
_MAX_ENUM_CHARACTERS = 80
_MAX_DEPTH = 3
_MAX_UNION = 5
_MAX_STEPS = 200
_MAX_PARTS = 50
_MAX_READ = 200  # parameters of a tool whose type is read
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]")


def parameters(schema: Any, *, nested: bool = True) -> Iterator[tuple[str, str, bool]]:
    """Yield each top-level parameter as `(name, type, required)`, required ones first, otherwise in order.

    It shows the content of objects only if `nested`.
    """
    if not isinstance(schema, Mapping):
        return
    properties, required = members(schema, schema)
    remaining = _MAX_READ
    for is_required in (True, False):
        for name, value in properties.items():
            if (name in required) is is_required:
                yield name, type_of(value, schema, nested=nested) if remaining > 0 else "any", is_required
                remaining -= 1


def members(schema: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return the properties of an object schema and the required names, `allOf` parts included."""
    schema = resolve_reference(schema, root)
    own_properties = schema.get("properties")
    properties = dict(own_properties) if isinstance(own_properties, Mapping) else {}
    names = schema.get("required")
    required = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    parts = schema.get("allOf")
    for part in parts[:_MAX_PARTS] if isinstance(parts, list) else ():
        if isinstance(part, Mapping) and part is not schema:
            inner = resolve_reference(part, root)
            more = inner.get("properties")
            properties |= dict(more) if isinstance(more, Mapping) else {}
            more = inner.get("required")
            required |= {name for name in more if isinstance(name, str)} if isinstance(more, list) else set()
    return {str(k): v for k, v in properties.items()} | {
        n: {} for n in required if n not in properties
    }, required


def type_of(schema: Any, root: Any, *, nested: bool = True) -> str:
    """Return the type of a value, as short as possible."""
    return _SchemaReader(root, nested=nested).read(schema, 0)


class _SchemaReader:
    """Reads one schema with a bound on its steps: references and choices can multiply without end."""

    def __init__(self, root: Any, *, nested: bool) -> None:
        self._root = root
        self._nested = nested
        self._steps = _MAX_STEPS

    def read(self, schema: Any, depth: int) -> str:
        self._steps -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._steps < 0:
            return "any"
        schema = resolve_reference(schema, self._root)
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return _enum(schema["enum"])
        kind = schema.get("type")
        options = next((o for k in ("anyOf", "oneOf") if isinstance(o := schema.get(k), list) and o), None)
        if options is None and isinstance(kind, list):
            options = [{**schema, "type": one} for one in kind]
        if options is not None:
            return _union([self.read(option, depth + 1) for option in options])
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        return self._array(schema, depth) if kind == "array" else _NAMES.get(str(kind), "any")

    def _array(self, schema: Mapping[str, Any], depth: int) -> str:
        items = schema.get("items")
        inner = self.read(items, depth + 1) if items is not None else "any"
        return f"({inner})[]" if "|" in inner else f"{inner}[]"

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        own_properties = schema.get("properties")
        too_many = isinstance(own_properties, Mapping) and len(own_properties) > self._steps
        if not self._nested or depth >= _MAX_DEPTH or too_many:
            return "obj"
        properties, required = members(schema, self._root)
        if not properties or self._steps < len(properties):
            return "obj"
        fields = [
            f"{escape_unprintable(name)}{'' if name in required else '?'}: {self.read(value, depth + 1)}"
            for name, value in properties.items()
        ]
        return "{" + ", ".join(fields) + "}"


def _union(types: list[str]) -> str:
    kinds = list(dict.fromkeys(kind for kind in types if kind != "null"))
    if not kinds:
        return "null"
    return "|".join(kinds) if len(kinds) <= _MAX_UNION else "any"


def _enum(values: list[Any]) -> str:
    literals = [_literal(value) for value in values if value is not None]
    literals_shown = literals[:_MAX_ENUM]
    while len(literals_shown) > 1 and sum(len(literal) for literal in literals_shown) > _MAX_ENUM_CHARACTERS:
        literals_shown.pop()
    more = [f"…+{len(literals) - len(literals_shown)}"] if len(literals) > len(literals_shown) else []
    return "|".join([*literals_shown, *more]) or "null"


def escape_unprintable(text: str) -> str:
    """Escape a name or value of a server for use in a line, if anything in it would not print."""
    return text if text.isprintable() and not _INVISIBLE.search(text) else json.dumps(text)


def _literal(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text == escape_unprintable(text) else json.dumps(value)


def resolve_reference(schema: Mapping[str, Any], root: Any) -> Mapping[str, Any]:
    """Follow a few local references; a schema that refers elsewhere stays as it is."""
    for _ in range(8):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        target: Any = root
        for part in reference.lstrip("#/").split("/") if reference not in ("#", "#/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping):
            return {k: v for k, v in schema.items() if k != "$ref"}
        schema = target
    return {}
