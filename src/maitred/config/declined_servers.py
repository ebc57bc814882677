"""Remember which servers of other clients a person declined, so that an import leaves them out.

The memory is a file in the state folder, one for each configuration file. It has names, each with a hash of
what the server starts or reaches, which identifies it under another name. It stores no values.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maitred.config.edit import as_read
from maitred.config.file_rewrite import rewrite
from maitred.config.load import state_file
from maitred.errors import ConfigError
from maitred.model.tools import canonical, content_hash

Entry = Mapping[str, Any]

_SUFFIX = ".declined.json"
_REACH = ("command", "args", "env", "cwd", "url", "headers")


@dataclass(frozen=True, kw_only=True)
class DeclinedServers:
    """The declined servers: their names, each with the hash of what it reaches."""

    hashes: Mapping[str, str] = field(default_factory=dict)

    def covers(self, name: str, entry: Entry) -> bool:
        """Return whether a server is one of them, by its name or by what it reaches."""
        return bool(self.name_of(name, entry))

    def name_of(self, name: str, entry: Entry) -> str:
        """Return the name under which a server was declined; empty if it was not."""
        if name in self.hashes:
            return name
        reach = reach_hash(entry)
        return next((declined for declined, digest in self.hashes.items() if digest == reach), "")


def read_declined(source: Path) -> DeclinedServers:
    """Read the declined servers of a configuration file.

    Raises:
        ConfigError: The memory cannot be read.
    """
    path = state_file(source, _SUFFIX)
    try:
        return DeclinedServers(hashes=_parse(path, path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return DeclinedServers()
    except (OSError, UnicodeError) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or "it is not UTF-8") from error


def decline(source: Path, entries: Mapping[str, Entry]) -> None:
    """Add servers to the memory.

    Raises:
        ConfigError: The memory cannot be read or written; it is then unchanged.
    """
    if hashes := {name: reach_hash(entry) for name, entry in entries.items()}:
        _change(source, lambda known: {**known, **hashes})


def accept(source: Path, entries: Mapping[str, Entry]) -> None:
    """Remove servers from the memory, under any name.

    Raises:
        ConfigError: The memory cannot be read or written; it is then unchanged.
    """
    declined = read_declined(source)
    if any(declined.covers(name, entry) for name, entry in entries.items()):
        hashes = {reach_hash(entry) for entry in entries.values()}
        _change(source, lambda old: {n: h for n, h in old.items() if n not in entries and h not in hashes})


def _change(source: Path, change: Callable[[dict[str, str]], Mapping[str, str]]) -> None:
    path = state_file(source, _SUFFIX)

    def edit(text: str) -> str:
        hashes = _parse(path, text) if text.strip() else {}
        return json.dumps({"declined": change(hashes)}, ensure_ascii=False, indent=2) + "\n"

    rewrite(path, edit, create=True)


def _parse(path: Path, text: str) -> dict[str, str]:
    try:
        hashes = json.loads(text)["declined"]
        return {str(name): str(digest) for name, digest in hashes.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _unreadable(path, "it is damaged") from error


def _unreadable(path: Path, reason: str) -> ConfigError:
    hint = "remove the file to forget what was removed or declined"
    return ConfigError(str(path), [f"the memory of declined servers cannot be read: {reason}; {hint}"])


def reach_hash(entry: Entry) -> str:
    """Hash what a server starts or reaches, equally for a client's entry and for ours."""
    return content_hash(canonical(as_read({key: entry[key] for key in _REACH if entry.get(key)})))[:16]
