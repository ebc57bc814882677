"""Write texts of a person for one tool into a file of overrides, or take them out again.

It changes only these values, as `maitred.config.edit` changes servers, so comments and layout stay.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maitred.config.document import read_document
from maitred.config.edit import Layout, as_read
from maitred.errors import ConfigError
from maitred.model.tools import ToolKey

_TOP = "overrides"


def with_override(path: Path, text: str, tool: ToolKey, values: Mapping[str, Any]) -> str:
    """Return the text of a file with values for a tool, each a text or a list of texts; empty ones go.

    Raises:
        ConfigError: The file is not one of overrides, or its layout does not allow this change alone.
    """
    tree = _tree(path, text)
    expected = _changed(tree, tool, values)
    new_text = text
    for name, value in values.items():
        new_text = _with_value(path, new_text, tool, name, value)
    if as_read(read_document(path, new_text).tree) != expected:
        raise ConfigError(str(path), ["its layout does not allow this change alone; edit it by hand"])
    return new_text


def with_overrides_file(path: Path, text: str, file: str) -> str:
    """Return the text of a configuration that names a file of overrides, and is otherwise the same.

    Raises:
        ConfigError: It is a client's file, or its layout does not allow this change alone.
    """
    document = read_document(path, text)
    if document.is_foreign:
        hint = (
            "is a client's file, which cannot name a file of overrides; `maitred import` makes one that can"
        )
        raise ConfigError(str(path), [hint])
    section = document.tree.get("mediation")
    new_text = Layout(path, text, ("mediation",)).with_entry("overrides", file)
    expected = {**document.tree, "mediation": {**(section or {}), "overrides": file}}
    if read_document(path, new_text).tree != expected:
        raise ConfigError(str(path), ["its layout does not allow this change alone; edit it by hand"])
    return new_text


def _tree(path: Path, text: str) -> dict[str, Any]:
    tree = read_document(path, text).tree
    servers = tree.get(_TOP) or {}
    if not isinstance(servers, dict) or not all(isinstance(one, dict | None) for one in servers.values()):
        raise ConfigError(str(path), [f"{_TOP}: must be a mapping of servers to tools"])
    return tree


def _changed(tree: Mapping[str, Any], tool: ToolKey, values: Mapping[str, Any]) -> Any:
    """Return the content of the file as it must be afterwards."""
    whole: dict[str, Any] = as_read(tree)
    servers = whole.get(_TOP) or {}
    tools = dict(servers.get(tool.server) or {})
    entry = {**(tools.get(tool.name) or {}), **as_read(values)}
    entry = {name: value for name, value in entry.items() if value}
    tools = {**tools, tool.name: entry} if entry else {k: v for k, v in tools.items() if k != tool.name}
    servers = (
        {**servers, tool.server: tools} if tools else {k: v for k, v in servers.items() if k != tool.server}
    )
    return {**whole, _TOP: servers}


def _with_value(path: Path, text: str, tool: ToolKey, name: str, value: Any) -> str:
    keys = [_TOP, tool.server, tool.name, name]
    depth = _depth(read_document(path, text).tree, keys)
    if value:
        return _with_entry(path, text, keys, depth, value)
    if depth < len(keys):
        return text
    at = len(keys) - 1
    while at > 1 and len(_follow(read_document(path, text).tree, keys[:at])) == 1:  # it would be empty
        at -= 1
    return Layout(path, text, keys[:at]).without_entry(keys[at])


def _with_entry(path: Path, text: str, keys: Sequence[str], depth: int, value: Any) -> str:
    if depth == len(keys):
        return Layout(path, text, keys[:-1]).with_replaced_entry(keys[-1], value)
    at = max(depth, 1)
    for key in reversed(keys[at + 1 :]):
        value = {key: value}
    return Layout(path, text, keys[:at]).with_entry(keys[at], value)


def _depth(tree: Any, keys: Sequence[str]) -> int:
    """Return how many of the keys, from the first, lead to a value."""
    for depth, key in enumerate(keys):
        if not isinstance(tree, dict) or tree.get(key) is None:
            return depth
        tree = tree[key]
    return len(keys)


def _follow(tree: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        tree = tree[key]
    return tree
