"""Read files of overrides and check them; reports all faults of a file at once, each with its line.

overrides:
  example.com:         # a server's name, or a domain
    gt_usr:            # a tool's name there, or a pattern with *
      rename: get_user
      parameters: {usr_id: {type: integer, description: The user's number.}}

A JSON file without the key `overrides` has domains at the top, and `rename`, `description` and `inputSchema`
for a tool: {"example.com": {"gt_usr": {"rename": "get_user"}}}.
"""

import hashlib
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from maitred.config.document import JSON_SUFFIXES, ConfigDocument, Keys, read_document
from maitred.config.taxonomy import check_tags
from maitred.errors import ConfigError
from maitred.mediation.overrides import TEXTS, Overrides, ToolOverride, types_of
from maitred.model.tools import canonical
from maitred.wording import as_code, did_you_mean, near_names

MAX_BYTES = 1_000_000
"""Largest size of a file of overrides in bytes."""

_MAX_VALUES = 10_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TAG = "tag:yaml.org,2002:"
_TOP = "overrides"
_ONE_LINE = ("rename", "title", "category")
_TEXT = (*_ONE_LINE, "description")
_LISTS = ("tags", "use_cases")
_FLAGS = ("hide", "pin")
_KEYS = (*_TEXT, "parameters", *_LISTS, *_FLAGS)
_DOMAIN_KEYS = ("rename", "description", "inputSchema")
_SCHEMA_KEYS = ("type", "properties", "required", "title", "description", "$schema")
_KEYWORDS = TEXTS | frozenset({
    "default", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maxLength",
    "maximum", "minItems", "minLength", "minimum", "multipleOf", "pattern", "properties", "type",
    "uniqueItems",
})  # fmt: skip
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_JOINERS = "\u200c\u200d"
_HIDING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def load_overrides(path: Path, sha256: str = "", *, categories: Collection[str] = ()) -> Overrides:
    """Read and check a file of overrides, YAML or JSON by its suffix.

    Args:
        path: The file.
        sha256: The SHA-256 that it must have, in hexadecimal; empty for a file that may change.
        categories: All that exist; if given, unknown categories and unknown tags are faults.

    Raises:
        ConfigError: The file cannot be read, has another checksum, or has faults; all of them are listed.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(str(path), [f"the file cannot be read: {error.strerror}"]) from error
    if sha256:
        check_sum(str(path), data, sha256)
    return parse_overrides(path, data, categories=categories)


def parse_overrides(
    path: Path, data: bytes, *, source: str = "", categories: Collection[str] = ()
) -> Overrides:
    """Check the bytes of a file; the suffix of `path` says JSON or YAML, `source` names the file in messages.

    Raises:
        ConfigError: As for `load_overrides`.
    """
    source = source or str(path)
    if len(data) > MAX_BYTES:
        raise ConfigError(source, [f"is larger than {MAX_BYTES:,} bytes"])
    try:
        document = read_document(path, data.decode())
    except UnicodeDecodeError:
        raise ConfigError(source, ["is not UTF-8 text"]) from None
    except ConfigError as error:
        faults = [fault.replace("`servers` or `mcpServers`", f"`{_TOP}`") for fault in error.faults]
        raise ConfigError(source, faults) from None
    check = _OverridesReader(document, categories, by_domain=_is_by_domain(path, document))
    servers = check.servers()
    if check.faults:
        raise ConfigError(source, [f"line {line}: {fault}" for line, fault in sorted(check.faults)])
    return Overrides(source=source, servers=servers)


def overrides_of(server: str, mapping: Mapping[str, Any], *, categories: Collection[str] = ()) -> Overrides:
    """The overrides for the tools of one server, from a manifest.

    Raises:
        ConfigError: They have faults; all are listed.
    """
    whole = canonical({_TOP: {server: mapping}})
    return parse_overrides(Path("manifest.json"), whole, source=server, categories=categories)


def _is_by_domain(path: Path, document: ConfigDocument) -> bool:
    """Whether a file has domains at the top; one with a mistyped `overrides` has not."""
    is_other = any(near_names(key, [_TOP]) for key in document.tree)
    return path.suffix in JSON_SUFFIXES and bool(document.tree) and not is_other


class _OverridesReader:
    """Turns a document into overrides and collects every fault with its line."""

    def __init__(
        self, document: ConfigDocument, categories: Collection[str], *, by_domain: bool = False
    ) -> None:
        self._top = () if by_domain else (_TOP,)
        self._keys = _DOMAIN_KEYS if by_domain else _KEYS
        self._document = document
        self._categories = categories
        self._values = _typed_value(document.root, {}) if document.root is not None else {}
        self._schemas = jsonschema_rs.Draft202012Validator(_META)
        self.faults = list(document.faults)

    def servers(self) -> dict[str, dict[str, ToolOverride]]:
        tree = self._document.tree
        if self._top:
            for stranger in tree.keys() - {_TOP}:
                self._add([stranger], _unknown(stranger, [_TOP]))
            if _TOP not in tree:
                self._add([], f"the top level must have the key `{_TOP}`")
        whole = tree.get(_TOP) if self._top else tree
        servers: dict[str, dict[str, ToolOverride]] = {}
        for server, tools in self._entries(self._top, whole, "servers or domains to tools"):
            at = [*self._top, server]
            entries = self._entries(at, tools, "tools to overrides")
            name = server.lower() if "." in server else server
            if name in servers:
                self._add(at, "is given twice, in another spelling")
            servers[name] = {tool: self._override([*at, tool], raw) for tool, raw in entries}
            self._new_names(at, servers[name])
        return servers

    def _entries(self, keys: Keys, raw: Any, contents: str) -> Iterable[tuple[str, Any]]:
        if isinstance(raw, dict | None):
            return (raw or {}).items()
        self._add(keys, f"must be a mapping of {contents}")
        return ()

    def _override(self, keys: Keys, raw: Any) -> ToolOverride:
        entries = {
            key: value for key, value in self._entries(keys, raw, "keys to values") if value is not None
        }
        if not entries and isinstance(raw, dict | None):
            self._add(keys, "says nothing; leave it out")
        values: dict[str, Any] = {}
        for key, value in entries.items():
            at = [*keys, key]
            if key not in self._keys:
                self._add(at, _unknown(key, self._keys))
            elif key in _TEXT:
                values[key] = self._text(at, value, one_line=key in _ONE_LINE)
            elif key in _LISTS:
                values[key] = self._list(at, value)
            elif key in _FLAGS:
                values[key] = self._flag(at, value)
            elif key == "parameters":
                values[key] = dict(self._parameters(at, value))
            else:
                values |= self._input_schema(at, value)
        if values.get("hide") and values.get("pin"):
            self._add([*keys, "pin"], "contradicts `hide`; keep one of the two")
        self._strange_places(keys, values)
        return ToolOverride(**values)

    def _strange_places(self, keys: Keys, values: Mapping[str, Any]) -> None:
        """Faults of unknown categories and tags, if the known ones are given."""
        category = values.get("category")
        if self._categories and category and category not in self._categories:
            there = f"there are {', '.join(self._categories)}"
            hint = did_you_mean(category, self._categories, otherwise=there)
            self._add([*keys, "category"], f"{category!r} is no category; {hint}")
        for fault in check_tags(values.get("tags", ())) if self._categories else ():
            self._add([*keys, "tags"], fault)

    def _new_names(self, keys: Keys, tools: Mapping[str, ToolOverride]) -> None:
        owners: dict[str, str] = {}
        for tool, override in tools.items():
            new, at = override.rename, [*keys, tool, "rename"]
            if not new:
                continue
            if not _NAME.fullmatch(new):
                self._add(at, f"{new!r} is no name: use up to 64 letters, digits, `_` and `-`")
            elif "*" in tool:
                self._add(at, "a pattern may fit several tools, which cannot have one name")
            elif new in owners:
                self._add(at, f"{new!r} is the new name of {owners[new]!r} already")
            elif new in tools and new != tool:
                self._add(at, f"{new!r} is the name of another tool here")
            owners.setdefault(new, tool)

    def _text(self, keys: Keys, value: Any, *, one_line: bool = False) -> str:
        if not isinstance(value, str) or not value.strip():
            self._add(keys, "must be text, and not empty")
            return ""
        if hidden := _hidden(value):
            self._add(keys, f"holds the invisible character {hidden}")
        if one_line and "\n" in value.strip():
            self._add(keys, "must be one line")
        return value.strip()

    def _list(self, keys: Keys, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            self._add(keys, "must be a list of texts")
            return ()
        return tuple(self._text([*keys, at], item, one_line=True) for at, item in enumerate(value))

    def _flag(self, keys: Keys, value: Any) -> bool:
        if value not in ("true", "false"):
            self._add(keys, "must be true or false")
        return bool(value == "true")

    def _parameters(self, keys: Keys, raw: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for name, schema in self._entries(keys, raw, "parameters to parts of their schemas"):
            at = [*keys, name]
            if isinstance(schema, dict):
                self._strangers(at, schema)
                part = _at(self._values, at)
                self._part(at, part)
                yield name, part
            else:
                self._add(at, "must be a mapping such as {description: What it is.}")

    def _input_schema(self, keys: Keys, raw: Any) -> Mapping[str, Any]:
        """The parameters and the required ones of an `inputSchema`, an object's JSON Schema."""
        whole = dict(self._entries(keys, raw, "keywords of a JSON Schema to values"))
        for keyword in whole.keys() - set(_SCHEMA_KEYS):
            self._add([*keys, keyword], _unknown(keyword, _SCHEMA_KEYS))
        if whole.get("type", "object") != "object":
            self._add([*keys, "type"], "must be `object`")
        parameters = dict(self._parameters([*keys, "properties"], whole.get("properties")))
        required = self._list([*keys, "required"], whole.get("required") or [])
        for at, name in enumerate(required):
            if name not in parameters:
                hint = did_you_mean(name, parameters, otherwise="it is not among `properties`")
                self._add([*keys, "required", at], f"{name!r} is no parameter; {hint}")
        return {"parameters": parameters, "required": required}

    def _strangers(self, keys: Keys, part: Mapping[str, Any]) -> None:
        for keyword in part.keys() - _KEYWORDS:
            message = _unknown(keyword, sorted(_KEYWORDS))
            if keyword == "required":
                message = "cannot be changed: only the server knows which parameters are required"
            self._add([*keys, keyword], message)

    def _part(self, keys: Keys, part: Any) -> None:
        """Faults of a part of a schema."""
        texts = _texts(part)
        if texts is None:
            self._add(keys, f"holds more than {_MAX_VALUES:,} values")
            return
        if hidden := next(filter(None, map(_hidden, texts)), ""):
            self._add(keys, f"holds the invisible character {hidden}")
        keywords = {keyword: value for keyword, value in part.items() if keyword in _KEYWORDS}
        unknown = [name for name in types_of(keywords) if name not in _TYPES]
        for name in unknown:
            self._add([*keys, "type"], f"{name!r} is not a type; the types are {', '.join(_TYPES)}")
        errors = [] if unknown else list(self._schemas.iter_errors(keywords))
        for error in errors:
            self._add([*keys, *error.instance_path], f"is no JSON Schema: {error.message}")
        try:
            jsonschema_rs.Draft202012Validator({} if unknown or errors else keywords)
        except jsonschema_rs.ValidationError as error:
            self._add([*keys, *error.instance_path], f"is no JSON Schema: {error.message}")

    def _add(self, keys: Keys, message: str) -> None:
        where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)[1:]
        self.faults.append((self._document.line(keys), f"{where}: {message}" if where else message))


_META = {"$ref": "https://json-schema.org/draft/2020-12/schema"}


def _unknown(key: str, known: Iterable[str]) -> str:
    hint = did_you_mean(key, known, quoted=as_code, otherwise=f"there are {', '.join(known)}")
    return f"is not a known key; {hint}"


def _hidden(text: str) -> str:
    """The first invisible character of a text, in the form U+202E, or an empty text."""
    hidden = (c for c in text if unicodedata.category(c) in _HIDING and c not in "\n\t" + _JOINERS)
    return next((f"U+{ord(c):04X}" for c in hidden), "")


def _texts(value: Any) -> list[str] | None:
    """All texts in a value; `None` if it is too large, such as one that contains itself."""
    texts: list[str] = []
    budget, stack = _MAX_VALUES, [value]
    while stack:
        item, budget = stack.pop(), budget - 1
        if budget < 0:
            return None
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            stack += [*item, *item.values()]
        elif isinstance(item, list):
            stack += item
    return texts


def _at(tree: Any, keys: Keys) -> Any:
    """The value at the keys; an empty mapping after a key that is no text, which is a fault by itself."""
    for key in keys:
        tree = tree.get(key, {})
    return tree


def _typed_value(node: Node, values: dict[int, Any]) -> Any:
    """The values of a document with their types, which `ConfigDocument.tree` leaves as text."""
    if id(node) in values:
        return values[id(node)]
    values[id(node)] = None  # cuts a value that contains itself
    if isinstance(node, MappingNode):
        merges: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, item in node.value:
            value = _typed_value(item, values)
            if key.tag != f"{_TAG}merge":
                own[_scalar(key, f"{_TAG}str")] = value
            else:
                for source in value if isinstance(value, list) else [value]:
                    merges = {**source, **merges} if isinstance(source, dict) else merges
        result: Any = {**merges, **own}
    elif isinstance(node, SequenceNode):
        result = [_typed_value(item, values) for item in node.value]
    else:
        result = _scalar(node, str(node.tag))
    values[id(node)] = result
    return result


def _scalar(node: Node, tag: str) -> Any:
    text = str(node.value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        match tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text)
            case "float":
                number = float(text)
                return number if math.isfinite(number) else text
    except ValueError:  # YAML has more forms of numbers than JSON
        return text
    return text


def check_sum(source: str, data: bytes, sha256: str) -> None:
    """Refuse data whose SHA-256, in hexadecimal, is another one.

    Raises:
        ConfigError: The data has another checksum.
    """
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256.lower():
        fault = (
            f"has the SHA-256 {digest} instead of {sha256.lower()}; look at what changed before you pin it"
        )
        raise ConfigError(source, [fault])
