"""Tools as Python modules: a module for each server, a typed function for each of its tools.

Pure: names and schemas go in, names and the text of stub files come out. Nothing is imported or run, and no
text of a server but names and values of enumerations gets into a stub. The names depend on all tools of the
snapshot and not on who sees which, so a program that ran once runs again. Types say what JSON Schema says as
far as Python has words for it; the rest is `Any`, since a check that refuses a right call is worse than none.
"""

import builtins
import keyword
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from maitred.catalog.names import prefix
from maitred.catalog.snapshot import Snapshot
from maitred.execution.chain.base import ChainFunction, ChainModule
from maitred.model.tools import Tool, content_hash

_SANDBOX_MODULES = frozenset((
    "asyncio", "base64", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal", "enum",
    "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "os", "pathlib", "random", "re",
    "statistics", "string", "sys", "time", "tomllib", "typing", "urllib",
))  # fmt: skip
_NO_MODULE = _SANDBOX_MODULES | frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"call_tool"}
_TYPING = ("Any", "Literal", "NotRequired", "TypedDict")
_NO_FUNCTION = frozenset((*keyword.kwlist, *_TYPING, "builtins"))
_BUILTINS = frozenset(("str", "int", "float", "bool", "list", "dict"))
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_NO_FIELD = _NO_FUNCTION | _BUILTINS
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_SPLIT = re.compile(r"[^A-Za-z0-9]+")
_WORD = re.compile(r"\w+", re.ASCII)
_EVASIVE = frozenset(("getattr", "vars", "dir", "eval", "exec", "__dict__", "__getattribute__", "attrgetter"))
_ALL = re.compile(r"\bimport\s*\(?\s*\*")
_MAX_NAME = 64
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
_HASH_DIGITS = 8


def modules(snapshot: Snapshot, tools: Iterable[Tool]) -> list[ChainModule]:
    """A module for each server that has one of these tools, by module name, with all their functions."""
    index = ModuleIndex(snapshot, tools)
    return [index.module(name) for name in index.servers]


def stub_text(module: ChainModule) -> str:
    """The text of a whole stub file (`.pyi`), which always parses."""
    body = "\n\n".join(part for part in (module.stub, "\n".join(f.stub for f in module.functions)) if part)
    words = set(_WORD.findall(body))
    lines = ["import builtins"] if "builtins" in words else []
    if imported := [name for name in _TYPING if name in words]:
        lines.append(f"from typing import {', '.join(imported)}")
    return "\n\n".join(part for part in ("\n".join(lines), body) if part) + "\n"


def used(code: str, modules: Iterable[ChainModule]) -> list[ChainModule]:
    """Those modules that a program names, each with those functions that it names and the types they need.

    A scan of words and not a parse, so that it works on a program with faults: it may give too much, and
    gives too little only where a program hides a name from its reader.
    """
    names = _Named(code)
    found = []
    for module in modules:
        if module.name in names.words:
            chosen = set(names.of(function.name for function in module.functions))
            functions = [function for function in module.functions if function.name in chosen]
            stub = _needed(module.stub, [function.stub for function in functions])
            found.append(replace(module, functions=functions, stub=stub))
    return found


class ModuleIndex:
    """The modules of one snapshot for somebody who sees these tools; builds what is asked for, and keeps it.

    A module has the name of its server, a function the published name of its tool without the server; what
    cannot stand in a Python name becomes `_`, and none begins with `_`: engines hide such names. A name that
    the program needs for something else (a keyword, a builtin, a module of the sandbox) gets a `_` behind
    it: the server `time` is the module `time_`. Of those that come to the same name, the one that had it
    before keeps it, and the others get a hash behind it.
    """

    def __init__(self, snapshot: Snapshot, tools: Iterable[Tool]) -> None:
        self._snapshot = snapshot
        self._tools = tools
        self._named: dict[str, Mapping[str, str]] = {}
        self._built: dict[str, _Function] = {}

    @cached_property
    def servers(self) -> Mapping[str, str]:
        """Module name -> server, by module name; only of servers with a tool that is seen."""
        return {name: server for name, server in sorted(self._modules.items()) if server in self._seen}

    def module(self, name: str) -> ChainModule:
        """A whole module.

        Raises:
            KeyError: No server that is seen has a module of this name.
        """
        return self._assembled(name, self._functions(self.servers[name]))

    def path(self, tool: Tool) -> str:
        """How a program names a tool: `module.function`."""
        return f"{self._module_of[tool.server]}.{self._names(tool.server)[tool.name]}"

    def used(self, code: str) -> list[ChainModule]:
        """The same as `used` of all modules, but nothing else is built."""
        names = _Named(code)
        found = []
        for name in sorted(names.words & self.servers.keys()):
            functions = self._functions(self.servers[name])
            chosen = {one: functions[one] for one in names.of(functions)}
            found.append(self._assembled(name, chosen))
        return found

    @cached_property
    def _modules(self) -> Mapping[str, str]:
        return {name: server for server, name in self._module_of.items()}

    @cached_property
    def _module_of(self) -> Mapping[str, str]:
        return _distinct({server: server for server in self._snapshot.by_server}, _NO_MODULE, "server")

    @cached_property
    def _seen(self) -> Mapping[str, Sequence[Tool]]:
        groups: dict[str, list[Tool]] = defaultdict(list)
        for tool in self._tools:
            groups[tool.server].append(tool)
        return groups

    def _names(self, server: str) -> Mapping[str, str]:
        """Published name -> function name, of all tools of a server, seen or not."""
        if server not in self._named:
            start = prefix(server)
            plain = {tool.name: tool.name.removeprefix(start) for tool in self._snapshot.by_server[server]}
            self._named[server] = _distinct(plain, _NO_FUNCTION, "tool")
        return self._named[server]

    def _functions(self, server: str) -> Mapping[str, Tool]:
        names = self._names(server)
        return {names[tool.name]: tool for tool in self._seen[server]}

    def _assembled(self, name: str, functions: Mapping[str, Tool]) -> ChainModule:
        server = self.servers[name]
        shadows = _BUILTINS.intersection(self._names(server).values())
        built = []
        for function, tool in sorted(functions.items()):
            if tool.name not in self._built:
                self._built[tool.name] = _function(self._snapshot, tool, function, shadows)
            built.append(self._built[tool.name])
        return ChainModule(
            name=name,
            server=server,
            functions=[one.function for one in built],
            stub="\n\n".join(block for one in built for block in one.types),
        )


@dataclass(frozen=True, kw_only=True)
class _Function:
    """A function and the blocks of text that define the types it needs."""

    function: ChainFunction
    types: Sequence[str]


class _Named:
    """What a program names, read off its words."""

    def __init__(self, code: str) -> None:
        code = code if code.isascii() else unicodedata.normalize("NFKC", code)
        self.words = frozenset(_WORD.findall(code))
        self._all = bool(self.words & _EVASIVE or _ALL.search(code))

    def of(self, functions: Iterable[str]) -> list[str]:
        """Those functions of a module that are named; all, where a name could be made up on the way."""
        return [name for name in functions if self._all or name in self.words]


def _distinct(plain: Mapping[str, str], reserved: Collection[str], blank: str) -> dict[str, str]:
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
    """What a name would be if it were alone: ASCII, since other letters can look alike or be invisible."""
    text = unicodedata.normalize("NFKD", text[: 4 * _MAX_NAME]).encode("ascii", "ignore").decode()
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).lstrip("_")[:_MAX_NAME] or blank
    if name[0].isdigit():
        return f"{blank}_{name}"
    return f"{name}_" if name in reserved else name


def _function(snapshot: Snapshot, tool: Tool, name: str, shadows: Collection[str]) -> _Function:
    schema = snapshot.schema(tool.input_hash)
    root = schema if isinstance(schema, Mapping) else {}
    properties, required = _members(root, root)
    ordered = sorted(properties, key=lambda one: one not in required)[:_MAX_PARAMETERS]
    names = _distinct({one: one for one in ordered}, keyword.kwlist, "argument")
    types = _Types(name, shadows)
    signature = []
    for one in ordered:
        optional = "" if one in required else " = ..."
        signature.append(f"{names[one]}: {types.of(properties[one], root, (one,))}{optional}")
    closed = root.get("additionalProperties") is False
    if len(properties) > len(ordered) or _is_open(root) or not (properties or closed):
        signature.append("**_more: Any")
    answer = snapshot.schema(tool.output_hash)
    returned = "Any"
    if isinstance(answer, Mapping) and answer.get("type") == "object":
        returned = types.of(answer, answer, ("Result",))
    stub = f"async def {name}({', '.join(signature)}) -> {returned}: ..."
    parameters = [(names[one], one) for one in ordered]
    function = ChainFunction(name=name, tool=tool.name, parameters=parameters, stub=stub)
    return _Function(function=function, types=list(types.blocks.values()))


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
        """The annotation of a value; `path` leads to it and names what must be named."""
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
        """The name of a type with this body: the one that it has, else a new one."""
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
        """The values themselves; where they are many, long or no constants to a type checker, their types."""
        kinds = list(dict.fromkeys(type(value) for value in values))
        texts = [repr(value) for value in values[: _MAX_LITERALS + 1] if _constant(value)]
        if len(texts) == len(values) <= _MAX_LITERALS and sum(map(len, texts)) <= _MAX_LITERAL_CHARS:
            return "None" if texts == ["None"] else f"Literal[{', '.join(dict.fromkeys(texts))}]"
        if not all(kind in (str, int, float, bool, type(None)) for kind in kinds):
            return "Any"
        return _union([self._builtin("None" if kind is type(None) else kind.__name__) for kind in kinds])

    def _builtin(self, name: str) -> str:
        """A builtin type; under its full name where a function of the module has the short one."""
        return f"builtins.{name}" if name in self._shadows else name


def _constant(value: Any) -> bool:
    """Whether a value can stand in `Literal[...]`."""
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
    """Whether an object may well have members that `properties` does not name."""
    choices = (*_list(schema, "anyOf"), *_list(schema, "oneOf"))
    inside = any(isinstance(one, Mapping) and ("properties" in one or "$ref" in one) for one in choices)
    return inside or schema.get("additionalProperties") not in (None, False)


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its local reference followed; empty where nothing is known of it."""
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


def _needed(blocks: str, texts: Sequence[str]) -> str:
    """Those of some definitions of types that texts name, and those that these name."""
    defined = {block.partition("(")[0].removeprefix("class "): block for block in blocks.split("\n\n")}
    kept: set[str] = set()
    waiting = list(texts)
    while waiting:
        new = defined.keys() & set(_WORD.findall(waiting.pop())) - kept
        kept |= new
        waiting += [defined[name] for name in new]
    return "\n\n".join(block for name, block in defined.items() if name in kept)
