"""Put this gateway into the file of a client, and give the file back.

A change is worked out first and written later, at once, and only if the file is still the same. Before it is
written, the file is copied into the state folder. `disconnect` writes the copy back, byte for byte. If the
file has changed since, or between two connections, it only takes the entry out and puts the servers back
that were taken out.
"""

import base64
import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import structlog

from maitred.config.clients.discovery import ITSELF, ClientServer, servers_in
from maitred.config.clients.entries import NAME, profile_of_words
from maitred.config.clients.files import UnusableError, UserMachine, as_list, unknown_layout
from maitred.config.clients.table import ClientFile, KnownClient, find_client, known_clients
from maitred.config.clients.text_edit import ClientText
from maitred.config.file_rewrite import folder_lock, replace_content
from maitred.config.paths import make_folder, state_folder
from maitred.errors import ConfigError
from maitred.model.tools import content_hash

log = structlog.get_logger(__name__)

_MOST_BYTES: Final = 64_000_000
_MOST_COPIES: Final = 20
"""How many copies of the files of one client are kept."""
_MARK: Final = "\ufeff"
_URLS: Final = ("url", "uri", "serverUrl", "httpUrl")
_OF_ADDRESS: Final = (*_URLS, "type", "transport", "headers", "bearer_token_env_var", "requestOptions")
"""Keys of an entry that reaches the gateway by an address."""
_SWITCHED_OFF: Final = ("disabled", True)
STALE: Final = "has changed since you looked at it, so nothing was written; look again"


@dataclass(frozen=True, kw_only=True)
class ClientState:
    """The file of a client as it is now.

    `servers` are those that an import can take over, `problems` the names of all others with the reason.
    `own` are the names under which it has this gateway. `fault` says why the file cannot be changed.
    """

    client: KnownClient
    file: ClientFile
    path: Path
    content: bytes | None = None
    names: Sequence[str] = ()
    servers: Sequence[ClientServer] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    own: Sequence[str] = ()
    fault: str = ""
    is_installed: bool = False
    is_remembered: bool = False


@dataclass(frozen=True, kw_only=True)
class ClientChange:
    """What a change would write: `None` stands for no file. `way` says how a file is given back.

    `added` and `removed` are names of servers; `own` are those under which the file had this gateway.
    `changed` and `dropped` are keys of its entry that get a value, and that leave it. To `forget` is to
    disconnect what is gone.
    """

    client: KnownClient
    kind: Literal["connect", "disconnect", "forget"]
    path: Path
    before: bytes | None
    after: bytes | None
    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    own: Sequence[str] = ()
    changed: Sequence[str] = ()
    dropped: Sequence[str] = ()
    way: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the file stays as it is."""
        return self.before == self.after

    @property
    def is_needed(self) -> bool:
        """Whether there is something to do; a disconnection at least forgets the connection."""
        return self.kind != "connect" or not self.is_empty


def look_at(at: UserMachine, client: KnownClient, *, is_project: bool = False) -> ClientState:
    """The file of a client to which an entry is written: the first that is there, or else the first of all.

    Raises:
        ConfigError: The client has no such file.
    """
    pairs = [
        (file, path)
        for file in client.files
        if file.is_written and file.is_project == is_project
        for path in file.paths(at)
    ]
    if not pairs:
        what = "for a project" if is_project else "on this platform"
        raise ConfigError(client.id, [f"{client.title} has no file of servers {what}"])
    file, path = next((pair for pair in pairs if os.path.lexists(pair[1])), pairs[0])
    return look_at_file(at, client, file, path)


def look_at_file(at: UserMachine, client: KnownClient, file: ClientFile, path: Path) -> ClientState:
    """A file of a client, as it is."""
    has_own_folder = not file.is_project and path.parent not in (at.home, at.home / ".config")
    state = ClientState(client=client, file=file, path=path)
    try:
        content = _read(path)
        is_installed = content is not None or (has_own_folder and path.parent.is_dir())
        text = ClientText(client, path, _text_of(content))
        looked = servers_in(at, client, file, path)
    except UnusableError as error:
        return _with_fault(state, str(error))
    except Exception as error:  # one client must not keep the others away
        log.info("the file of a client could not be read", client=client.id, exc_info=True)
        return _with_fault(state, unknown_layout(error))
    direct = [one for one in looked.found if one.name in text.servers]
    return ClientState(
        client=client,
        file=file,
        path=path,
        content=content,
        names=list(text.servers),
        servers=direct,
        problems={one.name: one.reason for one in looked.problems if one.name},
        own=[one.name for one in looked.problems if one.reason == ITSELF and one.name in text.servers],
        is_installed=is_installed,
        is_remembered=_record_path(path).exists(),
    )


def connected_files(at: UserMachine) -> Sequence[ClientState]:
    """All files that have an entry of this gateway, or that `disconnect` can give back.

    These are the files of the user and of the project in the current folder, and those of other places that
    were connected by their path.
    """
    places = [
        (client, path)
        for client in known_clients()
        for file in client.files
        if file.is_written
        for path in file.paths(at)
        if os.path.lexists(path)
    ]
    places += _remembered_places()
    states = [
        look_at_file(at, client, client.file_at(at, path), path)
        for path, client in {path.absolute(): client for client, path in places}.items()
    ]
    return [state for state in states if state.own or state.is_remembered]


def _remembered_places() -> Sequence[tuple[KnownClient, Path]]:
    """The client and the file of each connection that can be given back; damaged records are left out."""
    found = []
    for record in sorted(_folder().glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, ConfigError):
            data = json.loads(record.read_text(encoding="utf-8"))
            path = Path(data["path"])
            if record == _record_path(path):
                found.append((find_client(data["client"]), path))
    return found


def owed_servers() -> Mapping[str, Sequence[str]]:
    """The servers that connected clients gave up and have no more, by the id of the client."""
    owed: dict[str, list[str]] = {}
    for client, path in _remembered_places():
        with contextlib.suppress(ConfigError, UnusableError):  # `disconnect` says what is wrong
            there = ClientText(client, path, _text_of(_read(path))).servers
            owed.setdefault(client.id, []).extend(_owed(client, path, _read_record(path) or {}, there))
    return owed


def own_entry(state: ClientState) -> Mapping[str, Any]:
    """The entry of this gateway in the file of a client; empty if there is none."""
    if state.fault or not state.own:
        return {}
    servers = ClientText(state.client, state.path, _text_of(state.content)).servers
    entry = servers.get(NAME if NAME in state.own else state.own[0])
    return entry if isinstance(entry, Mapping) else {}


def own_profile(state: ClientState) -> str:
    """The profile of tools that the entry of this gateway names; empty if it names none."""
    entry = own_entry(state)
    words = [*as_list(entry.get("command")), *as_list(entry.get("args"))]  # OpenCode has all in its command
    return profile_of_words([str(word) for word in words])


def _with_fault(state: ClientState, fault: str) -> ClientState:
    return ClientState(
        client=state.client, file=state.file, path=state.path, fault=fault, is_installed=True,
        is_remembered=_record_path(state.path).exists(),
    )  # fmt: skip


def plan_connect(state: ClientState, entry: Mapping[str, Any], take_out: Sequence[str] = ()) -> ClientChange:
    """What puts the entry into the file, and takes servers out of it.

    Keys that the person or the client put into the entry stay, but for those of the other way, by an address.
    An entry of this gateway under another name stays as it is.

    Raises:
        ConfigError: The file cannot be changed, or another server has the name of this gateway.
    """
    if state.fault:
        raise ConfigError(str(state.path), [state.fault])
    if NAME in state.names and NAME not in state.own:
        raise ConfigError(str(state.path), [f"has another server of the name `{NAME}`; rename that first"])
    with _faults(state.path):
        text = ClientText(state.client, state.path, _text_of(state.content))
        out = [one for one in take_out if one in text.servers and one != NAME]
        old = text.servers.get(NAME, {})
        put = {} if state.own and NAME not in state.own else {NAME: _with_own_keys(old, entry)}
        put = {} if put.get(NAME) == old else put
        after = _bytes_of(text.changed(put, out), state.content) if put or out else state.content
        if after != state.content:
            _check_writable(state.path)
    return ClientChange(
        client=state.client, kind="connect", path=state.path, before=state.content, after=after,
        added=list(put), removed=out, own=state.own,
        changed=[key for entry in put.values() for key in entry if old.get(key) != entry[key]],
        dropped=[key for entry in put.values() for key in old if key not in entry],
    )  # fmt: skip


def _with_own_keys(old: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Our entry, with all keys of the old one but for what an address needs, and what switches it off."""
    leaving = _OF_ADDRESS if any(key in old for key in _URLS) else ()
    kept = {key: value for key, value in old.items() if key not in leaving and (key, value) != _SWITCHED_OFF}
    return {**kept, **entry}


def plan_disconnect(state: ClientState) -> ClientChange:
    """What gives the file back.

    Raises:
        ConfigError: The file cannot be changed, or it has no entry of this gateway and none was written.
    """
    record = _read_record(state.path)
    current = _read_or_fault(state.path)
    with _faults(state.path):
        _check_writable(state.path)
    if record and record["is_whole"] and record["after"] == _digest(current):
        original = _original(record)
        added = [name for piece in record["pieces"] for name in piece["removed"]]
        return ClientChange(
            client=state.client, kind="disconnect", path=state.path, before=current, after=original,
            removed=state.own or [NAME], added=added, way="byte for byte as it was",
        )  # fmt: skip
    if state.fault:
        raise ConfigError(str(state.path), [state.fault])
    if not state.own and not record:
        raise ConfigError(str(state.path), ["has no entry of this gateway"])
    with _faults(state.path):
        text = ClientText(state.client, state.path, _text_of(current))
        back = {} if record is None else _owed(state.client, state.path, record, text.servers)
        is_gone = current is None and not state.path.parent.is_dir()
        if is_gone or (current is None and not back):
            what = "folder" if is_gone else "file"
            return ClientChange(
                client=state.client, kind="forget", path=state.path, before=None, after=None,
                way=f"its {what} is gone, so nothing is written",
            )  # fmt: skip
        is_changed = bool(back or state.own)
        after = _bytes_of(text.changed(back, state.own), current) if is_changed else current
    way = "merged: other changes were made to the file" if record else "only the entry is taken out"
    return ClientChange(
        client=state.client, kind="disconnect", path=state.path, before=current, after=after,
        removed=state.own, added=list(back), way=way,
    )  # fmt: skip


def _owed(
    client: KnownClient, path: Path, record: Mapping[str, Any], there: Mapping[str, Any]
) -> dict[str, Any]:
    """The servers that were taken out and that the file does not have: each as it was when it left last."""
    owed: dict[str, Any] = {}
    for piece in record.get("pieces", ()):
        before = ClientText(client, path, _text_of(_original(piece))).servers
        owed.update({name: before[name] for name in piece["removed"] if name in before})
    return {name: entry for name, entry in owed.items() if name not in there}


def write_connection(change: ClientChange) -> Path | None:
    """Write a change that connects; returns the copy of the file from before, if there was one.

    Raises:
        ConfigError: The file has changed, is read-only, or cannot be written. It is then as it was.
    """
    folders = _missing_folders(change.path)
    with _unchanged(change) as target:
        previous = _read_record(change.path)
        copy = _back_up(change)
        _write_record(change.path, _record_of(change, previous, folders))
        try:
            _replace(change, target)
        except (ConfigError, OSError):
            _restore_record(change.path, previous)
            raise
    return copy


def _record_of(
    change: ClientChange, previous: Mapping[str, Any] | None, folders: Sequence[str]
) -> dict[str, Any]:
    """What `disconnect` needs.

    The first record of a file is kept until the file owes nothing to it. It is whole while no other program
    changed the file between two changes of ours; only then can the file be given back byte for byte.
    """
    has_changed = previous is not None and previous["after"] != _digest(change.before)
    if previous and has_changed and not change.own and not _is_owed(change, previous):
        previous = None
    leaving = [name for name in change.removed if name not in change.own]
    pieces = list(previous["pieces"]) if previous else []
    if leaving:
        pieces.append({"original": _encoded(change.before), "removed": leaving})
    return {
        "client": change.client.id,
        "path": str(change.path),
        "original": previous["original"] if previous else _encoded(change.before),
        "after": _digest(change.after),
        "is_whole": previous["is_whole"] and not has_changed if previous else not change.own,
        "pieces": pieces,
        "folders": previous["folders"] if previous else folders,
    }


def _is_owed(change: ClientChange, record: Mapping[str, Any]) -> bool:
    there = ClientText(change.client, change.path, _text_of(change.before)).servers
    return bool(_owed(change.client, change.path, record, there))


def write_disconnection(change: ClientChange) -> Path | None:
    """Write a change that disconnects, and forget the connection; returns the copy from before.

    Raises:
        ConfigError: As for `write_connection`.
    """
    copy = None
    if change.kind == "forget":
        if _read_or_fault(change.path) is not None:
            raise ConfigError(str(change.path), [STALE])
        _record_path(change.path).unlink(missing_ok=True)
        return None
    with _unchanged(change) as target:
        record = _read_record(change.path)
        if not change.is_empty:
            copy = _back_up(change)
            _replace(change, target)
        _record_path(change.path).unlink(missing_ok=True)
    if change.after is None and record:
        for folder in reversed(record["folders"]):
            with contextlib.suppress(OSError):  # it has other files by now
                Path(folder).rmdir()
    return copy


@contextlib.contextmanager
def _unchanged(change: ClientChange) -> Iterator[Path]:
    """Keep other maitred processes out while a change is written; returns the file behind all links.

    Raises:
        ConfigError: The file is not as it was when the change was worked out, or cannot be changed.
    """
    path = change.path
    try:
        target = path.resolve()
        make_folder(target.parent)
        with folder_lock(target.parent):
            current = _read(path)
            if current != change.before:
                raise ConfigError(str(path), [STALE])
            _check_writable(target)
            yield target
    except UnusableError as error:
        raise ConfigError(str(path), [str(error)]) from error
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(str(path), [f"cannot be changed: {reason}; nothing was written"]) from error


def _check_writable(path: Path) -> None:
    """Refuse a file that its owner made read-only, or that has two names; one that is not there can be made.

    Raises:
        UnusableError: It is read-only, or a hard link.
    """
    if not path.exists():
        return
    about = path.stat()
    if not about.st_mode & stat.S_IWUSR:
        raise UnusableError("is read-only; make it writable, or leave it to its owner")
    if about.st_nlink > 1:
        raise UnusableError(
            "has another name (a hard link), which would keep the old content; make it a symbolic link,"
            " or remove the other name"
        )


def _replace(change: ClientChange, target: Path) -> None:
    if change.after is None:
        target.unlink(missing_ok=True)
    elif not replace_content(target, change.before, change.after):
        raise ConfigError(str(change.path), [STALE])


def _read(path: Path) -> bytes | None:
    """The content of a file, through symbolic links; `None` if there is none.

    Raises:
        UnusableError: It is no regular file, too long, or cannot be read.
    """
    try:
        if not path.exists():
            if path.is_symlink():
                raise UnusableError("is a symbolic link to a file that does not exist")
            return None
        if not path.is_file():
            raise UnusableError("is no regular file")
        if path.stat().st_size > _MOST_BYTES:
            raise UnusableError("is too long")
        return path.read_bytes()
    except (OSError, RuntimeError) as error:
        raise UnusableError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _read_or_fault(path: Path) -> bytes | None:
    with _faults(path):
        return _read(path)


@contextlib.contextmanager
def _faults(path: Path) -> Iterator[None]:
    try:
        yield
    except UnusableError as error:
        raise ConfigError(str(path), [str(error)]) from error


def _text_of(content: bytes | None) -> str:
    try:
        return (content or b"").decode("utf-8").removeprefix(_MARK)
    except UnicodeDecodeError as error:
        raise UnusableError("cannot be read: it is not UTF-8 text") from error


def _bytes_of(text: str, before: bytes | None) -> bytes:
    """The new content; a byte order mark stays."""
    mark = _MARK if (before or b"").startswith(_MARK.encode()) else ""
    try:
        return (mark + text).encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnusableError("the entry has half of a surrogate pair") from error


def _digest(content: bytes | None) -> str:
    return hashlib.sha256(content).hexdigest() if content is not None else ""


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode("ascii")


def _original(record: Mapping[str, Any]) -> bytes | None:
    original = record["original"]
    return None if original is None else base64.b64decode(original)


def _missing_folders(path: Path) -> Sequence[str]:
    """The folders that the write will make, from the top."""
    parents = path.resolve().parents
    return [str(folder) for folder in reversed(parents) if not folder.exists()]


def _folder() -> Path:
    return state_folder() / "clients"


def _record_path(path: Path) -> Path:
    return _folder() / f"{content_hash(os.fsencode(path.absolute()))[:16]}.json"


def _read_record(path: Path) -> dict[str, Any] | None:
    record = _record_path(path)
    try:
        found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        removed = found.pop("removed", [])  # in records of earlier versions: all left the first file
        pieces = [{"original": found["original"], "removed": removed}] if removed else []
        known = {"is_whole": True, "pieces": pieces, "folders": [], **found}
        for piece in (found, *known["pieces"]):
            _original(piece)
        return {**known, "after": str(found["after"])}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        fault = f"the memory of this connection is damaged; look at {record} and remove it"
        raise ConfigError(str(path), [fault]) from error


def _write_record(path: Path, record: Mapping[str, Any]) -> None:
    target = _record_path(path)
    try:
        make_folder(target.parent)
        before = target.read_bytes() if target.exists() else None
        if not replace_content(target, before, json.dumps(record, indent=2).encode()):
            raise ConfigError(str(path), ["another maitred is changing it; try again"])
    except OSError as error:
        fault = f"no copy can be kept in {target.parent}: {error.strerror}; nothing was written"
        raise ConfigError(str(path), [fault]) from error


def _restore_record(path: Path, previous: Mapping[str, Any] | None) -> None:
    if previous is None:
        _record_path(path).unlink(missing_ok=True)
    else:
        _write_record(path, previous)


def _back_up(change: ClientChange) -> Path | None:
    """Copy the file as it is before a change, for the owner alone; the oldest copies go."""
    if change.before is None:
        return None
    at = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    target = _folder() / f"{change.client.id}-{at}-{os.getpid()}{change.path.suffix or '.txt'}"
    try:
        make_folder(target.parent)
        replace_content(target, None, change.before)
        for old in sorted(target.parent.glob(f"{change.client.id}-2*T*"))[:-_MOST_COPIES]:
            old.unlink(missing_ok=True)
    except OSError as error:
        fault = f"no copy can be kept in {target.parent}: {error.strerror}; nothing was written"
        raise ConfigError(str(change.path), [fault]) from error
    return target
