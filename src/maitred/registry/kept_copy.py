"""The copy of a registry's list in a file, and lists that a person exported to a file.

A copy belongs to one address. It is replaced as a whole or not at all, so an interrupted fetch leaves the
copy that was there.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from maitred.config.paths import make_folder
from maitred.errors import ConfigError

MOST_BYTES: Final = 256 * 1024 * 1024
_FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class ServerList:
    """The items of a list, and when they were fetched; `None` for a file without a time."""

    items: Sequence[Any]
    fetched_at: datetime | None = None

    def age_s(self, now: datetime) -> float:
        """How old it is in seconds; a time in the future counts as old."""
        if self.fetched_at is None or self.fetched_at > now:
            return float("inf")
        return (now - self.fetched_at).total_seconds()


def read_copy(path: Path, url: str) -> ServerList | None:
    """The copy of the list at an address; `None` if there is none that can be used."""
    try:
        whole = _read(path)
        if whole["format"] != _FORMAT or whole["url"] != url or not isinstance(whole["servers"], list):
            return None
        fetched_at = datetime.fromisoformat(whole["fetched_at"])
        return ServerList(items=whole["servers"], fetched_at=fetched_at.astimezone(UTC))
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None


def write_copy(path: Path, url: str, items: Sequence[Any], now: datetime) -> None:
    """Put a whole list in the place of the copy.

    Raises:
        ConfigError: The file cannot be written; the copy that was there stays.
    """
    whole = {"format": _FORMAT, "url": url, "fetched_at": now.isoformat(), "servers": items}
    fresh = ""
    try:
        make_folder(path.parent)
        descriptor, fresh = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}-")  # for the owner only
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(whole, file)
            file.flush()
            os.fsync(file.fileno())
        Path(fresh).replace(path)
    except OSError as error:
        if fresh:
            Path(fresh).unlink(missing_ok=True)
        raise ConfigError(str(path), [f"the copy cannot be written: {error.strerror}"]) from error


def read_export(path: Path) -> ServerList:
    """A list in a file: an answer of the API, a list of its items or of `server.json`, or one of these.

    Raises:
        ConfigError: The file cannot be read, or is none of these.
    """
    try:
        whole = _read(path)
    except OSError as error:
        raise ConfigError(str(path), [f"the file cannot be read: {error.strerror}"]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), ["is no JSON that can be read"]) from error
    items = whole.get("servers", whole) if isinstance(whole, dict) else whole
    items = [items] if isinstance(items, dict) else items
    if not isinstance(items, list):
        raise ConfigError(str(path), ["has no list of servers; export the answers of a registry's API"])
    return ServerList(items=items)


def _read(path: Path) -> Any:
    """The JSON of a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is too large, or no JSON.
    """
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError
    return json.loads(data)
