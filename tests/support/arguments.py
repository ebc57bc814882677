"""Make the smallest arguments that a tool's schema takes, as far as that can be told from it simply."""

from typing import Any

_PLAIN: dict[str, Any] = {"boolean": True, "null": None}
_TEXTS = {
    "date": "2026-11-22",
    "date-time": "2026-11-22T12:00:00Z",
    "uri": "https://example.org",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
_MAX_DEPTH = 20


def smallest(schema: Any) -> dict[str, Any]:
    """Arguments with the required properties only: first choices, lower bounds."""
    return _object(schema, schema, 0) if isinstance(schema, dict) else {}


def _value(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return "x"
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    inner = _followed(schema, root)
    return _by_type(schema, root, depth) if inner is None else _value(inner, root, depth + 1)


def _followed(schema: dict[str, Any], root: Any) -> Any:
    """What a reference or a choice leads to, if the schema is one."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target = root
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            target = target.get(key, {}) if isinstance(target, dict) else {}
        return target
    return next((schema[key][0] for key in ("anyOf", "oneOf", "allOf") if schema.get(key)), None)


def _by_type(schema: dict[str, Any], root: Any, depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        return [_value(schema.get("items", {}), root, depth + 1)] * int(schema.get("minItems", 0))
    if kind in ("integer", "number"):
        return max(1, schema.get("minimum", 0))
    text = _TEXTS.get(str(schema.get("format")), "x").ljust(int(schema.get("minLength", 0)), "x")
    return _PLAIN.get(kind, text)


def _object(schema: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    names = schema.get("required")
    return (
        {n: _value(properties.get(n, {}), root, depth + 1) for n in names} if isinstance(names, list) else {}
    )
