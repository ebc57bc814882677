"""Add and remove servers in a configuration file and change nothing else in it.

It works on the text: ruamel says where the servers are, and only the lines of one server are inserted or
deleted. So comments, order, quotes and indentation stay the same, in YAML and in JSON. (A dump of the whole
tree would move the comments behind the last server, and lose them when it is removed.) Before the write it
reads the new text, which must have the intended servers, everything else unchanged, and no fault.
"""

import io
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.nodes import MappingNode, ScalarNode
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from maitred.config.document import JSON_SUFFIXES, as_json, read_document
from maitred.config.file_rewrite import rewrite
from maitred.config.load import parse
from maitred.errors import ConfigError
from maitred.wording import did_you_mean, quote_input

_INDENT = 2
_GAP = re.compile(r"(?:\s|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)  # between the parts of JSON
_REMARK = re.compile(
    r"(?>[ \t]*(?>//[^\r\n]*|/\*[^\r\n]*?\*/))+[ \t]*(?=[\r\n])"
)  # comments to the line's end
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def add_server(path: Path, name: str, entry: Mapping[str, Any], *, replace: bool = False) -> None:
    """Put one server into the file; see `add_servers`."""
    add_servers(path, {name: entry}, replace=replace)


def add_servers(path: Path, entries: Mapping[str, Mapping[str, Any]], *, replace: bool = False) -> None:
    """Put servers into the file, all or none; a missing file and its folders are made for the owner only.

    Raises:
        ConfigError: A server of the name exists and `replace` is false, the result would have faults, or the
            file cannot be read or written. The file is then unchanged.
    """
    rewrite(path, lambda text: with_servers(path, text, entries, replace=replace), create=True)


def with_servers(
    path: Path, text: str, entries: Mapping[str, Mapping[str, Any]], *, replace: bool = False
) -> str:
    """The text of the file with servers put into it; see `add_servers`."""
    new_entries = {name: {k: v for k, v in entry.items() if v is not None} for name, entry in entries.items()}
    present = Layout(path, text).names
    clashes = [name for name in new_entries if name in present]
    if clashes and not replace:
        hint = "is there already; remove it first, or add it with --replace"
        raise ConfigError(str(path), [f"servers.{name}: {hint}" for name in clashes])
    new_text = text
    for name in clashes:
        new_text = Layout(path, new_text).with_replaced_entry(name, new_entries[name])
    if added := {name: entry for name, entry in new_entries.items() if name not in clashes}:
        new_text = Layout(path, new_text).with_entries(added)
    _verify(path, text, new_text, lambda servers: {**servers, **as_read(new_entries)})
    return new_text


def remove_server(path: Path, name: str) -> Mapping[str, Any]:
    """Take one server out of the file; return its entry.

    Raises:
        ConfigError: There is no such server, the file cannot be read or written, or would still have faults.
    """
    entry: dict[str, Any] = {}

    def edit(text: str) -> str:
        layout = Layout(path, text)
        if name not in layout.names:
            hint = did_you_mean(name, layout.names, most=3, otherwise="`maitred list` shows them all")
            raise ConfigError(str(path), [f"there is no server {quote_input(name)}; {hint}"])
        before = read_document(path, text)
        entry.update(before.tree[before.servers_key][name] or {})
        new_text = layout.without_entry(name)
        after = read_document(path, new_text)
        tools = after.tree.get("tools")
        if not after.is_foreign and isinstance(tools, dict) and name in tools:
            new_text = Layout(path, new_text, ("tools",)).without_entry(name)
        _verify(
            path, text, new_text, lambda entries: {k: v for k, v in entries.items() if k != name}, "tools"
        )
        return new_text

    rewrite(path, edit, create=False)
    return entry


def _verify(
    path: Path, old: str, new: str, change: Callable[[dict[str, Any]], dict[str, Any]], *also: str
) -> None:
    """Check that only the servers and the sections in `also` changed, and that the file can be loaded."""
    parse(path, new)
    after = read_document(path, new)
    keys = (after.servers_key, *(() if after.is_foreign else also))
    before = dict(read_document(path, old).tree)
    expected = before | {key: change(before.get(key) or {}) for key in keys}
    if {**after.tree, **{key: after.tree.get(key) or {} for key in keys}} != expected:
        raise ConfigError(str(path), ["its layout does not allow this change alone; edit it by hand"])


def as_read(value: Any) -> Any:
    """Return a value as a file would return it, with every scalar as text."""
    if isinstance(value, Mapping):
        return {str(key): as_read(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_read(item) for item in value]
    return value if isinstance(value, str | None) else json.dumps(value)


def as_yaml(value: Any) -> list[str]:
    """Write block style, each list and each scalar on one line."""

    def with_style(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {with_style(str(key)): with_style(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            items = CommentedSeq(with_style(item) for item in value)
            items.fa.set_flow_style()
            return items
        if not isinstance(value, str):
            return value
        # YAML() writes an item of a list that begins with `?` without quotes, and reads it as a key.
        needs_quotes = value.startswith("?") or _UNPRINTABLE.search(value)
        return DoubleQuotedScalarString(value) if needs_quotes else value

    yaml = YAML()
    yaml.width = sys.maxsize
    yaml.indent(mapping=_INDENT)
    buffer = io.StringIO()
    yaml.dump(with_style(value), buffer)
    return buffer.getvalue().split("\n")[:-1]


def value_end(node: Any) -> int:
    """Return the offset behind the last character of a value, without the comments and lines after it."""
    if isinstance(node, ScalarNode) or node.flow_style:
        return int(node.end_mark.index)
    parts = [part for pair in node.value for part in pair] if isinstance(node, MappingNode) else node.value
    return max((value_end(part) for part in parts), default=int(node.start_mark.index))


def line_end(text: str, at: int) -> int:
    """Return the start of the next line, or the end of a block of text."""
    if text[at - 1 : at] == "\n":
        return at
    return text.find("\n", at) + 1 or len(text)


def _below(node: Any, keys: Sequence[str]) -> Any:
    """Return the mapping under these keys of another one."""
    for key in keys:
        node = next(value for name, value in node.value if name.value == key)
    return node


class Layout:
    """The places of the servers in a text, and the text after a change of one of them.

    With `keys`, it is about the mapping under these keys; everything above it must be a mapping.
    """

    def __init__(self, path: Path, text: str, keys: Sequence[str] = ()) -> None:
        document = read_document(path, text)
        self._text = text
        self._is_json = path.suffix in JSON_SUFFIXES
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._root: Any = _below(document.root, keys[:-1])
        is_new = self._is_json and "servers" not in document.tree
        self._key = keys[-1] if keys else "mcpServers" if is_new else document.servers_key
        pairs = self._root.value if self._root else []
        self._servers: Any = next((value for key, value in pairs if key.value == self._key), None)
        if not keys and not isinstance(document.tree.get(self._key), dict | None):
            raise ConfigError(str(path), [f"{self._key}: must be a mapping of server names to servers"])
        self._spans: dict[str, tuple[int, int]] = {}
        for key, value in self._servers.value if isinstance(self._servers, MappingNode) else []:
            self._spans[str(key.value)] = key.start_mark.index, max(key.end_mark.index, value_end(value))

    @property
    def names(self) -> list[str]:
        """The names in the mapping, in their order."""
        return list(self._spans)

    def with_entry(self, name: str, entry: Any) -> str:
        """Return the text with one more entry, behind the others."""
        return self.with_entries({name: entry})

    def with_entries(self, entries: Mapping[str, Any]) -> str:
        """Return the text with more entries, behind the others."""
        text, root, servers = self._text, self._root, self._servers
        section = {self._key: entries}
        if root is None and self._is_json:
            gap = self._newline if text.strip() else ""
            return f"{text}{gap}{as_json(section, ' ' * _INDENT)}\n"
        if servers is None and root is not None and root.flow_style:
            return self._into_braces(root, section)
        if servers is None:
            return self._lines(len(text), section, root.start_mark.column if root else 0)
        if isinstance(servers, MappingNode) and servers.flow_style and (self._spans or root.flow_style):
            return self._into_braces(servers, entries)
        if self._spans:
            return self._lines(line_end(self._text, value_end(servers)), entries, servers.start_mark.column)
        return self._into_nothing(entries)

    def _into_nothing(self, entries: Mapping[str, Any]) -> str:
        """Insert the first entries in place of `null`, `{}` or nothing."""
        text, start, end = self._text, self._servers.start_mark.index, self._servers.end_mark.index
        if self._root.flow_style:
            return text[:start] + as_json(entries) + text[end:]
        head = text[:start].rstrip(" ")
        self._text = head + text[end:]
        return self._lines(line_end(self._text, len(head)), entries, self._root.start_mark.column + _INDENT)

    def with_replaced_entry(self, name: str, entry: Mapping[str, Any]) -> str:
        """Return the text with another entry of this name."""
        text = self._text
        start, end = self._spans[name]
        if self._servers.flow_style:
            return text[:start] + self._member(name, entry, self._own_line(start)) + text[end:]
        start, end = self._line_start(start), line_end(self._text, end)
        self._text = text[:start] + text[end:]
        return self._lines(start, {name: entry}, self._servers.start_mark.column)

    def without_entry(self, name: str) -> str:
        """Return the text without an entry."""
        text = self._text
        if self._servers.flow_style:
            return self._out_of_braces(name)
        start, end = self._spans[name]
        start, end = self._line_start(start), line_end(self._text, end)
        if len(self._spans) > 1:
            return text[:start] + text[end:]
        head = next(key for key, value in self._root.value if value is self._servers)
        colon = text.index(":", head.end_mark.index) + 1
        return f"{text[:colon]} {{}}{text[colon:start]}{text[end:]}"

    def _line_start(self, at: int) -> int:
        return self._text.rfind("\n", 0, at) + 1

    def _own_line(self, at: int) -> str | None:
        """Return the white space before the offset, if there is nothing else before it on its line."""
        before = self._text[self._line_start(at) : at]
        return None if before.strip() else before

    def _lines(self, at: int, value: Mapping[str, Any], column: int) -> str:
        """Insert `value` as YAML on lines of its own."""
        head, tail = self._text[:at], self._text[at:]
        lines = [" " * column + line + self._newline for line in as_yaml(value)]
        return "".join([head, "" if head[-1:] in ("", "\n") else self._newline, *lines, tail])

    def _unit(self) -> str:
        return (
            self._own_line(self._root.value[0][0].start_mark.index if self._root.value else 0)
            or " " * _INDENT
        )

    def _member(self, name: str, value: Any, indent: str | None) -> str:
        """Write the entry as JSON, on several lines if it has an indent."""
        if indent is None:
            return f"{as_json(name)}: {as_json(value)}"
        return f"{as_json(name)}: {as_json(value, self._unit())}".replace("\n", self._newline + indent)

    def _members(self, entries: Mapping[str, Any], indent: str | None) -> str:
        gap = ", " if indent is None else f",{self._newline}{indent}"
        return gap.join(self._member(name, value, indent) for name, value in entries.items())

    def _after_gap(self, at: int) -> int:
        match = _GAP.match(self._text, at) if self._is_json else re.compile(r"\s*").match(self._text, at)
        return match.end() if match else at

    def _into_braces(self, node: Any, entries: Mapping[str, Any]) -> str:
        text, start, close = self._text, node.start_mark.index, node.end_mark.index - 1
        if not node.value:
            head = text[:close].rstrip()
            if "\n" not in text.strip():
                return f"{head}{self._members(entries, None)}{text[close:]}"
            line = text[self._line_start(start) : start]
            outer = line[: len(line) - len(line.lstrip())]
            inner = outer + self._unit()
            member = self._members(entries, inner)
            return f"{head}{self._newline}{inner}{member}{self._newline}{outer}{text[close:]}"
        indent = self._own_line(node.value[0][0].start_mark.index)
        at = max(node.value[-1][0].end_mark.index, value_end(node.value[-1][1]))
        comma = self._after_gap(at)
        is_trailing = text[comma] == ","
        at = comma + 1 if is_trailing else at
        member = self._members(entries, indent)
        if indent is None:
            return f"{text[:at]}{' ' if is_trailing else ', '}{member}{text[at:]}"
        remark = _REMARK.match(text, at) if self._is_json else None
        tail_at = remark.end() if remark else at
        before, after = ("", ",") if is_trailing else (",", "")
        return f"{text[:at]}{before}{text[at:tail_at]}{self._newline}{indent}{member}{after}{text[tail_at:]}"

    def _out_of_braces(self, name: str) -> str:
        text, index = self._text, self.names.index(name)
        start, end = self._spans[name]
        head, tail = text[:start], text[end:]
        comma = self._after_gap(end)
        is_followed = text[comma] == ","
        if is_followed:
            tail = text[end:comma] + text[comma + 1 :]
        elif index:
            before = self._after_gap(self._spans[self.names[index - 1]][1])
            head = text[:before] + text[before + 1 : start]
        first, newline, tail_rest = tail.partition("\n")
        if self._own_line(start) is not None and newline and not first.strip():
            head, tail = head[: head.rfind("\n") + 1], tail_rest
        elif is_followed:
            tail = tail.lstrip(" ")
        else:
            head = head.rstrip(" ")
        inside = self._servers.start_mark.index + 1
        inner, _, right = tail.partition("}")
        if len(self._spans) == 1 and not (head[inside:] + inner).strip():
            return f"{head[:inside]}}}{right}"
        return head + tail
