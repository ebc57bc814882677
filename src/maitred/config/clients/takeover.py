"""Take servers of clients over into the configuration file, and undo that, the last time first.

What was taken over is in a file of the state folder, one for each configuration file: each time the text from
before, and the names. It may have secrets, as the configuration has, so only its owner can read it.
"""

import base64
import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from maitred.config.clients.connection import ClientState
from maitred.config.clients.discovery import ClientServer
from maitred.config.declined_servers import accept, reach_hash
from maitred.config.document import read_document, read_text
from maitred.config.edit import add_servers, remove_server
from maitred.config.edit_choices import change_choices
from maitred.config.file_rewrite import folder_lock, replace_content, rewrite
from maitred.config.load import state_file
from maitred.config.paths import make_folder
from maitred.errors import ConfigError
from maitred.model.tools import ToolKey

_SUFFIX: Final = ".imported.json"
_ALL_TOOLS: Final = "*"
_MOST_TIMES: Final = 20


@dataclass(frozen=True, kw_only=True)
class TakeoverPlan:
    """What becomes of the servers in the file of a client, if they are moved.

    `new` are added to the configuration; `present` are in it already. Both leave the file of the client. The
    names in `staying` stay there, each with the reason.
    """

    new: Sequence[ClientServer] = ()
    present: Sequence[str] = ()
    staying: Mapping[str, str] = field(default_factory=dict)

    @property
    def leaving(self) -> Sequence[str]:
        """The names that leave the file of the client."""
        return [*self.present, *(one.name for one in self.new)]


def plan_takeover(state: ClientState, source: Path, others: Iterable[TakeoverPlan] = ()) -> TakeoverPlan:
    """Compare the servers of a client with the configuration.

    `others` are the plans for other clients that are carried out before.

    Raises:
        ConfigError: The configuration cannot be read, or is the file of the client.
    """
    if source.exists() and source.resolve() == state.path.resolve():
        raise ConfigError(
            str(source), ["is the configuration of maitred itself; it cannot be its own client"]
        )
    known = _configured(source) | {one.name: one.entry for plan in others for one in plan.new}
    by_hash = {reach_hash(entry): name for name, entry in known.items()}
    new, present, staying = [], [], {}
    for one in state.servers:
        if reach_hash(one.entry) in by_hash:
            present.append(one.name)
        elif one.is_shared:
            staying[one.name] = f"others may have written it; `maitred import {one.name}` shows it first"
        elif one.name in known:
            staying[one.name] = "the configuration has another server of this name"
        else:
            new.append(one)
    own = {*state.own, *present, *staying, *(one.name for one in new)}
    reasons = {
        name: state.problems.get(name, "cannot be taken over") for name in state.names if name not in own
    }
    return TakeoverPlan(new=new, present=present, staying={**staying, **reasons})


def _configured(source: Path) -> dict[str, Mapping[str, Any]]:
    if not source.exists():
        return {}
    document = read_document(source, read_text(source))
    servers = document.tree.get(document.servers_key)
    pairs = servers.items() if isinstance(servers, dict) else ()
    return {name: entry for name, entry in pairs if isinstance(entry, dict)}


def take_over(source: Path, servers: Sequence[ClientServer], *, command: str = "") -> None:
    """Add servers to the configuration, with the tools that their clients hide switched off.

    What one `command` took over in several times is undone together; it is empty for one time alone.

    Raises:
        ConfigError: The configuration cannot be changed; it is then as it was.
    """
    times = _read_times(source)  # if it cannot be read, nothing is taken over that could not be undone
    before = source.read_bytes() if source.exists() else None
    add_servers(source, {one.name: _entry_here(one) for one in servers})
    for one in servers:
        for name in set(one.hidden_tools) - {_ALL_TOOLS}:
            with contextlib.suppress(ConfigError):  # the configuration is in the format of a client
                change_choices(source, ToolKey(server=one.name, name=name), {"enabled": False})
    this_time = {
        "before": None if before is None else base64.b64encode(before).decode("ascii"),
        "after": _digest(source),
        "servers": {one.name: reach_hash(one.entry) for one in servers},
        "command": command,
    }
    _write_times(source, [*times[-_MOST_TIMES + 1 :], this_time])


def _entry_here(server: ClientServer) -> Mapping[str, Any]:
    """The entry of a server; it is switched off where its client hides all of its tools."""
    return {**server.entry, "enabled": False} if _ALL_TOOLS in server.hidden_tools else server.entry


def forget_declined(source: Path, servers: Sequence[ClientServer]) -> None:
    """Servers that were taken over are not declined any more."""
    accept(source, {one.name: one.entry for one in servers})


def undo_takeover(source: Path) -> Sequence[str]:
    """Undo the last command that took servers over; returns the names that left the configuration.

    The file is as before, byte for byte; if it has changed since, the servers that it still has leave it.

    Raises:
        ConfigError: There is nothing to undo, or the configuration cannot be changed.
    """
    times = _read_times(source)
    command = times[-1]["command"] if times else ""
    gone = list(undo_last_time(source))
    while command and (times := _read_times(source)) and times[-1]["command"] == command:
        gone = [*undo_last_time(source), *gone]
    return gone


def undo_last_time(source: Path) -> Sequence[str]:
    """Undo the last time alone, as `undo_takeover` does; a command may have taken over more before.

    Raises:
        ConfigError: As for `undo_takeover`.
    """
    times = _read_times(source)
    if not times:
        raise ConfigError(str(source), ["there is no import to undo"])
    record = times[-1]
    servers: Mapping[str, str] = record["servers"]
    before = None if record["before"] is None else base64.b64decode(record["before"])
    gone = [name for name, there in _configured(source).items() if servers.get(name) == reach_hash(there)]
    if record["after"] != _digest(source):
        for name in gone:
            remove_server(source, name)
    elif before is None:
        with folder_lock(source.resolve().parent):
            source.unlink(missing_ok=True)
    else:
        after = source.read_bytes().decode("utf-8")
        text = before.decode("utf-8").removeprefix("\ufeff")
        same = after.removeprefix("\ufeff")
        rewrite(source, lambda now: text if now == same else now, create=False)
    _write_times(source, times[:-1])
    return gone


def _read_times(source: Path) -> Sequence[Mapping[str, Any]]:
    target = state_file(source, _SUFFIX)
    try:
        times: Sequence[Mapping[str, Any]] = json.loads(target.read_text(encoding="utf-8"))
        keys = ("before", "after", "servers")
        return [{**{key: one[key] for key in keys}, "command": one.get("command", "")} for one in times]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        fault = "the memory of imports cannot be read; remove the file to forget them"
        raise ConfigError(str(target), [fault]) from error


def _write_times(source: Path, times: Sequence[Mapping[str, Any]]) -> None:
    target = state_file(source, _SUFFIX)
    try:
        make_folder(target.parent)
        before = target.read_bytes() if target.exists() else None
        replace_content(target, before, json.dumps(times).encode())
    except OSError as error:
        raise ConfigError(str(target), [f"cannot be written: {error.strerror}"]) from error


def _digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest() if source.exists() else ""
