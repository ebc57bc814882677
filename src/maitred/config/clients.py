"""Find the MCP servers that a user already has in Claude, Cursor, VS Code, Codex and other clients.

It only reads the files of the clients, and turns each server into an entry of `maitred.yaml`. A client's
variable becomes a reference of maitred; a literal dollar sign stays one. A note names everything that has no
counterpart here.
"""

import contextlib
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from maitred.config.client_files import (
    ServerGroup,
    Source,
    UnusableError,
    UserMachine,
    as_list,
    as_object,
    read_file,
    sources,
)
from maitred.config.interpolate import ReferenceTranslation, escape
from maitred.config.load import entry_faults, server_kinds
from maitred.config.settings import Http
from maitred.errors import ConfigError
from maitred.model.transports import default_kind, named_kind
from maitred.wording import did_you_mean, join_with_or, quote_input

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "codex", "gemini", "windsurf", "zed")
_HARMLESS = re.compile(  # keys about the client's window and its own permissions
    "alwaysAllow|alwaysLoad|autoApprove|default_tools_approval_mode|deferTools|description|dev|gallery|name|remote|required|settings"
    "|source|supports_parallel_tool_calls|trust|version"
)
_LIMITS: Mapping[str, Mapping[str, tuple[str, int]]] = {
    "codex": {
        "startup_timeout_sec": ("start_timeout_s", 1),
        "startup_timeout_ms": ("start_timeout_s", 1_000),
        "tool_timeout_sec": ("call_timeout_s", 1),
    },
    "claude-code": {"timeout": ("call_timeout_s", 1_000)},
    "gemini": {"timeout": ("call_timeout_s", 1_000)},
    "zed": {"timeout": ("call_timeout_s", 1)},
}
"""The time limits of clients: our setting for each, and how many of its units make a second."""
_LONGEST = 1e9
_NOT_REACH = ("enabled", "start_timeout_s", "call_timeout_s")
_LAUNCHERS = ("bash", "cmd", "env", "pipx", "poetry", "sh", "uv", "uvx", "wsl")
_UNWRITABLE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000|[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class ClientServer:
    """A server of one or several clients; `is_shared` if only files of a project name it."""

    client: str
    path: Path
    name: str
    entry: dict[str, Any]
    notes: tuple[str, ...] = ()
    is_shared: bool = False

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients one by one."""
        return tuple(self.client.split(", "))


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A file that cannot be read, or (with a `name`) a server in it that is left out, and why."""

    client: str
    path: Path
    reason: str
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class ImportedServers:
    """All servers and problems; `looked_at` names every file that may have servers, missing ones too."""

    found: tuple[ClientServer, ...]
    problems: tuple[Problem, ...]
    looked_at: tuple[Path, ...]


def discover(
    *, home: Path, cwd: Path, environ: Mapping[str, str], platform: str, clients: Collection[str] = CLIENTS
) -> ImportedServers:
    """Read the files of `clients`; the result depends only on those files and the arguments.

    Raises:
        ConfigError: One of `clients` is unknown.
    """
    for unknown_client in [client for client in clients if client not in CLIENTS]:
        hint = did_you_mean(unknown_client, CLIENTS, otherwise=f"use {join_with_or(CLIENTS)}")
        raise ConfigError("--client", [f"{quote_input(unknown_client)} is not a known client; {hint}"])
    machine = UserMachine(home, cwd, environ, platform)
    by_path: dict[Path, Source] = {}
    for source in sources(machine):
        if source.client in clients:
            by_path.setdefault(source.path, source)
    outcome = [item for source in by_path.values() for item in _servers(machine, source)]
    return ImportedServers(
        found=_fold([item for item in outcome if isinstance(item, ClientServer)]),
        problems=tuple(item for item in outcome if isinstance(item, Problem)),
        looked_at=tuple(by_path),
    )


def _servers(at: UserMachine, source: Source) -> Iterator[ClientServer | Problem]:
    try:
        groups = list(source.groups(read_file(source.path)))
    except UnusableError as error:
        yield Problem(client=source.client, path=source.path, reason=str(error))
        return
    for group in groups:
        for name, raw in group.servers.items():
            try:
                yield _Conversion(at, source, group, name, raw).convert()
            except UnusableError as error:
                yield Problem(client=source.client, path=source.path, reason=str(error), name=name)


def _fold(servers: list[ClientServer]) -> tuple[ClientServer, ...]:
    """Join equal servers, and give every server a name of its own."""
    result: dict[str, ClientServer] = {}
    names_in_use: dict[str, list[str]] = {one.name: [] for one in servers}
    for one in servers:
        names = names_in_use[one.name]
        twin = next((name for name in names if _reach(result[name]) == _reach(one)), None)
        if twin is not None:
            first = result[twin]
            result[twin] = replace(
                first,
                client=", ".join(dict.fromkeys((*first.clients, one.client))),
                entry=_merge_entries(first.entry, one.entry),
                notes=tuple(dict.fromkeys((*first.notes, *one.notes))),
                is_shared=first.is_shared and one.is_shared,
            )
            continue
        name, notes = one.name, one.notes
        if names:
            numbered_names = (f"{one.name}-{number}" for number in range(2, len(servers) + 2))
            candidates = (f"{one.name}-{one.client}", *numbered_names)
            name = next(name for name in candidates if name not in result and name not in names_in_use)
            notes = (f"renamed: {result[one.name].client} has another server {one.name!r}", *notes)
        names.append(name)
        result[name] = replace(one, name=name, notes=notes)
    return tuple(result.values())


def _reach(one: ClientServer) -> dict[str, Any]:
    return {key: value for key, value in one.entry.items() if key not in _NOT_REACH}


def _merge_entries(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two entries for the same server: disabled if both are, with the limits of either."""
    entry = {**other, **first}
    if not ("enabled" in first and "enabled" in other):
        entry.pop("enabled", None)
    return entry


class _Conversion:
    """Turns one server of a client into an entry, and notes what it cannot take over unchanged."""

    def __init__(self, at: UserMachine, source: Source, group: ServerGroup, name: str, raw: Any) -> None:
        self._at = at
        self._source = source
        self._group = group
        self._name = name
        self._raw = dict(as_object(raw, "the server"))
        self._folder = group.folder or source.folder
        project = str(self._folder or "")
        slash = "\\" if at.platform == "win32" else "/"
        places = {"userHome": str(at.home), "/": slash, "pathSeparator": slash}
        places |= dict.fromkeys(("workspaceFolder", "CLAUDE_PROJECT_DIR"), project)
        places["workspaceFolderBasename"] = Path(project).name
        self._translate = ReferenceTranslation(
            syntax=source.syntax,
            environ=at.environ,
            places=places,
            on_input=self._input,
            on_unknown=lambda text: self._note(f"{text} means nothing to maitred; write its value instead"),
            on_unset=self._unset,
        )
        self._own_variables: frozenset[str] = frozenset()
        self._notes: dict[str, None] = {}

    def convert(self) -> ClientServer:
        raw = self._raw
        if isinstance(raw.get("command"), dict):  # Zed before 2025-09
            command = raw.pop("command")
            raw.update(command=command.get("path"), args=command.get("args"), env=command.get("env"))
        kind = str(raw.pop("type", None) or raw.pop("transport", None) or "")
        by_url = (meant := named_kind(server_kinds(), kind)) is not None and meant.key == "url"
        entry = self._local() if raw.get("command") and not by_url else self._remote(kind)
        entry |= self._limits()
        switches = raw.pop("enabled", True) is False, raw.pop("disabled", False) is True
        if any(switches) or self._name in as_list(self._group.disabled):
            entry["enabled"] = False
            self._note(f"switched off in {self._source.client}, and so here")
        unused = [f"`{key}`" for key in raw if _says_something(raw[key]) and not _HARMLESS.fullmatch(key)]
        if unused:
            self._note(f"not taken over: {', '.join(unused)}")
        text = json.dumps([self._name, entry], ensure_ascii=False)
        faults = [fault.removeprefix(f"servers.{self._name}") for fault in entry_faults(self._name, entry)]
        if _is_maitred(entry):
            faults = ["this is maitred itself"]
        elif _UNWRITABLE.search(text):
            faults = ["holds NUL or half of a surrogate pair, which cannot be passed on"]
        if faults:
            raise UnusableError("; ".join(fault.strip(":. ") for fault in faults))
        is_shared = self._source.folder is not None
        if is_shared:
            self._note(
                "is defined in a file of this project, which others may have written; check what it starts"
            )
        notes = tuple(self._notes)
        client, path = self._source.client, self._source.path
        return ClientServer(
            client=client, path=path, name=self._name, entry=entry, notes=notes, is_shared=is_shared
        )

    def _local(self) -> dict[str, Any]:
        raw = self._raw
        command, args, folder = raw.pop("command"), raw.pop("args", None) or [], self._folder
        if not isinstance(args, list):
            raise UnusableError("`args` must be a list")
        variables = as_object(raw.pop("env", None), "`env`")
        self._own_variables = frozenset(variables)
        env = {key: self._text(value, key) for key, value in variables.items() if value is not None}
        for item in as_list(raw.pop("env_vars", None)):
            name = item.get("name") if isinstance(item, dict) else item
            env.setdefault(str(name), f"${{{name}:-}}")
            self._note(f"is given {name} from the environment of maitred")
        cwd = self._text(raw.pop("cwd", None) or "")
        if folder and (cwd or any(_is_relative(str(item), folder) for item in (command, *args))):
            cwd = cwd if cwd.startswith(("$", "~")) else escape(str(folder / cwd))
        arguments = [self._text(item) for item in args]
        entry = {"command": self._text(command), "args": arguments, "env": env, "cwd": cwd}
        return {key: value for key, value in entry.items() if value}

    def _remote(self, kind: str) -> dict[str, Any]:
        raw = self._raw
        http, url = raw.pop("httpUrl", None) or raw.pop("serverUrl", None), raw.pop("url", None)
        if not http and not url:
            raise UnusableError("has neither a command nor a URL; it may come from an extension")
        entry: dict[str, Any] = {"url": self._text(http or url)}
        is_sse = not http and not kind and self._source.client == "gemini"
        meant = named_kind(server_kinds(), kind)
        if is_sse or re.search(r"/sse/?(\?|$)", entry["url"]):
            entry["transport"] = "sse"
        elif kind and (meant is None or meant != default_kind(server_kinds(), "url", entry["url"])):
            entry["transport"] = meant.name if meant else kind
        headers: dict[str, str] = {}
        for key in ("headers", "http_headers"):
            values = as_object(raw.pop(key, None), f"`{key}`")
            headers |= {name: self._text(value) for name, value in values.items() if value is not None}
        for name, variable in as_object(raw.pop("env_http_headers", None), "`env_http_headers`").items():
            headers[name] = f"${{{variable}}}"
        if variable := raw.pop("bearer_token_env_var", None):
            headers.setdefault("Authorization", f"Bearer ${{{variable}}}")
        return {**entry, "headers": headers} if headers else entry

    def _text(self, value: Any, key: str = "") -> str:
        """Translate the client's references in a value into ours; `key` is the variable for the value."""
        if not isinstance(value, str | int | float):
            raise UnusableError("a value that must be text is not text")
        value = str(value).lower() if isinstance(value, bool) else value
        return self._translate(str(value), self._own_variables - {key})

    def _input(self, name: str) -> str:
        variable = re.sub(r"[^A-Z0-9_]|^(?=[0-9])", "_", name.upper())
        self._note(f"asks for {name!r} in {self._source.client}; set the variable {variable} instead")
        inputs = [item for item in as_list(self._group.inputs) if isinstance(item, dict)]
        default = next((item.get("default") for item in inputs if item.get("id") == name), None)
        if isinstance(default, str) and default and not re.search(r"[${}]", default):
            return f"${{{variable}:-{default}}}"
        return f"${{{variable}}}"

    def _unset(self, variable: str, instead: str) -> None:
        what = f"passes on {instead} unchanged" if instead else "puts nothing in its place"
        self._note(f"{variable} is not set now; {self._source.client} {what}, and so does maitred")

    def _limits(self) -> dict[str, float]:
        """Return the time limits, in seconds; a limit that the client would not accept stays in place."""
        client, limits = self._source.client, dict[str, float]()
        least = 1_000 if client == "claude-code" else 0
        for key, (setting, in_second) in _LIMITS.get(client, {}).items():
            value = self._raw.get(key)
            if not isinstance(value, int | float) or isinstance(value, bool):
                continue
            if max(least, 0.001) <= value <= _LONGEST and setting not in limits:
                seconds = self._raw.pop(key) / in_second
                limits[setting] = int(seconds) if seconds.is_integer() else seconds
        return limits

    def _note(self, text: str) -> None:
        self._notes[text] = None


def _says_something(value: Any) -> bool:
    return value is not None and value is not False and value not in ({}, [], "")


def _is_relative(text: str, folder: Path) -> bool:
    """Return whether a command or an argument means a file of the project."""
    if text in (".", "..") or text.startswith(("./", "../", ".\\", "..\\")):
        return True
    with contextlib.suppress(OSError, ValueError):
        return "/" in text and not text.startswith(("/", "-", "~", "$")) and (folder / text).exists()
    return False


def _is_maitred(entry: Mapping[str, Any]) -> bool:
    if url := entry.get("url"):
        try:
            address = urlsplit(url)
            return address.hostname in ("127.0.0.1", "::1", "localhost") and address.port == Http().port
        except ValueError:
            return False
    command = re.split(r"[/\\\\]", entry["command"])[-1].removesuffix(".exe").removesuffix(".cmd")
    args = entry.get("args", [])
    if command in _LAUNCHERS:
        return any(re.split(r"[=@\[<>~! ]", argument)[0] == "maitred" for argument in args)
    return command == "maitred" or ("-m", "maitred") in itertools.pairwise(args)
