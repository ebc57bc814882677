"""The signature of a tool as a Python function, with names and types from its schemas.

The types follow JSON Schema as far as Python can express it. The rest is `Any`, since a check that
refuses a correct call is worse than none. Of a server's texts, only names and enumeration values appear.
Servers, tools and parameters get valid, distinct Python names.
"""

import keyword
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from maitred.catalog.snapshot import Snapshot
from maitred.chains.base import ChainFunction
from maitred.model.tools import Tool, content_hash

_MAX_NAME = 64
_HASH_DIGITS = 8


def distinct(plain: Mapping[str, str], reserved: Collection[str], blank: str) -> dict[str, str]:
    """A Python name for each key, different ones for different keys, whatever their order."""
    groups: dict[str, list[str]] = defaultdict(list)
    for key, text in plain.items():
        groups[_identifier(text, reserved, blank)].append(key)
    given: dict[str, str] = {}
    taken = set(groups)
    for name, members in sorted(groups.items()):
        exact = [key for key in members if plain[key] == name]
        for key in sorted(members):
            given[key] = name
            if len(members) > 1 and exact != [key]:
                hashed = content_hash(key.encode("utf-8", "surrogatepass"))
                digits = _HASH_DIGITS
                while (longer := f"{name}_{hashed[:digits]}") in taken and digits < len(hashed):
                    digits += 1
                given[key] = longer
                taken.add(longer)
    return given


def _identifier(text: str, reserved: Collection[str], blank: str) -> str:
    """The name of a single text: ASCII, since other letters can look alike or be invisible."""
    text = unicodedata.normalize("NFKD", text[: 4 * _MAX_NAME]).encode("ascii", "ignore").decode()
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).lstrip("_")[:_MAX_NAME] or blank
    if name[0].isdigit():
        return f"{blank}_{name}"
    return f"{name}_" if name in reserved else name


TYPING: Final = ("Any", "Literal", "NotRequired", "TypedDict")
NO_FUNCTION: Final = frozenset((*keyword.kwlist, *TYPING, "builtins"))
"""Names that no function of a module may have, since its types need them."""

BUILTINS: Final = frozenset(("str", "int", "float", "bool", "list", "dict"))
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_NO_FIELD = NO_FUNCTION | BUILTINS
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_SPLIT = re.compile(r"[^A-Za-z0-9]+")
_MAX_TYPE_NAME = 100
_MAX_PARAMETERS = 100
_MAX_FIELDS = 60
_MAX_DEPTH = 8
_MAX_STEPS = 400
_MAX_CHARS = 8_000  # of all types of one function
_MAX_LITERALS = 60
_MAX_LITERAL_CHARS = 600
_MAX_UNION = 8
_MAX_INT = 1 << 63
_MAX_REFERENCES = 8


@dataclass(frozen=True, kw_only=True)
class TypedFunction:
    """A function and the blocks of text that define the types it needs."""

    function: ChainFunction
    types: Sequence[str]


def plain_function(snapshot: Snapshot, tool: Tool, name: str) -> ChainFunction:
    """A tool as a function of this name, without its types: all that a run needs."""
    return _function(tool, name, *_read(snapshot, tool))


def _function(
    tool: Tool, name: str, root: Mapping[str, Any], properties: Mapping[str, Any], required: Collection[str]
) -> ChainFunction:
    ordered = sorted(properties, key=lambda one: one not in required)[:_MAX_PARAMETERS]
    names = distinct({one: one for one in ordered}, keyword.kwlist, "argument")
    closed = root.get("additionalProperties") is False
    more = len(properties) > len(ordered) or _is_open(root) or not (properties or closed)
    parameters = [(names[one], one) for one in ordered]
    needed = [names[one] for one in ordered if one in required]
    return ChainFunction(name=name, tool=tool.name, parameters=parameters, more=more, required=needed)


def typed_function(snapshot: Snapshot, tool: Tool, name: str, shadows: Collection[str]) -> TypedFunction:
    """The same with its types; `shadows` are the builtin types that other functions of the module hide."""
    root, properties, required = _read(snapshot, tool)
    function = _function(tool, name, root, properties, required)
    types = _Types(name, shadows)
    signature = []
    for python, one in function.parameters:
        optional = "" if one in required else " = ..."
        signature.append(f"{python}: {types.of(properties[one], root, (one,))}{optional}")
    if function.more:
        signature.append("**_more: Any")
    answer = snapshot.schema(tool.output_hash)
    returned = "Any"
    if isinstance(answer, Mapping) and answer.get("type") == "object":
        returned = types.of(answer, answer, ("Result",))
    stub = f"async def {name}({', '.join(signature)}) -> {returned}: ..."
    return TypedFunction(function=replace(function, stub=stub), types=list(types.blocks.values()))


def _read(snapshot: Snapshot, tool: Tool) -> tuple[Mapping[str, Any], dict[str, Any], set[str]]:
    """The schema of a tool's arguments, its properties, and the names of the required ones.

    An inferred schema is left out, since types are checked before a chain runs.
    """
    schema = snapshot.schema(tool.checked_hash)
    root = schema if isinstance(schema, Mapping) else {}
    return root, *_members(root, root)


class _Types:
    """Writes the types of one function, within bounds: references and choices can multiply without end."""

    def __init__(self, function: str, shadows: Collection[str]) -> None:
        self.blocks: dict[str, str] = {}
        self._function = function
        self._shadows = shadows
        self._names: dict[str, str] = {}
        self._steps = _MAX_STEPS
        self._chars = _MAX_CHARS

    def of(self, schema: Any, root: Mapping[str, Any], path: tuple[str, ...]) -> str:
        """The annotation of a value; `path` leads to it, and gives a new type its name."""
        self._steps -= 1
        schema = _resolved(schema, root)
        if self._steps < 0 or not schema or len(path) > _MAX_DEPTH:
            return "Any"
        text = self._read(schema, root, path)
        self._chars -= len(text)
        return text if self._chars >= 0 else "Any"

    def _read(self, schema: Mapping[str, Any], root: Mapping[str, Any], path: tuple[str, ...]) -> str:
        kind = schema.get("type")
        options: list[Any] = []
        if isinstance(kind, list):
            options = [{**schema, "type": one} for one in kind if isinstance(one, str)]
        elif kind is None and not _members(schema, root)[0]:
            options = _list(schema, "anyOf") or _list(schema, "oneOf") or _list(schema, "allOf")[:1]
        if "const" in schema:
            text = self._literal([schema["const"]])
        elif values := _list(schema, "enum"):
            text = self._literal(values)
        elif options:
            fits = len(options) <= _MAX_UNION
            text = _union([self.of(one, root, (*path, "")) for one in options]) if fits else "Any"
        elif kind == "object" or (kind is None and _members(schema, root)[0]):
            text = self._object(schema, root, path)
        elif kind == "array":
            text = f"{self._builtin('list')}[{self.of(schema.get('items'), root, (*path, 'Item'))}]"
        else:
            text = self._builtin(_SCALARS.get(kind, "Any")) if isinstance(kind, str) else "Any"
        return text

    def _object(self, schema: Mapping[str, Any], root: Mapping[str, Any], path: tuple[str, ...]) -> str:
        properties, required = _members(schema, root)
        inner = "Any"
        if not properties:
            inner = self.of(schema.get("additionalProperties"), root, (*path, "Value"))
        fits = 0 < len(properties) <= min(_MAX_FIELDS, self._steps) and not _is_open(schema)
        if not fits or any(not _FIELD.fullmatch(name) or name in _NO_FIELD for name in properties):
            return f"{self._builtin('dict')}[{self._builtin('str')}, {inner}]"
        lines = []
        for name, value in properties.items():
            kind = self.of(value, root, (*path, name))
            lines.append(f"    {name}: {kind if name in required else f'NotRequired[{kind}]'}")
        self._chars -= sum(map(len, properties))
        return self._defined(path, "\n".join(lines))

    def _defined(self, path: tuple[str, ...], body: str) -> str:
        """The name of a type with this body: its existing name, else a new one."""
        if body not in self._names:
            parts = ["".join(word[:1].upper() + word[1:] for word in _SPLIT.split(part)) for part in path]
            wanted = name = "_".join(["", self._function, *filter(None, parts)])[:_MAX_TYPE_NAME]
            count = 1
            while name in self.blocks:
                count += 1
                name = f"{wanted}_{count}"
            self.blocks[name] = f"class {name}(TypedDict):\n{body}"
            self._names[body] = name
        return self._names[body]

    def _literal(self, values: Sequence[Any]) -> str:
        """The values themselves; their types if they are too many, too long or not valid in `Literal`."""
        kinds = list(dict.fromkeys(type(value) for value in values))
        texts = [repr(value) for value in values[: _MAX_LITERALS + 1] if _constant(value)]
        if len(texts) == len(values) <= _MAX_LITERALS and sum(map(len, texts)) <= _MAX_LITERAL_CHARS:
            return "None" if texts == ["None"] else f"Literal[{', '.join(dict.fromkeys(texts))}]"
        if not all(kind in (str, int, float, bool, type(None)) for kind in kinds):
            return "Any"
        return _union([self._builtin("None" if kind is type(None) else kind.__name__) for kind in kinds])

    def _builtin(self, name: str) -> str:
        """A builtin type; under its full name if a function of the module has the short one."""
        return f"builtins.{name}" if name in self._shadows else name


def _constant(value: Any) -> bool:
    """Whether a value is valid in `Literal[...]`."""
    if isinstance(value, str):
        return len(value) <= _MAX_LITERAL_CHARS and not any("\ud800" <= char <= "\udfff" for char in value)
    return value is None or (isinstance(value, int) and abs(value) < _MAX_INT)


def _union(types: Sequence[str]) -> str:
    kinds = list(dict.fromkeys(types))
    if "Any" in kinds:
        return "Any"
    return " | ".join(sorted(kinds, key=lambda kind: kind == "None"))


def _members(schema: Any, root: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The properties of an object schema and the names of the required ones, `allOf` parts included."""
    schema = _resolved(schema, root)
    properties: dict[str, Any] = {}
    required: set[str] = set()
    for part in (schema, *(_resolved(one, root) for one in _list(schema, "allOf"))):
        found = part.get("properties")
        properties |= found if isinstance(found, Mapping) else {}
        required |= {name for name in _list(part, "required") if isinstance(name, str)}
    return properties | dict.fromkeys(sorted(required - properties.keys()), True), required


def _is_open(schema: Mapping[str, Any]) -> bool:
    """Whether an object may have members that `properties` does not name."""
    choices = (*_list(schema, "anyOf"), *_list(schema, "oneOf"))
    inside = any(isinstance(one, Mapping) and ("properties" in one or "$ref" in one) for one in choices)
    return inside or schema.get("additionalProperties") not in (None, False)


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its local reference followed; empty if nothing is known of it."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, Mapping):
            break
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = root if reference.startswith("#") else None
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(key) if isinstance(schema, Mapping) else None
    return {}


def _list(schema: Mapping[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []
