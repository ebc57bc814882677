"""Write into a configuration file which chains are saved, and take one out again; all else stays as it is."""

import json
from pathlib import Path
from typing import Any

from maitred.config.document import read_document
from maitred.config.edit import Layout, rewrite
from maitred.config.load import parse
from maitred.errors import ConfigError

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
        return _verified(path, edited, wanted | {_KEY: {**chains, name: entry}})

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
        return _verified(path, Layout(path, text, (_KEY,)).removed(name), wanted | {_KEY: rest})

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


def _verified(path: Path, edited: str, wanted: dict[str, Any]) -> str:
    parse(path, edited)
    tree = read_document(path, edited).tree
    if tree | {_KEY: tree.get(_KEY) or {}} != wanted:
        raise ConfigError(str(path), ["its layout does not allow this change alone; edit it by hand"])
    return edited
