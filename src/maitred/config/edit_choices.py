"""Write into a configuration file what a person chose for a tool, and take it out again.

It changes only that one value, as `maitred.config.edit` changes servers, so comments and layout stay. A
client's file cannot hold choices: it is not ours, and other programs read it.

Write into a configuration file which chains are saved, and take one out again; all else stays as it is.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml.nodes import MappingNode, ScalarNode

from maitred.config.document import ConfigDocument, read_document
from maitred.config.edit import Layout, rewrite
from maitred.config.load import parse
from maitred.errors import ConfigError
from maitred.model.tools import ToolKey

Tree = dict[str, Any]


Choice = Literal["category", "mending"]
"""The keys of a tool that can be written, each of them one word."""


def set_choice(path: Path, tool: ToolKey, choice: Choice, value: str) -> None:
    """Write `tools: <server>: <raw name>: <choice>: <value>` into the file; all else stays as it is.

    Raises:
        ConfigError: It is a client's file, the outcome would have faults (such as a category that does not
            exist), or the file cannot be read or written. The file is then as it was.
    """
    keys = _keys(tool, choice)

    def edit(text: str) -> str:
        document = _own(path, text)
        wanted = _copied(document.tree)
        _put(wanted, keys, value)
        depth = _depth(document, keys)
        if depth == len(keys):
            edited = _with_value(document, text, keys, value)
        else:
            at = max(depth, 1)
            edited = Layout(path, text, keys[:at]).added(keys[at], _nested(keys[at + 1 :], value))
        return _verified(path, edited, wanted)

    rewrite(path, edit, create=False)


def unset_choice(path: Path, tool: ToolKey, choice: Choice) -> bool:
    """Take a choice out again, with what held nothing else; false when there was none.

    Raises:
        ConfigError: As for `set_choice`.
    """
    keys = _keys(tool, choice)
    found = False

    def edit(text: str) -> str:
        nonlocal found
        document = _own(path, text)
        found = _depth(document, keys) == len(keys)
        if not found:
            return text
        wanted = _copied(document.tree)
        at = len(keys) - 1
        while at > 1 and len(_follow(wanted, keys[:at])) == 1:  # would hold nothing then
            at -= 1
        del _follow(wanted, keys[:at])[keys[at]]
        return _verified(path, Layout(path, text, keys[:at]).removed(keys[at]), wanted)

    rewrite(path, edit, create=False)
    return found


def _keys(tool: ToolKey, choice: Choice) -> Sequence[str]:
    return "tools", tool.server, tool.name, choice


def _own(path: Path, text: str) -> ConfigDocument:
    document = read_document(path, text)
    if document.is_foreign:
        hint = (
            "is a client's file, which cannot hold choices for tools; `maitred import` makes a file that can"
        )
        raise ConfigError(str(path), [hint])
    parse(path, text)
    return document


def _copied(tree: Tree) -> Tree:
    """A copy in which nothing is shared, as what stands behind an alias is in the tree."""
    copied: Tree = json.loads(json.dumps(tree))
    return copied


def _depth(document: ConfigDocument, keys: Sequence[str]) -> int:
    """How many of the keys, from the first, lead to something that stands in the file itself."""
    node: Any = document.root
    for depth, key in enumerate(keys):
        node = _child(node, key)
        if node is None:
            return depth
    return len(keys)


def _child(node: Any, key: str) -> Any:
    pairs = node.value if isinstance(node, MappingNode) else []
    return next((inner for name, inner in pairs if name.value == key), None)


def _follow(tree: Tree, keys: Sequence[str]) -> Tree:
    for key in keys:
        tree = tree[key]
    return tree


def _put(tree: Tree, keys: Sequence[str], value: str) -> None:
    for key in keys[:-1]:
        inner = tree.get(key) or {}
        tree[key] = inner
        tree = inner
    tree[keys[-1]] = value


def _nested(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _with_value(document: ConfigDocument, text: str, keys: Sequence[str], value: str) -> str:
    """The text with another value where a single one stands; a remark behind it stays."""
    node: Any = document.root
    for key in keys:
        node = _child(node, key)
    if not isinstance(node, ScalarNode):
        return text
    start, end = node.start_mark.index, node.end_mark.index
    quote = '"' if text[start : start + 1] in ("'", '"') else ""
    gap = " " if start == end and text[start - 1 : start] == ":" else ""
    return f"{text[:start]}{gap}{quote}{value}{quote}{text[end:]}"


def _verified(path: Path, edited: str, wanted: Mapping[str, Any]) -> str:
    """The new text, if it can be loaded and says what is wanted and nothing else."""
    parse(path, edited)
    if read_document(path, edited).tree != wanted:
        raise ConfigError(str(path), ["its layout does not allow this change alone; edit it by hand"])
    return edited


_KEY = "chains"


def save_chain(path: Path, name: str, file: Path, digest: str, *, replace: bool = False) -> str:
    """Write `chains: <name>: {file, hash}`; returns how the file is named there.

    Raises:
        ConfigError: One of the name is there and `replace` is false, it is a client's file, the outcome
            would have faults, or the file cannot be read or written. The file is then as it was.
    """
    entry = {"file": _named(path, file), "hash": digest}

    def edit(text: str) -> str:
        wanted = _tree(path, text)
        chains = wanted.get(_KEY) or {}
        if name in chains and not replace:
            hint = "is there already; review the new one and save it with --replace"
            raise ConfigError(str(path), [f"{_KEY}.{name}: {hint}"])
        layout = Layout(path, text, (_KEY,))
        edited = layout.replaced(name, entry) if name in chains else layout.added(name, entry)
        return _verified_saving(path, edited, wanted | {_KEY: {**chains, name: entry}})

    rewrite(path, edit, create=False)
    return entry["file"]


def unsave_chain(path: Path, name: str) -> None:
    """Take a chain out of the configuration; its file stays.

    Raises:
        ConfigError: There is none of the name, or as for `save_chain`.
    """

    def edit(text: str) -> str:
        wanted = _tree(path, text)
        chains = wanted.get(_KEY) or {}
        if name not in chains:
            known = ", ".join(chains) or "none"
            raise ConfigError(str(path), [f"no chain is saved as {name!r}; there are: {known}"])
        rest = {key: value for key, value in chains.items() if key != name}
        return _verified_saving(path, Layout(path, text, (_KEY,)).removed(name), wanted | {_KEY: rest})

    rewrite(path, edit, create=False)


def _named(path: Path, file: Path) -> str:
    """The file as seen from the configuration's folder, if it is in there, so that both can move."""
    folder, whole = path.resolve().parent, file.resolve()
    return whole.relative_to(folder).as_posix() if whole.is_relative_to(folder) else str(whole)


def _tree(path: Path, text: str) -> dict[str, Any]:
    document = read_document(path, text)
    if document.is_foreign:
        hint = "is a client's file, which cannot hold chains; `maitred import` makes a file that can"
        raise ConfigError(str(path), [hint])
    parse(path, text)
    tree: dict[str, Any] = json.loads(json.dumps(document.tree))
    return tree


def _verified_saving(path: Path, edited: str, wanted: dict[str, Any]) -> str:
    parse(path, edited)
    tree = read_document(path, edited).tree
    if tree | {_KEY: tree.get(_KEY) or {}} != wanted:
        raise ConfigError(str(path), ["its layout does not allow this change alone; edit it by hand"])
    return edited
