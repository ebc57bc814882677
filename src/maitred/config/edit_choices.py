"""Write choices for a tool, a switch, or a saved chain into a configuration file, or take them out again.

It changes only these values, as `maitred.config.edit` changes servers, so comments and layout stay. A
client's file cannot have any of them: other programs own and read it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from ruamel.yaml.nodes import MappingNode, ScalarNode

from maitred.config.document import ConfigDocument, read_document
from maitred.config.edit import Layout, as_read
from maitred.config.file_rewrite import rewrite
from maitred.config.load import parse
from maitred.config.section_texts import without_empty_section
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.model.tools import ToolKey
from maitred.wording import quote_input

Tree = dict[str, Any]
_SECTION: Final = "tools"
_SERVERS: Final = "servers"


Choice = Literal["category", "mending", "enabled", "pinned"]
"""The keys of a tool that can be written, each of them one word or a switch."""


@dataclass(frozen=True, kw_only=True)
class ToolChange:
    """Decisions about a tool; `None` leaves one as it is.

    A tool that is not `enabled` is switched off: no caller finds or calls it. An empty `category` is the one
    that the gateway finds by itself.
    """

    enabled: bool | None = None
    pinned: bool | None = None
    category: str | None = None

    @property
    def decisions(self) -> dict[str, Any]:
        """Those that are not `None`."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def values(self) -> dict[Choice, str | bool | None]:
        """The values for the file; what is the default is not in it."""
        values: dict[Choice, str | bool | None] = {}
        if self.enabled is not None:
            values["enabled"] = None if self.enabled else False
        if self.pinned is not None:
            values["pinned"] = True if self.pinned else None
        if self.category is not None:
            values["category"] = self.category or None
        return values


def set_choice(path: Path, tool: ToolKey, choice: Choice, value: str) -> None:
    """Write `tools: <server>: <raw name>: <choice>: <value>` into the file; nothing else changes.

    Raises:
        ConfigError: It is a client's file, the result would have faults (such as an unknown category), or the
            file cannot be read or written. The file is then unchanged.
    """
    change_choices(path, tool, {choice: value})


def unset_choice(path: Path, tool: ToolKey, choice: Choice) -> bool:
    """Remove a choice, with mappings that become empty; false if there was none.

    Raises:
        ConfigError: As for `set_choice`.
    """
    return change_choices(path, tool, {choice: None})


def change_choices(path: Path, tool: ToolKey, values: Mapping[Choice, str | bool | None]) -> bool:
    """Write several choices for a tool at once; `None` removes one. False if the file says all that already.

    Raises:
        ConfigError: As for `set_choice`.
    """
    before, after = rewrite(path, lambda text: with_choices(path, text, tool, values), create=False)
    return before != after


def with_choices(path: Path, text: str, tool: ToolKey, values: Mapping[Choice, str | bool | None]) -> str:
    """The text of the file with several choices for a tool; see `change_choices`."""
    _read_own(path, text)
    new_text = text
    for choice, value in values.items():
        change = _without_choice if value is None else partial(_with_choice, value=value)
        new_text = change(path, new_text, _keys(tool, choice))
    return _without_rest(path, new_text) if new_text != text else text


def check_switchable(settings: Settings, server: str) -> None:
    """Refuse a server that is not defined in the configuration file.

    Raises:
        ConfigError: It is registered by a manifest.
    """
    spec = settings.servers.get(server)
    if spec is not None and spec.registered:
        hint = "is registered by a manifest; `maitred suspend` takes it out of use, and `maitred resume` back"
        raise ConfigError(str(settings.source), [f"{server!r} {hint}"])


def switch(path: Path, servers: Sequence[str], tools: Sequence[ToolKey], *, enabled: bool) -> Sequence[bool]:
    """Switch servers and tools off, or on again, all of them or none.

    Returns for each whether the file changed for it; the servers come first. What is the default is not in
    the file.

    Raises:
        ConfigError: The file has no such server, or as for `set_choice`.
    """
    changes: list[bool] = []

    def edit(text: str) -> str:
        document = _read_own(path, text, what="switches for servers and tools")
        entries = document.tree.get(_SERVERS) or {}
        if faults := [f"has no server {name!r} to switch" for name in servers if name not in entries]:
            raise ConfigError(str(path), faults)
        changes.clear()
        new_text = text
        for keys in [*([_SERVERS, name] for name in servers), *([_SECTION, *_pair(key)] for key in tools)]:
            before = new_text
            if enabled:
                for key in ("enabled", "disabled") if keys[0] == _SERVERS else ("enabled",):
                    new_text = _without_choice(path, new_text, [*keys, key])
            else:
                new_text = _with_choice(path, new_text, [*keys, "enabled"], value=False)
            changes.append(new_text != before)
        return _without_rest(path, new_text) if any(changes) else text

    rewrite(path, edit, create=False)
    return changes


def _pair(tool: ToolKey) -> Sequence[str]:
    return tool.server, tool.name


def _with_choice(path: Path, text: str, keys: Sequence[str], *, value: str | bool) -> str:
    document = read_document(path, text)
    expected = _copy(document.tree)
    _put(expected, keys, as_read(value))
    depth = _depth(document, keys)
    if depth == len(keys):
        if _follow(document.tree, keys) == as_read(value):
            return text
        new_text = _with_value(document, text, keys, as_read(value))
    else:
        at = max(depth, 1)
        new_text = Layout(path, text, keys[:at]).with_entry(keys[at], _nest(keys[at + 1 :], value))
    return _verify_choice(path, new_text, expected)


def _without_choice(path: Path, text: str, keys: Sequence[str]) -> str:
    document = read_document(path, text)
    if _depth(document, keys) < len(keys):
        return text
    expected = _copy(document.tree)
    at = len(keys) - 1
    while at > 1 and len(_follow(expected, keys[:at])) == 1:  # the mapping would be empty
        at -= 1
    del _follow(expected, keys[:at])[keys[at]]
    return _verify_choice(path, Layout(path, text, keys[:at]).without_entry(keys[at]), expected)


def _without_rest(path: Path, text: str) -> str:
    """The text without the section, if nothing is left in it."""
    new_text = without_empty_section(path, text, _SECTION)
    if new_text == text:
        return text
    expected = _copy(read_document(path, text).tree)
    del expected[_SECTION]
    return _verify_choice(path, new_text, expected) if expected else text


def _keys(tool: ToolKey, choice: Choice) -> Sequence[str]:
    return _SECTION, tool.server, tool.name, choice


def _read_own(path: Path, text: str, *, what: str = "choices for tools") -> ConfigDocument:
    document = read_document(path, text)
    if document.is_foreign:
        hint = f"is a client's file, which cannot hold {what}; `maitred import` makes a file that can"
        raise ConfigError(str(path), [hint])
    parse(path, text)
    return document


def _copy(tree: Tree) -> Tree:
    """Copy a tree so that no values are shared; aliases share values."""
    copy: Tree = json.loads(json.dumps(tree))
    return copy


def _depth(document: ConfigDocument, keys: Sequence[str]) -> int:
    """Return how many of the keys, from the first, lead to a value in the file itself."""
    node: Any = document.root
    for depth, key in enumerate(keys):
        node = _child(node, key)
        if node is None:
            return depth
    return len(keys)


def _child(node: Any, key: str) -> Any:
    pairs = node.value if isinstance(node, MappingNode) else []
    return next((inner for name, inner in pairs if name.value == key), None)


def _follow(tree: Tree, keys: Sequence[str]) -> Any:
    for key in keys:
        tree = tree[key]
    return tree


def _put(tree: Tree, keys: Sequence[str], value: str) -> None:
    for key in keys[:-1]:
        inner = tree.get(key) or {}
        tree[key] = inner
        tree = inner
    tree[keys[-1]] = value


def _nest(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _with_value(document: ConfigDocument, text: str, keys: Sequence[str], value: str) -> str:
    """Return the text with another scalar value; a comment behind it stays."""
    node: Any = document.root
    for key in keys:
        node = _child(node, key)
    if not isinstance(node, ScalarNode):
        return text
    start, end = node.start_mark.index, node.end_mark.index
    quote = '"' if text[start : start + 1] in ("'", '"') else ""
    gap = " " if start == end and text[start - 1 : start] == ":" else ""
    return f"{text[:start]}{gap}{quote}{value}{quote}{text[end:]}"


def _verify_choice(path: Path, new_text: str, expected: Mapping[str, Any]) -> str:
    """Return the new text, if it can be loaded and has the expected content and nothing else."""
    parse(path, new_text)
    if read_document(path, new_text).tree != expected:
        raise ConfigError(str(path), ["its layout does not allow this change alone; edit it by hand"])
    return new_text


_KEY = "chains"


def save_chain(path: Path, name: str, file: Path, digest: str, *, replace: bool = False) -> str:
    """Write `chains: <name>: {file, hash}`; return the file's path in that entry.

    Raises:
        ConfigError: A chain of the name exists and `replace` is false, it is a client's file, the result
            would have faults, or the file cannot be read or written. The file is then unchanged.
    """
    entry = {"file": _path_text(path, file), "hash": digest}

    def edit(text: str) -> str:
        tree = _tree(path, text)
        chains = tree.get(_KEY) or {}
        if name in chains and not replace:
            hint = "is there already; review the new one and save it with --replace"
            raise ConfigError(str(path), [f"{_KEY}.{name}: {hint}"])
        layout = Layout(path, text, (_KEY,))
        new_text = (
            layout.with_replaced_entry(name, entry) if name in chains else layout.with_entry(name, entry)
        )
        return _verify_chains(path, new_text, tree | {_KEY: {**chains, name: entry}})

    rewrite(path, edit, create=False)
    return entry["file"]


def unsave_chain(path: Path, name: str) -> None:
    """Remove a chain from the configuration; its file stays.

    Raises:
        ConfigError: There is none of the name, or as for `save_chain`.
    """

    def edit(text: str) -> str:
        tree = _tree(path, text)
        chains = tree.get(_KEY) or {}
        if name not in chains:
            names = ", ".join(chains) or "none"
            raise ConfigError(str(path), [f"no chain is saved as {quote_input(name)}; there are: {names}"])
        others = {key: value for key, value in chains.items() if key != name}
        return _verify_chains(path, Layout(path, text, (_KEY,)).without_entry(name), tree | {_KEY: others})

    rewrite(path, edit, create=False)


def _path_text(path: Path, file: Path) -> str:
    """Return the path relative to the configuration's folder if it is inside, so that both can move."""
    folder, absolute = path.resolve().parent, file.resolve()
    return absolute.relative_to(folder).as_posix() if absolute.is_relative_to(folder) else str(absolute)


def _tree(path: Path, text: str) -> dict[str, Any]:
    document = read_document(path, text)
    if document.is_foreign:
        hint = "is a client's file, which cannot hold chains; `maitred import` makes a file that can"
        raise ConfigError(str(path), [hint])
    parse(path, text)
    tree: dict[str, Any] = json.loads(json.dumps(document.tree))
    return tree


def _verify_chains(path: Path, new_text: str, expected: dict[str, Any]) -> str:
    parse(path, new_text)
    tree = read_document(path, new_text).tree
    if tree | {_KEY: tree.get(_KEY) or {}} != expected:
        raise ConfigError(str(path), ["its layout does not allow this change alone; edit it by hand"])
    return new_text
