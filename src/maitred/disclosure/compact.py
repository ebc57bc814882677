"""Write the definition of a tool for a list, without what its schemas need not say.

Every list of the gateway shows tools under the name of their server, which costs some tokens a tool. This is
what pays for them. Only parts without any meaning are left out: titles that repeat a name, `required` without
names, the dialect of a schema that means the same without it, and the indentation of a docstring. Whether
arguments fit is checked by the schema as registered.
"""

import re
from collections.abc import Mapping
from textwrap import dedent
from typing import Any, Final

_DRAFT_07: Final = re.compile(r"https?://json-schema\.org/draft-07/schema#?")
_SCHEMAS_BY_NAME: Final = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_SCHEMAS: Final = frozenset(
    {"items", "anyOf", "oneOf", "allOf", "not", "additionalProperties", "if", "then", "else", "contains"}
)
_VALUES: Final = frozenset({"const", "default", "enum", "examples", "required"})
_DIFFER: Final = frozenset(
    {"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "additionalItems", "dependencies"}
    | {"dependentRequired", "dependentSchemas", "format", "maxContains", "minContains", "prefixItems"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
"""The keywords that mean something else, or nothing, in draft-07 or in 2020-12."""

_BESIDE_REFERENCE: Final = frozenset({"$ref", "$comment", "default", "description", "title"})
_ENDINGS: Final = frozenset({"", "args", "arguments", "input", "output", "params", "parameters", "result"})
_PUNCTUATION: Final = re.compile(r"[\W_]+")


def compact(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A definition that means the same to every client in fewer tokens; what is not known stays."""
    made, name = dict(definition), str(definition.get("name", "")).rpartition("__")[2]
    for key in ("inputSchema", "outputSchema"):
        if isinstance(schema := made.get(key), dict):
            made[key] = compact_schema(schema, name)
    if description := made.get("description"):
        made["description"] = _unindented(description)
    return made


def compact_schema(schema: Mapping[str, Any], tool: str = "") -> dict[str, Any]:
    """The root schema of a tool, whose title may be the tool's name with a word such as `Arguments`."""
    made = _compact(schema, "")
    if _says_nothing(made.get("$schema"), schema):
        del made["$schema"]
    title = made.get("title")
    if isinstance(title, str) and _is_title_of(title, tool):
        del made["title"]
    return made


def _compact(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A schema and those in it; `name` is that of the property or the definition."""
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str) and name and _folded(value) == _folded(name):
            continue
        if key == "required" and value == []:
            continue
        if key == "description" and isinstance(value, str):
            made[key] = _unindented(value)
        elif key in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
            made[key] = {one: _inside(each, one) for one, each in value.items()}
        else:
            made[key] = _inside(value, "") if key in _SCHEMAS else value
    return made


def _inside(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_inside(one, "") for one in value]
    return _compact(value, name) if isinstance(value, Mapping) else value


def _says_nothing(dialect: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a schema of draft-07 means the same without its `$schema`, in the protocol's default dialect.

    Where it names the default itself, that stays: the protocol's conformance suite looks for it.
    """
    return isinstance(dialect, str) and bool(_DRAFT_07.fullmatch(dialect)) and not _differs(schema)


def _differs(value: Any) -> bool:
    """Whether a schema uses anything that draft-07 and 2020-12 read in two ways."""
    if isinstance(value, list):
        return any(map(_differs, value))
    if not isinstance(value, Mapping):
        return False
    if not _DIFFER.isdisjoint(value) or isinstance(value.get("items"), list):
        return True
    if "$ref" in value and not value.keys() <= _BESIDE_REFERENCE:
        return True
    return any(
        any(map(_differs, each.values()))
        if key in _SCHEMAS_BY_NAME and isinstance(each, Mapping)
        else _differs(each)
        for key, each in value.items()
        if key not in _VALUES
    )


def _is_title_of(title: str, tool: str) -> bool:
    folded, name = _folded(title), _folded(tool)
    return bool(name) and folded.startswith(name) and folded.removeprefix(name) in _ENDINGS


def _folded(text: str) -> str:
    return _PUNCTUATION.sub("", text).casefold()


def _unindented(text: str) -> str:
    """A text without the indentation that all its lines share, and without space at its ends."""
    first, line_break, others = text.strip().partition("\n")
    return first + line_break + dedent(others)
