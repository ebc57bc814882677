"""Find the MCP servers that a user already has in Claude, Cursor, VS Code, Codex and other clients.

It only reads the files of the clients, and turns each server into an entry of `maitred.yaml`. A client's
variable becomes a reference of maitred; a literal dollar sign stays one. A note names everything that has no
counterpart here.
"""

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

import structlog

from maitred.config.clients.entries import NAME
from maitred.config.clients.files import (
    ServerGroup,
    UnusableError,
    UserMachine,
    as_list,
    as_object,
    read_file,
    unknown_layout,
)
from maitred.config.clients.table import CLIENT_IDS, ClientFile, KnownClient, find_client, known_clients
from maitred.config.interpolate import ReferenceTranslation, escape
from maitred.config.load import entry_faults, server_kinds
from maitred.config.settings import Http
from maitred.errors import ConfigError
from maitred.model.transports import default_kind, named_kind

log = structlog.get_logger(__name__)

HARMLESS = re.compile(  # keys about the client's window and its own permissions
    "alwaysAllow|alwaysLoad|autoApprove|bundled|default_tools_approval_mode|disableToolCache|display_name|env_keys|deferTools|description|dev|gallery|name|remote|required|settings"
    "|source|supports_parallel_tool_calls|trust|version"
)
_HIDDEN_TOOLS = ("disabled_tools", "disabledTools", "excludeTools")
_ONLY_TOOLS = ("enabled_tools", "enabledTools", "includeTools", "available_tools", "tools")
_LONGEST = 1e9
ITSELF = "this is maitred itself"
"""Why the entry of this gateway is left out."""
_NOT_REACH = ("enabled", "start_timeout_s", "list_timeout_s", "call_timeout_s")
_LAUNCHERS = ("bash", "cmd", "env", "pipx", "poetry", "sh", "uv", "uvx", "wsl")
_MCP_PATH = "/mcp"
_ENGINES = ("docker", "nerdctl", "podman")
_UNWRITABLE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000|[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class ClientServer:
    """A server of one or several clients; `is_shared` if only files of a project name it.

    `hidden_tools` are those that the client switched off, by the names of the server.
    """

    client: str
    path: Path
    name: str
    entry: dict[str, Any]
    notes: tuple[str, ...] = ()
    is_shared: bool = False
    hidden_tools: tuple[str, ...] = ()

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


@dataclass(frozen=True, kw_only=True)
class _Source:
    """A file of a client; `folder` is that of the project in which it is."""

    client: KnownClient
    file: ClientFile
    path: Path
    folder: Path | None = None


def discover(
    *,
    home: Path,
    cwd: Path,
    environ: Mapping[str, str],
    platform: str,
    clients: Collection[str] = CLIENT_IDS,
    file: Path | None = None,
) -> ImportedServers:
    """Read the files of `clients`, or one `file` alone; nothing else affects the result but the arguments.

    Raises:
        ConfigError: One of `clients` is unknown, or `file` is missing or has no servers of any client.
    """
    chosen = [find_client(name, "--client") for name in clients]
    machine = UserMachine(home, cwd, environ, platform)
    by_path: dict[Path, _Source] = {}
    for source in [_source_of(machine, file, chosen)] if file else _sources(machine, chosen):
        by_path.setdefault(source.path, source)
    return fold_servers(
        [item for source in by_path.values() for item in _servers(machine, source)], tuple(by_path)
    )


def servers_in(at: UserMachine, client: KnownClient, file: ClientFile, path: Path) -> ImportedServers:
    """The servers under the one key of a client's file to which an entry is written."""
    folder = (file.project_of(path) or at.cwd) if file.is_project else None
    source = _Source(client=client, file=file, path=path, folder=folder)
    return fold_servers(list(_servers(at, source, is_written=True)), (path,))


def fold_servers(outcome: Sequence[ClientServer | Problem], looked_at: tuple[Path, ...]) -> ImportedServers:
    """Join equal servers, and give every server a name of its own."""
    return ImportedServers(
        found=_fold([item for item in outcome if isinstance(item, ClientServer)]),
        problems=tuple(item for item in outcome if isinstance(item, Problem)),
        looked_at=looked_at,
    )


def _sources(at: UserMachine, clients: Sequence[KnownClient]) -> Iterator[_Source]:
    """Yield every file to read; of two servers with one name, the first one keeps it."""
    for client in known_clients():
        for file in client.files if client in clients else ():
            folder = at.cwd if file.is_project else None
            for path in file.paths(at):
                yield _Source(client=client, file=file, path=path, folder=folder)


def _source_of(at: UserMachine, path: Path, clients: Sequence[KnownClient]) -> _Source:
    """Find out whose file this is: by its place, by its name and its keys, or else by its keys alone.

    A file that is where those of a project are belongs to that project, unless it is the user's own.

    Raises:
        ConfigError: It is missing or cannot be read, or has no servers of these clients.
    """
    try:
        if not path.is_file():
            raise ConfigError(str(path), ["is no file" if path.exists() else "there is no file of this name"])
        data = read_file(path)
    except UnusableError as error:
        raise ConfigError(str(path), [str(error)]) from None
    pairs = [(client, file) for client in clients for file in client.files]
    own = [pair for pair in pairs if not pair[1].is_project and path.absolute() in pair[1].paths(at)]
    shared = [pair for pair in pairs if pair[1].project_of(path)]
    named = [pair for pair in pairs if pair[1].path.endswith(f"/{path.name}")]
    by_keys = sorted(pairs, key=lambda pair: pair[0].syntax == "none")  # most clients fill in variables
    for client, file in (*own, *shared, *named, *by_keys):
        with contextlib.suppress(UnusableError):
            if any(group.servers for group in client.groups_of(file)(data)):
                return _Source(client=client, file=file, path=path, folder=file.project_of(path))
    keys = ", ".join(dict.fromkeys(f"`{client.key}`" for client in clients))
    raise ConfigError(str(path), [f"it has no servers under a key of a client: {keys}"])


def _servers(
    at: UserMachine, source: _Source, *, is_written: bool = False
) -> Iterator[ClientServer | Problem]:
    """The servers in a file; if asked only those of the group that is written, without those of projects."""
    client = source.client.id
    try:
        groups = list(source.client.groups_of(source.file)(read_file(source.path)))
    except UnusableError as error:
        yield Problem(client=client, path=source.path, reason=str(error))
        return
    except Exception as error:  # one client must not hide the others
        log.info("the file of a client could not be read", client=client, exc_info=True)
        yield Problem(client=client, path=source.path, reason=unknown_layout(error))
        return
    for group in groups:
        for name, raw in group.servers.items() if group.folder is None or not is_written else ():
            try:
                yield _Conversion(at, source, group, str(name), raw).convert()
            except UnusableError as error:
                yield Problem(client=client, path=source.path, reason=str(error), name=str(name))
            except Exception as error:  # one server must not hide the others
                log.info("a server of a client could not be read", client=client, exc_info=True)
                reason = unknown_layout(error)
                yield Problem(client=client, path=source.path, reason=reason, name=str(name))


def _fold(servers: list[ClientServer]) -> tuple[ClientServer, ...]:
    """Join equal servers, and give every server a name of its own."""
    result: dict[str, ClientServer] = {}
    members: dict[str, list[ClientServer]] = {}
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
                hidden_tools=tuple(name for name in first.hidden_tools if name in one.hidden_tools),
            )
            members[twin].append(one)
            continue
        name, notes = one.name, one.notes
        if names:
            numbered_names = (f"{one.name}-{number}" for number in range(2, len(servers) + 2))
            candidates = (f"{one.name}-{one.client}", *numbered_names)
            name = next(name for name in candidates if name not in result and name not in names_in_use)
            notes = (f"renamed: {result[one.name].client} has another server {one.name!r}", *notes)
        names.append(name)
        result[name] = replace(one, name=name, notes=notes)
        members[name] = [one]
    return tuple(
        replace(one, notes=(*one.notes, *_switched_off(members[name]))) for name, one in result.items()
    )


def _switched_off(members: Sequence[ClientServer]) -> Iterator[str]:
    """What clients have switched off of one server; it is off here if it is off in all that have it."""
    off = [one for one in members if not one.entry.get("enabled", True)]
    if off:
        here = "and so here" if len(off) == len(members) else "not in the others, and so on here"
        yield f"switched off in {_clients_of(off)}, {here}"
    hiding: dict[str, list[ClientServer]] = {}
    for one in members:
        for tool in one.hidden_tools:
            hiding.setdefault(tool, []).append(one)
    groups: dict[tuple[str, bool], list[str]] = {}
    for tool, by in hiding.items():
        groups.setdefault((_clients_of(by), len(by) == len(members)), []).append(tool)
    for (clients, is_off), tools in groups.items():
        here = "and so here" if is_off else "not in the others, and so on here"
        yield f"switched off in {clients}, {here}: {', '.join(tools)}"


def _clients_of(servers: Sequence[ClientServer]) -> str:
    return ", ".join(dict.fromkeys(one.client for one in servers))


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

    def __init__(self, at: UserMachine, source: _Source, group: ServerGroup, name: str, raw: Any) -> None:
        self._at = at
        self._source = source
        self._group = group
        self._name = name
        self._client = source.client
        renames = source.client.renames
        pairs = as_object(raw, "the server").items()  # in YAML, a key need not be text
        self._raw = {str(renames.get(key, key)): value for key, value in pairs}
        self._folder = group.folder or source.folder
        project = str(self._folder or "")
        slash = "\\" if at.platform == "win32" else "/"
        places = {"userHome": str(at.home), "/": slash, "pathSeparator": slash}
        places |= dict.fromkeys(("workspaceFolder", "CLAUDE_PROJECT_DIR"), project)
        places["workspaceFolderBasename"] = Path(project).name
        self._translate = ReferenceTranslation(
            syntax=source.client.syntax,
            environ=at.environ,
            places=places,
            on_input=self._input,
            on_unknown=lambda text: self._note(f"{text} means nothing to maitred; write its value instead"),
            on_unset=self._unset,
        )
        self._own_variables: frozenset[str] = frozenset()
        self._notes: dict[str, None] = {}

    def convert(self) -> ClientServer:
        self._unfold()
        raw = self._raw
        kind = str(raw.pop("type", None) or raw.pop("transport", None) or "")
        by_url = (meant := named_kind(server_kinds(), kind)) is not None and meant.key == "url"
        entry = self._local() if raw.get("command") and not by_url else self._remote(kind)
        entry |= self._limits()
        hidden = self._hidden_tools()
        switches = raw.pop("enabled", True) is False, raw.pop("disabled", False) is True
        if any(switches) or self._name in as_list(self._group.disabled):
            entry["enabled"] = False  # `_fold` says so, since another client may have it on
        unused = [f"`{key}`" for key in raw if _says_something(raw[key]) and not HARMLESS.fullmatch(key)]
        if unused:
            self._note(f"not taken over: {', '.join(unused)}")
        text = json.dumps([self._name, entry], ensure_ascii=False)
        faults = [fault.removeprefix(f"servers.{self._name}") for fault in entry_faults(self._name, entry)]
        if is_maitred(entry, self._name):
            faults = [ITSELF]
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
        client, path = self._client.id, self._source.path
        return ClientServer(
            client=client,
            path=path,
            name=self._name,
            entry=entry,
            notes=notes,
            is_shared=is_shared,
            hidden_tools=hidden,
        )

    def _unfold(self) -> None:
        """Give the server the keys that most clients have."""
        raw = self._raw
        if isinstance(raw.get("command"), dict):  # Zed before 2025-09
            command = raw.pop("command")
            raw.update(command=command.get("path"), args=command.get("args"), env=command.get("env"))
        if isinstance(raw.get("command"), list):  # OpenCode
            words, args = raw.pop("command"), raw.get("args") or []
            if not isinstance(args, list):
                raise UnusableError("`args` must be a list")
            raw.update(command=words[0] if words else None, args=[*words[1:], *args])
        if isinstance(raw.get("transport"), dict):  # the command line of Cline
            raw.update(raw.pop("transport"))

    def _local(self) -> dict[str, Any]:
        raw = self._raw
        command, args, folder = raw.pop("command"), raw.pop("args", None) or [], self._folder
        if not isinstance(args, list):
            raise UnusableError("`args` must be a list")
        variables = as_object(raw.pop("env", None), "`env`")
        self._own_variables = frozenset(variables)
        env = {str(key): self._text(value, key) for key, value in variables.items() if value is not None}
        for item in as_list(raw.pop("env_vars", None)):
            name = item.get("name") if isinstance(item, dict) else item
            env.setdefault(str(name), f"${{{name}:-}}")
            self._note(f"is given {name} from the environment of maitred")
        cwd = self._text(raw.pop("cwd", None) or "")
        if folder and (cwd or any(_is_relative(str(item), folder) for item in (command, *args))):
            cwd = _within(folder, cwd)
        arguments = [self._text(item) for item in args]
        entry = {"command": self._text(command), "args": arguments, "env": env, "cwd": cwd}
        return {key: value for key, value in entry.items() if value}

    def _remote(self, kind: str) -> dict[str, Any]:
        raw = self._raw
        is_streamable = bool(raw.get("httpUrl"))
        http, url = raw.pop("httpUrl", None) or raw.pop("serverUrl", None), raw.pop("url", None)
        if not http and not url:
            raise UnusableError("has neither a command nor a URL; it may come from an extension")
        entry: dict[str, Any] = {"url": self._text(http or url)}
        is_sse = not http and not kind and self._client.untyped_url == "sse"
        if not http and not kind and self._client.id == "gemini":
            self._note("gemini also tries the older SSE; if the server has only that, set `transport: sse`")
        meant = named_kind(server_kinds(), kind)
        is_open = kind.casefold() in ("", "remote") and not is_streamable
        if is_sse or (is_open and is_sse_address(entry["url"])):
            entry["transport"] = "sse"
        elif kind and (meant is None or meant != default_kind(server_kinds(), "url", entry["url"])):
            entry["transport"] = meant.name if meant else kind
        headers = self._headers()
        return {**entry, "headers": headers} if headers else entry

    def _headers(self) -> dict[str, str]:
        raw = self._raw
        headers: dict[str, str] = {}
        for key in ("headers", "http_headers"):
            values = as_object(raw.pop(key, None), f"`{key}`")
            headers |= {name: self._text(value) for name, value in values.items() if value is not None}
        for name, variable in as_object(raw.pop("env_http_headers", None), "`env_http_headers`").items():
            headers[name] = f"${{{variable}}}"
        options = as_object(raw.get("requestOptions"), "`requestOptions`")  # Continue
        if values := as_object(options.get("headers"), "`headers`"):
            headers |= {name: self._text(value) for name, value in values.items() if value is not None}
        if set(options) <= {"headers"}:
            raw.pop("requestOptions", None)
        if key := raw.pop("apiKey", None):
            headers.setdefault("Authorization", f"Bearer {self._text(key)}")
        if variable := raw.pop("bearer_token_env_var", None):
            headers.setdefault("Authorization", f"Bearer ${{{variable}}}")
        return headers

    def _text(self, value: Any, key: str = "") -> str:
        """Translate the client's references in a value into ours; `key` is the variable for the value."""
        if not isinstance(value, str | int | float):
            raise UnusableError("a value that must be text is not text")
        value = str(value).lower() if isinstance(value, bool) else value
        return self._translate(str(value), self._own_variables - {key})

    def _input(self, name: str) -> str:
        variable = variable_of_input(name)
        self._note(f"asks for {name!r} in {self._client.id}; set the variable {variable} instead")
        inputs = [item for item in as_list(self._group.inputs) if isinstance(item, dict)]
        default = next((item.get("default") for item in inputs if item.get("id") == name), None)
        if isinstance(default, str) and default and not re.search(r"[${}]", default):
            return f"${{{variable}:-{default}}}"
        return f"${{{variable}}}"

    def _unset(self, variable: str, instead: str) -> None:
        what = f"passes on {instead} unchanged" if instead else "puts nothing in its place"
        self._note(f"{variable} is not set now; {self._client.id} {what}, and so does maitred")

    def _limits(self) -> dict[str, float]:
        """Return the time limits, in seconds; a limit that the client would not accept stays in place."""
        limits = dict[str, float]()
        for key, (setting, in_second) in self._client.limits.items():
            value = self._raw.get(key)
            if not isinstance(value, int | float) or isinstance(value, bool):
                continue
            if self._client.least_limit <= value <= _LONGEST and setting not in limits:
                seconds = self._raw.pop(key) / in_second
                limits[setting] = int(seconds) if seconds.is_integer() else seconds
        return limits

    def _hidden_tools(self) -> tuple[str, ...]:
        """Return the tools that the client hides; a list of those that alone are used becomes a note."""
        hidden: list[str] = []
        for key in _HIDDEN_TOOLS:
            if texts := self._tool_names(key):
                hidden += texts
        for key in _ONLY_TOOLS:
            if (texts := self._tool_names(key)) and "*" not in texts:
                listed = ", ".join(f"{self._name}/{text}" for text in texts)
                self._note(
                    f"{self._client.id} uses only {', '.join(texts)} of its tools; here all are used; a"
                    f" profile with `tools: [{listed}]` gives a client these alone (`maitred docs profiles`)"
                )
        return tuple(dict.fromkeys(hidden))

    def _tool_names(self, key: str) -> list[str]:
        texts = self._raw.get(key)
        if not isinstance(texts, list) or not all(isinstance(one, str) and one for one in texts):
            return []
        self._raw.pop(key)
        return [re.sub(r"\(.*", "", one) for one in texts]

    def _note(self, text: str) -> None:
        self._notes[text] = None


def _within(folder: Path, path: str) -> str:
    """A path that may have references, and that is relative to a folder if it is relative."""
    if (
        path.startswith(("$", "~"))
        or PurePosixPath(path).is_absolute()
        or PureWindowsPath(path).is_absolute()
    ):
        return path
    return f"{escape(str(folder))}/{path}" if "$" in path else escape(str(folder / path))


def _says_something(value: Any) -> bool:
    return value is not None and value is not False and value not in ({}, [], "")


def _is_relative(text: str, folder: Path) -> bool:
    """Return whether a command or an argument means a file of the project."""
    if text in (".", "..") or text.startswith(("./", "../", ".\\", "..\\")):
        return True
    with contextlib.suppress(OSError, ValueError):
        return "/" in text and not text.startswith(("/", "-", "~", "$")) and (folder / text).exists()
    return False


def variable_of_input(name: str) -> str:
    """The variable in place of a value for which a client asks its user."""
    return re.sub(r"[^A-Z0-9_]|^(?=[0-9])", "_", name.upper())


def is_sse_address(url: str) -> bool:
    """Return whether an address is that of a server with the older transport, by its path."""
    return re.search(r"/sse/?(\?|$)", url) is not None


def is_maitred(entry: Mapping[str, Any], name: str = "") -> bool:
    """Return whether an entry of ours starts or reaches this gateway.

    An address of this machine is it at the usual port and path, and at any under the `name` of the gateway.
    """
    if url := entry.get("url"):
        try:
            address = urlsplit(url)
            is_usual = address.port == Http().port and address.path.rstrip("/") == _MCP_PATH
        except ValueError:
            return False
        return address.hostname in ("127.0.0.1", "::1", "localhost") and (name == NAME or is_usual)
    rests = _own_words(_program(entry["command"]), entry.get("args", []))
    return any(rest[:1] in ([], ["serve"]) for rest in rests)  # other commands are servers of their own


def _own_words(command: str, args: list[str]) -> list[list[str]]:
    """What is behind each word of a command that may name this gateway."""
    if command == NAME:
        return [args]
    if command in _ENGINES:
        images = [re.split(r"[:@]", word.rsplit("/", 1)[-1])[0] for word in args]
        return [args[at + 1 :] for at, image in enumerate(images) if image == NAME]
    if command in _LAUNCHERS:
        args = [word for argument in args for word in argument.split()]
        names = [re.split(r"[=@\[<>~!]", _program(word))[0] for word in args]
        return [args[at + 1 :] for at, name in enumerate(names) if name == NAME]
    return [args[at + 2 :] for at in range(len(args)) if args[at : at + 2] == ["-m", NAME]]


def _program(path: str) -> str:
    """The name of a program."""
    return re.split(r"[/\\]", path)[-1].removesuffix(".exe").removesuffix(".cmd")
