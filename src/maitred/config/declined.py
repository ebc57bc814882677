"""Remember which servers of other clients a person does not want, so that an import leaves them out.

The memory is a file in the state folder, one for each configuration file. It holds names, and for each a
hash of what the server starts or reaches, by which it is known under another name. No value is kept.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maitred.config.edit import as_read, rewrite
from maitred.config.load import state_file
from maitred.errors import ConfigError
from maitred.model.tools import canonical, content_hash

Entry = Mapping[str, Any]

_SUFFIX = ".declined.json"
_REACH = ("command", "args", "env", "cwd", "url", "headers")


@dataclass(frozen=True, kw_only=True)
class Declined:
    """Servers that are not wanted: their names, each with the hash of what it reached."""

    hashes: Mapping[str, str] = field(default_factory=dict)

    def covers(self, name: str, entry: Entry) -> bool:
        """Whether a server is one of them, by its name or by what it reaches."""
        return name in self.hashes or _hash(entry) in self.hashes.values()


def read_declined(source: Path) -> Declined:
    """What is remembered for a configuration file.

    Raises:
        ConfigError: The memory cannot be read.
    """
    path = state_file(source, _SUFFIX)
    try:
        return Declined(hashes=_parsed(path, path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Declined()
    except (OSError, UnicodeError) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or "it is not UTF-8") from error


def decline(source: Path, entries: Mapping[str, Entry]) -> None:
    """Remember servers that are not wanted.

    Raises:
        ConfigError: The memory cannot be read or written; it is then as it was.
    """
    if hashes := {name: _hash(entry) for name, entry in entries.items()}:
        _change(source, lambda known: {**known, **hashes})


def accept(source: Path, entries: Mapping[str, Entry]) -> None:
    """Forget servers that are wanted after all, under whatever name.

    Raises:
        ConfigError: The memory cannot be read or written; it is then as it was.
    """
    known = read_declined(source)
    if any(known.covers(name, entry) for name, entry in entries.items()):
        hashes = {_hash(entry) for entry in entries.values()}
        _change(source, lambda old: {n: h for n, h in old.items() if n not in entries and h not in hashes})


def _change(source: Path, change: Callable[[dict[str, str]], Mapping[str, str]]) -> None:
    path = state_file(source, _SUFFIX)

    def edit(text: str) -> str:
        known = _parsed(path, text) if text.strip() else {}
        return json.dumps({"declined": change(known)}, ensure_ascii=False, indent=2) + "\n"

    rewrite(path, edit, create=True)


def _parsed(path: Path, text: str) -> dict[str, str]:
    try:
        found = json.loads(text)["declined"]
        return {str(name): str(digest) for name, digest in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _unreadable(path, "it is damaged") from error


def _unreadable(path: Path, reason: str) -> ConfigError:
    hint = "remove the file to forget what was removed or declined"
    return ConfigError(str(path), [f"the memory of declined servers cannot be read: {reason}; {hint}"])


def _hash(entry: Entry) -> str:
    """A hash of what a server starts or reaches, the same for a client's entry and for ours."""
    return content_hash(canonical(as_read({key: entry[key] for key in _REACH if entry.get(key)})))[:16]
