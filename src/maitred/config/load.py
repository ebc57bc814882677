"""Read a configuration file: `maitred.yaml`, or the `mcpServers` JSON that MCP clients use.

All faults of a file are collected before any is raised, each with its line. A `maitred.yaml` may hold only
keys that exist; in a client's JSON, keys of that client are ignored, since the file is not ours. Values are
kept as the text that was written, so that `1.10` reaches a server unchanged; pydantic makes the numbers.
"""

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from maitred.config.settings import Limits, Seconds, Settings
from maitred.errors import ConfigError
from maitred.model.servers import EraChoice, ServerSpec, Timeouts, Transport
from maitred.model.tools import content_hash

_TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "remote": "http",
    "sse": "sse",
}
_STRICT: Mapping[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class ServerEntry:
    """One server as it stands in `maitred.yaml`; either `command` or `url` is required."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    transport: str = ""
    type: str = ""
    era: EraChoice = "auto"
    enabled: bool = True
    disabled: bool = False
    start_timeout_s: Seconds | None = None
    list_timeout_s: Seconds | None = None
    call_timeout_s: Seconds | None = None
    idle_stop_s: Seconds | None = None


_SECTIONS: Mapping[str, Any] = {
    f.name: f.default_factory for f in fields(Settings) if is_dataclass(f.default_factory)
}
for _section in _SECTIONS.values():
    _section.__pydantic_config__ = _STRICT
_ADAPTERS: Mapping[Any, TypeAdapter[Any]] = {k: TypeAdapter(k) for k in (ServerEntry, *_SECTIONS.values())}
_PLAIN: Mapping[str, str] = {
    "string": "must be text",
    "tuple": "must be a list",
    "dict": "must be a mapping of names to values",
    "dataclass": "must be a mapping of keys to values",
    "float": "must be a number",
    "int": "must be a whole number",
    "bool": "must be true or false",
    "literal_error": "must be {expected}",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge}",
}
_TAG = "tag:yaml.org,2002:"
JSON_SUFFIXES = (".json", ".jsonc")
_GAP = r"//[^\r\n]*|/\*.*?\*/"
_NOT_JSON = re.compile(rf'"(?:\\.|[^"\\])*"|{_GAP}|,(?=(?>(?:\s|{_GAP})*)[}}\]])', re.DOTALL)
Keys = Sequence[Any]


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the configuration is looked for when no `--config` is given.

    Never the working directory: a file found there could start any program.
    """
    if chosen := environ.get("MAITRED_CONFIG"):
        return Path(chosen).expanduser()
    home = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "maitred" / "maitred.yaml"


def catalog_path(settings: Settings, environ: Mapping[str, str] = os.environ) -> Path:
    """The catalog's file: as configured, else one for each configuration file, in the user's state folder."""
    if settings.catalog.path:
        return settings.source.parent / Path(settings.catalog.path).expanduser()
    home = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    source = settings.source.absolute()
    name = "-".join(part for part in source.with_suffix("").parts[-2:] if part != os.sep)
    digest = content_hash(str(source).encode())[:8]
    return Path(home) / "maitred" / f"{name}-{digest}.db"


def load(path: Path) -> Settings:
    """Read and check a configuration file.

    Raises:
        ConfigError: The file is missing, is not YAML or JSON, or has faults; all of them are listed.
    """
    return parse(path, read_text(path))


def read_text(path: Path) -> str:
    """The file's text; a missing one raises a `ConfigError` that says how to make it."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = "the file does not exist; `maitred import` or `maitred add NAME -- COMMAND` makes it"
        raise ConfigError(str(path), [hint]) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(str(path), [f"the file cannot be read: {reason}"]) from error


def parse(path: Path, text: str) -> Settings:
    """Check the text of a configuration file; `path` is used in messages and tells JSON from YAML."""
    document = read_document(path, text)
    check = _Check(document)
    entries = dict(check.servers())
    sections = {name: check.value(kind, [name], document.tree.get(name)) for name, kind in _SECTIONS.items()}
    check.strangers()
    if check.faults:
        raise ConfigError(str(path), [f"line {line}: {fault}" for line, fault in sorted(check.faults)])
    specs = {name: to_spec(name, entry, sections["limits"]) for name, entry in entries.items()}
    return Settings(source=path, servers=specs, **sections)


@dataclass(frozen=True, kw_only=True)
class Document:
    """A file as read: plain values, the nodes that tell where they stand, faults that did not stop it."""

    tree: dict[str, Any]
    root: MappingNode | None
    faults: tuple[tuple[int, str], ...] = ()

    @property
    def servers_key(self) -> str:
        """The key under which the servers stand."""
        return "mcpServers" if "mcpServers" in self.tree else "servers"

    @property
    def is_foreign(self) -> bool:
        """Whether this is a client's file; the one of VS Code is known by its list of `inputs`."""
        return self.servers_key == "mcpServers" or isinstance(self.tree.get("inputs"), list)

    def line(self, keys: Keys) -> int:
        """The line of the value that the keys lead to, or of the nearest one around it."""
        node: Node | None = self.root
        line = 1
        for key in keys:
            if isinstance(node, MappingNode):
                found = [pair for pair in node.value if pair[0].value == key]
            else:
                found = [(item, item) for item in node.value[key : key + 1]] if node else []
            if not found:
                break
            line = found[-1][0].start_mark.line + 1
            node = found[-1][1]
        return line


def read_document(path: Path, text: str) -> Document:
    """Read YAML, or JSON with or without comments; a `ConfigError` says why that fails."""
    text = text.removeprefix("\ufeff")
    try:
        if path.suffix in JSON_SUFFIXES and (text := strict_json(text)).strip():
            json.loads(text, strict=False)
        root = YAML(typ="safe", pure=True).compose(text)
        if root is not None and not isinstance(root, MappingNode):
            raise ConfigError(str(path), ["the top level must be a mapping with `servers` or `mcpServers`"])
        values = _Values()
        tree = values.read(root) if root else {}
    except json.JSONDecodeError as error:
        raise ConfigError(str(path), [f"line {error.lineno}: is not valid JSON: {error.msg}"]) from None
    except RecursionError:
        raise ConfigError(str(path), ["is nested too deeply"]) from None
    except YAMLError as error:
        raise ConfigError(str(path), [_syntax(error, text)]) from None
    return Document(tree=tree, root=root, faults=tuple(values.faults))


def _syntax(error: YAMLError, text: str) -> str:
    """Say in one line what is wrong with the YAML, without repeating values from it."""
    if not isinstance(error, MarkedYAMLError):
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        return f"line {line}: holds a control character that YAML does not allow"
    mark = error.problem_mark or error.context_mark
    problem = ": ".join(str(part) for part in (error.context, error.problem) if part)
    problem = "a tab cannot indent YAML; use spaces" if "'\\t'" in problem else problem
    return f"line {mark.line + 1 if mark else 1}: {problem}"


def strict_json(text: str) -> str:
    """Replace comments and trailing commas by as many spaces, so that every offset stays what it was."""
    return _NOT_JSON.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\r\n]", " ", m[0]), text)


class _Values:
    """Makes plain values of YAML nodes: text, `None`, lists and dictionaries."""

    def __init__(self) -> None:
        self.faults: list[tuple[int, str]] = []
        self._known: dict[int, Any] = {}

    def read(self, node: Node) -> Any:
        if id(node) in self._known:  # an alias; while its anchor is still being read, this is None
            return self._known[id(node)]
        value: Any = self._known.setdefault(id(node), None)
        if not str(node.tag).startswith(_TAG):
            self._fault(node, f"the tag {node.tag} means nothing here")
        if isinstance(node, MappingNode):
            value = self._mapping(node)
        elif isinstance(node, SequenceNode):
            value = [self.read(item) for item in node.value]
        elif node.tag != f"{_TAG}null":
            value = self._text(node)
        self._known[id(node)] = value
        return value

    def _mapping(self, node: MappingNode) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, item in node.value:
            value = self.read(item)
            if key.tag == f"{_TAG}merge":
                for source in value if isinstance(value, list) else [value]:
                    merged = {**source, **merged} if isinstance(source, dict) else merged
                continue
            name = self._text(key)
            if name in lines:
                self._fault(key, f"{name}: is given twice, first in line {lines[name]}")
            lines.setdefault(name, key.start_mark.line + 1)
            own[name] = value
        return {**merged, **own}

    def _text(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            self._fault(node, "a key must be text")
            return ""
        try:  # JSON escapes a character beyond U+FFFF as two halves, which YAML leaves apart
            text = str(node.value).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            self._fault(node, "holds NUL or half of a surrogate pair, which cannot be passed on")
        return text

    def _fault(self, node: Node, message: str) -> None:
        self.faults.append((node.start_mark.line + 1, message))


class _Check:
    """Checks the values of a document, section by section, and keeps every fault with its line."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.faults = list(document.faults)

    def servers(self) -> Iterator[tuple[str, ServerEntry]]:
        key = self._document.servers_key
        servers = self._document.tree.get(key)
        if not isinstance(servers, dict | None):
            self._add([key], "must be a mapping of server names to servers")
            return
        for name, raw in (servers or {}).items():
            item = _from_client(raw) if self._document.is_foreign else raw
            entry = self.value(ServerEntry, [key, name], {} if item is None else item)
            if entry is not None:
                for at, fault in _entry_faults(name, entry):
                    self._add([key, name, *at], fault)
                yield name, entry

    def value(self, kind: type[Any], keys: Keys, raw: Any) -> Any:
        """The checked value; a section or a key without value counts as not given."""
        given = {k: v for k, v in raw.items() if v is not None} if isinstance(raw, dict) else raw
        try:
            return _ADAPTERS[kind].validate_python({} if given is None else given)
        except ValidationError as error:
            for keys_below, fault in _explain(error, kind):
                self._add([*keys, *keys_below], fault)
            return None

    def strangers(self) -> None:
        tree, key = self._document.tree, self._document.servers_key
        if self._document.is_foreign:
            if key == "mcpServers" and "servers" in tree:
                self._add(["servers"], "stands beside `mcpServers`; keep one of the two")
            return
        for stranger in tree.keys() - {"servers", *_SECTIONS}:
            self._add([stranger], _unknown(stranger, ["servers", *_SECTIONS]))

    def _add(self, keys: Keys, message: str) -> None:
        where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)[1:]
        self.faults.append((self._document.line(keys), f"{where}: {message}"))


def _from_client(raw: Any) -> Any:
    """Of a client's server, the keys that mean something here; values that are null count as not given."""
    if not isinstance(raw, dict):
        return raw
    entry = {key: value for key, value in raw.items() if key in ServerEntry.__dataclass_fields__}
    if url := raw.get("serverUrl") or raw.get("httpUrl"):
        entry["url"] = url
    for key in ("env", "headers"):
        if isinstance(given := entry.get(key), dict):
            entry[key] = {k: v for k, v in given.items() if v is not None}
    return entry


def _explain(error: ValidationError, kind: type[Any]) -> Iterator[tuple[Keys, str]]:
    for fault in error.errors(include_url=False, include_input=False):
        if fault["type"] == "unexpected_keyword_argument":
            message = _unknown(str(fault["loc"][-1]), kind.__dataclass_fields__)
        else:
            plain = _PLAIN.get(fault["type"].removesuffix("_type").removesuffix("_parsing"))
            message = plain.format_map(fault.get("ctx", {})) if plain else fault["msg"]
        yield fault["loc"], message


def _unknown(key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(known), n=1)
    hint = f"did you mean `{near[0]}`?" if near else "docs/configuration.md lists them all"
    return f"is not a known key; {hint}"


def entry_faults(name: str, entry: Mapping[str, Any]) -> list[str]:
    """What is wrong with one server that does not stand in a file yet; empty if nothing is."""
    check = _Check(Document(tree={"servers": {name: entry}}, root=None))
    list(check.servers())
    return [fault for _, fault in check.faults]


def _entry_faults(name: str, entry: ServerEntry) -> Iterator[tuple[Keys, str]]:
    if not name.strip():
        yield [], "a server needs a name"
    if bool(entry.command) == bool(entry.url):
        yield [], "needs either `command` (a program to start) or `url` (a server to reach), and not both"
    kind = entry.transport or entry.type
    at = ["transport" if entry.transport else "type"]
    if kind and kind not in _TRANSPORTS:
        yield at, f"{kind!r} is not a transport; use stdio, http or sse"
    elif (
        kind
        and bool(entry.command) != bool(entry.url)
        and bool(entry.command) != (_TRANSPORTS[kind] == "stdio")
    ):
        yield at, f"{kind} does not fit; a server with `command` is stdio, one with `url` is http or sse"
    if entry.url and not entry.url.startswith(("http://", "https://", "${")):
        yield ["url"], "must start with http:// or https://"
    for variable in entry.env:
        if not variable or "=" in variable:
            yield ["env", variable], "is not a name that an environment variable can have"


def to_spec(name: str, entry: ServerEntry, limits: Limits) -> ServerSpec:
    """Turn a checked entry into a specification, its missing time limits taken from `limits`."""
    kind = entry.transport or entry.type
    transport = _TRANSPORTS[kind] if kind else ("http" if entry.url else "stdio")
    timeouts = Timeouts(
        start_s=entry.start_timeout_s or limits.start_timeout_s,
        list_s=entry.list_timeout_s or limits.list_timeout_s,
        call_s=entry.call_timeout_s or limits.call_timeout_s,
        idle_stop_s=entry.idle_stop_s or limits.idle_stop_s,
    )
    return ServerSpec(
        name=name,
        transport=transport,
        command=entry.command,
        args=entry.args,
        env=dict(entry.env),
        cwd=entry.cwd,
        url=entry.url,
        headers=dict(entry.headers),
        era=entry.era,
        enabled=entry.enabled and not entry.disabled,
        timeouts=timeouts,
    )


def with_http(settings: Settings, **changes: Any) -> Settings:
    """The settings with some of the `http` section replaced; `None` means unchanged."""
    given = {key: value for key, value in changes.items() if value is not None}
    return replace(settings, http=replace(settings.http, **given))
