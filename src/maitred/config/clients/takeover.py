"""Take servers of clients over into the configuration file, and undo that, the last time first.

What was taken over is in a file of the state folder, one for each configuration file: each time the text from
before, and the names. It may have secrets, as the configuration has, so only its owner can read it.
"""

import base64
import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from maitred.config.clients.connection import ClientState
from maitred.config.clients.discovery import ClientServer
from maitred.config.declined_servers import accept, reach_hash
from maitred.config.document import read_document, read_text
from maitred.config.edit import remove_server, with_servers
from maitred.config.edit_choices import with_choices
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

    `new` are added to the configuration; `present` are in it already, each with its name there. Both leave
    the file of the client. The names in `staying` stay there, each with the reason.
    """

    new: Sequence[ClientServer] = ()
    present: Mapping[str, str] = field(default_factory=dict)
    staying: Mapping[str, str] = field(default_factory=dict)

    @property
    def leaving(self) -> Sequence[str]:
        """The names that leave the file of the client."""
        return [*self.present, *(one.name for one in self.new)]


def plan_takeover(
    state: ClientState,
    source: Path,
    configured: Mapping[str, Mapping[str, Any]],
    others: Iterable[TakeoverPlan] = (),
) -> TakeoverPlan:
    """Compare the servers of a client with those that are configured.

    `others` are the plans for other clients that are carried out before.

    Raises:
        ConfigError: The configuration is the file of the client.
    """
    if source.exists() and source.resolve() == state.path.resolve():
        raise ConfigError(
            str(source), ["is the configuration of maitred itself; it cannot be its own client"]
        )
    known = {**configured, **{one.name: one.entry for plan in others for one in plan.new}}
    by_hash = {reach_hash(entry): name for name, entry in known.items()}
    new: list[ClientServer] = []
    present, staying = dict[str, str](), dict[str, str]()
    for one in state.servers:
        if (there := by_hash.get(reach_hash(one.entry))) is not None:
            if _is_off(known[there]) and not _is_off(one.entry):
                staying[one.name] = f"it is switched off in the configuration; `maitred enable {there}` first"
            else:
                present[one.name] = there
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


def _is_off(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("enabled", "true")).lower() == "false"


def configured_servers(source: Path) -> dict[str, Mapping[str, Any]]:
    """The entries in the configuration, as they are written; none if there is no file.

    Raises:
        ConfigError: It cannot be read.
    """
    if not source.exists():
        return {}
    document = read_document(source, read_text(source))
    servers = document.tree.get(document.servers_key)
    pairs = servers.items() if isinstance(servers, dict) else ()
    return {name: entry for name, entry in pairs if isinstance(entry, dict)}


@contextlib.contextmanager
def configuration_lock(source: Path) -> Iterator[None]:
    """Keep other maitred processes away from the configuration while several of its changes are made.

    Raises:
        ConfigError: Another one keeps it for too long, or its folder cannot be made.
    """
    folder = source.resolve().parent
    with contextlib.ExitStack() as stack:
        with _faults(source):
            make_folder(folder)
            stack.enter_context(folder_lock(folder))
        yield


@contextlib.contextmanager
def _faults(source: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(str(source), [f"the file cannot be changed: {error.strerror}"]) from error


def take_over(source: Path, servers: Sequence[ClientServer], *, command: str = "") -> None:
    """Add servers to the configuration, with the tools that their clients hide switched off.

    What one `command` took over in several times is undone together; it is empty for one time alone.

    Raises:
        ConfigError: The configuration cannot be changed; it is then as it was.
    """

    def edit(text: str) -> str:
        text = with_servers(source, text, {one.name: _entry_here(one) for one in servers})
        for one in servers:
            for name in set(one.hidden_tools) - {_ALL_TOOLS}:
                with contextlib.suppress(ConfigError):  # the configuration is in the format of a client
                    key = ToolKey(server=one.name, name=name)
                    text = with_choices(source, text, key, {"enabled": False})
        return text

    with configuration_lock(source):
        times = _read_times(source)  # if it cannot be read, nothing is taken over that could not be undone
        before, after = rewrite(source, edit, create=True)
        this_time = {
            "before": None if before is None else base64.b64encode(before).decode("ascii"),
            "after": hashlib.sha256(after).hexdigest(),
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
    with configuration_lock(source):
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
    with configuration_lock(source):
        times = _read_times(source)
        if not times:
            raise ConfigError("import --undo", [f"there is no import to undo in {source}"])
        with _faults(source):
            gone = _undo(source, times[-1])
        _write_times(source, times[:-1])
    return gone


def _undo(source: Path, record: Mapping[str, Any]) -> Sequence[str]:
    servers: Mapping[str, str] = record["servers"]
    gone = [
        name for name, there in configured_servers(source).items() if servers.get(name) == reach_hash(there)
    ]
    content = source.read_bytes() if source.exists() else None
    if content is None or record["after"] != hashlib.sha256(content).hexdigest():
        for name in gone:
            remove_server(source, name)
    elif record["before"] is None:
        source.unlink()
    else:
        target = source.resolve()
        if not replace_content(target, content, base64.b64decode(record["before"])):
            raise ConfigError(str(source), ["another program is changing the file; try again"])
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
    rewrite(state_file(source, _SUFFIX), lambda _: json.dumps(times), create=True)
