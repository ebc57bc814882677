"""Read the text of a configuration file into plain values that know their lines.

YAML, or JSON with comments and trailing commas as clients write it. Values stay text as in the file, so that
`1.10` reaches a server unchanged. The reader collects faults that do not stop it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from maitred.errors import ConfigError

JSON_SUFFIXES = (".json", ".jsonc")
Keys = Sequence[Any]
_TAG = "tag:yaml.org,2002:"
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_GAP = r"//[^\r\n]*|/\*.*?\*/"
_NOT_JSON = re.compile(rf'"(?:\\.|[^"\\])*"|{_GAP}|,(?=(?>(?:\s|{_GAP})*)[}}\]])', re.DOTALL)


def read_text(path: Path) -> str:
    """Return the file's text; if there is no file, the `ConfigError` says how to make it."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = "the file does not exist; `maitred import` or `maitred add NAME -- COMMAND` makes it"
        raise ConfigError(str(path), [hint]) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(str(path), [f"the file cannot be read: {reason}"]) from error


@dataclass(frozen=True, kw_only=True)
class ConfigDocument:
    """The content of a file: plain values, nodes with lines, and faults that did not stop the reader."""

    tree: dict[str, Any]
    root: MappingNode | None
    faults: tuple[tuple[int, str], ...] = ()

    @property
    def servers_key(self) -> str:
        """The key of the servers."""
        return "mcpServers" if "mcpServers" in self.tree else "servers"

    @property
    def is_foreign(self) -> bool:
        """Whether this is a client's file; a list of `inputs` marks the file of VS Code."""
        return self.servers_key == "mcpServers" or isinstance(self.tree.get("inputs"), list)

    def line(self, keys: Keys) -> int:
        """Return the line of the value under these keys, or of the nearest value around it."""
        node: Node | None = self.root
        line = 1
        for key in keys:
            if isinstance(node, MappingNode):
                pairs = [pair for pair in node.value if pair[0].value == key]
            else:
                pairs = [(item, item) for item in node.value[key : key + 1]] if node else []
            if not pairs:
                break
            line = pairs[-1][0].start_mark.line + 1
            node = pairs[-1][1]
        return line


def read_document(path: Path, text: str) -> ConfigDocument:
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
    return ConfigDocument(tree=tree, root=root, faults=tuple(values.faults))


def _syntax(error: YAMLError, text: str) -> str:
    """Describe a fault of the YAML on one line, without values from it."""
    if not isinstance(error, MarkedYAMLError):
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        return f"line {line}: holds a control character that YAML does not allow"
    mark = error.problem_mark or error.context_mark
    problem = ": ".join(str(part) for part in (error.context, error.problem) if part)
    problem = "a tab cannot indent YAML; use spaces" if "'\\t'" in problem else problem
    return f"line {mark.line + 1 if mark else 1}: {problem}"


def as_json(value: Any, indent: str | None = None) -> str:
    """JSON in which no character is invisible."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def strict_json(text: str) -> str:
    """Replace comments and trailing commas by as many spaces, so that every offset stays the same."""
    return _NOT_JSON.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\r\n]", " ", m[0]), text)


class _Values:
    """Makes plain values of YAML nodes: text, `None`, lists and dictionaries."""

    def __init__(self) -> None:
        self.faults: list[tuple[int, str]] = []
        self._values: dict[int, Any] = {}

    def read(self, node: Node) -> Any:
        if id(node) in self._values:  # an alias; the value is None until its anchor is complete
            return self._values[id(node)]
        value: Any = self._values.setdefault(id(node), None)
        if not str(node.tag).startswith(_TAG):
            self._fault(node, f"the tag {node.tag} means nothing here")
        if isinstance(node, MappingNode):
            value = self._mapping(node)
        elif isinstance(node, SequenceNode):
            value = [self.read(item) for item in node.value]
        elif node.tag != f"{_TAG}null":
            value = self._text(node)
        self._values[id(node)] = value
        return value

    def _mapping(self, node: MappingNode) -> dict[str, Any]:
        own_values: dict[str, Any] = {}
        merged_values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, item in node.value:
            value = self.read(item)
            if key.tag == f"{_TAG}merge":
                for source in value if isinstance(value, list) else [value]:
                    merged_values = {**source, **merged_values} if isinstance(source, dict) else merged_values
                continue
            name = self._text(key)
            if name in lines:
                self._fault(key, f"{name}: is given twice, first in line {lines[name]}")
            lines.setdefault(name, key.start_mark.line + 1)
            own_values[name] = value
        return {**merged_values, **own_values}

    def _text(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            self._fault(node, "a key must be text")
            return ""
        try:  # JSON escapes a character beyond U+FFFF as two halves, which YAML does not join
            text = str(node.value).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            self._fault(node, "holds NUL or half of a surrogate pair, which cannot be passed on")
        return text

    def _fault(self, node: Node, message: str) -> None:
        self.faults.append((node.start_mark.line + 1, message))
