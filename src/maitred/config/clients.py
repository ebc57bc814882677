"""Find the MCP servers that a user already has in Claude, Cursor, VS Code, Codex and other clients.

It reads, and never writes, the files in which the clients keep their servers, and turns each server into an
entry of `maitred.yaml`. What a client calls a variable becomes a reference of maitred; a dollar sign that the
client would pass on stays one. What has no counterpart here is named in a note, never dropped in silence.
"""

import contextlib
import difflib
import itertools
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from maitred.config.document import strict_json
from maitred.config.interpolate import Syntax, Translation, escape
from maitred.config.load import entry_faults
from maitred.config.settings import Http
from maitred.errors import ConfigError

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "codex", "gemini", "windsurf", "zed")
_HARMLESS = re.compile(  # keys that concern the client's window and its own permissions only
    "alwaysAllow|autoApprove|default_tools_approval_mode|description|dev|gallery|name|remote|required|settings"
    "|source|supports_parallel_tool_calls|trust|version"
)
_LAUNCHERS = ("bash", "cmd", "env", "pipx", "poetry", "sh", "uv", "uvx", "wsl")
_UNWRITABLE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000|[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A server of one or several clients; `is_shared` if only a project's files, open to others, name it."""

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
class Discovery:
    """All that was found; `looked_at` names every file that might hold servers, missing ones too."""

    found: tuple[Found, ...]
    problems: tuple[Problem, ...]
    looked_at: tuple[Path, ...]


class _Machine(NamedTuple):
    home: Path
    cwd: Path
    environ: Mapping[str, str]
    platform: str

    def folder(self, variable: str, *default: str) -> Path:
        return Path(self.environ.get(variable) or self.home.joinpath(*default))


class _Group(NamedTuple):
    """The servers in one object of a file, and what the file says about them elsewhere."""

    servers: Any
    inputs: Any = None
    disabled: Any = None
    folder: Path | None = None


class _Source(NamedTuple):
    """A file in which a client may keep servers; `syntax` is how it writes variables."""

    client: str
    path: Path
    groups: Callable[[dict[str, Any]], Iterator[_Group]]
    syntax: Syntax
    folder: Path | None = None


class _UnusableError(Exception):
    """A file, or a server in it, cannot be used; the text says why."""


def discover(
    *, home: Path, cwd: Path, environ: Mapping[str, str], platform: str, clients: Collection[str] = CLIENTS
) -> Discovery:
    """Look through the files of `clients`; the result depends on those files and the arguments only.

    Raises:
        ConfigError: One of `clients` is unknown.
    """
    for unknown in [client for client in clients if client not in CLIENTS]:
        near = difflib.get_close_matches(unknown, CLIENTS, n=1, cutoff=0.4) or CLIENTS
        raise ConfigError("--client", [f"{unknown!r} is not a client that is known; use {' or '.join(near)}"])
    machine = _Machine(home, cwd, environ, platform)
    sources: dict[Path, _Source] = {}
    for source in _sources(machine):
        if source.client in clients:
            sources.setdefault(source.path, source)
    outcome = [item for source in sources.values() for item in _servers(machine, source)]
    return Discovery(
        found=_fold([item for item in outcome if isinstance(item, Found)]),
        problems=tuple(item for item in outcome if isinstance(item, Problem)),
        looked_at=tuple(sources),
    )


def _servers(at: _Machine, source: _Source) -> Iterator[Found | Problem]:
    try:
        groups = list(source.groups(_read(source.path)))
    except _UnusableError as error:
        yield Problem(client=source.client, path=source.path, reason=str(error))
        return
    for group in groups:
        for name, raw in group.servers.items():
            try:
                yield _Conversion(at, source, group, name, raw).found()
            except _UnusableError as error:
                yield Problem(client=source.client, path=source.path, reason=str(error), name=name)


def _sources(at: _Machine) -> Iterator[_Source]:
    """Every file that is looked at; of two servers with one name, the one found first keeps it."""
    home, cwd = at.home, at.cwd
    mcp_servers, codex_servers, zed_servers = map(_under, ("mcpServers", "mcp_servers", "context_servers"))
    config = zed = at.folder("XDG_CONFIG_HOME", ".config")
    if at.platform == "darwin":
        config, zed = home / "Library" / "Application Support", home / ".config"
    elif at.platform == "win32":
        config = zed = at.folder("APPDATA", "AppData", "Roaming")
        for package in sorted(at.folder("LOCALAPPDATA", "AppData", "Local").glob("Packages/Claude_*")):
            path = package / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"
            yield _Source("claude-desktop", path, mcp_servers, "none")
    yield _Source("claude-desktop", config / "Claude" / "claude_desktop_config.json", mcp_servers, "none")
    yield _Source("claude-code", at.folder("CLAUDE_CONFIG_DIR") / ".claude.json", _claude_code, "braces")
    yield _Source("claude-code", cwd / ".mcp.json", mcp_servers, "braces", cwd)
    yield _Source("cursor", home / ".cursor" / "mcp.json", mcp_servers, "braces")
    yield _Source("cursor", cwd / ".cursor" / "mcp.json", mcp_servers, "braces", cwd)
    for user in (config / "Code" / "User", config / "Code - Insiders" / "User"):
        for path in (user / "mcp.json", *sorted(user.glob("profiles/*/mcp.json"))):
            yield _Source("vscode", path, _vscode, "braces")
        yield _Source("vscode", user / "settings.json", _vscode_settings, "braces")
    yield _Source("vscode", cwd / ".vscode" / "mcp.json", _vscode, "braces", cwd)
    yield _Source("vscode", cwd / ".vscode" / "settings.json", _vscode_settings, "braces", cwd)
    yield _Source("codex", at.folder("CODEX_HOME", ".codex") / "config.toml", codex_servers, "none")
    yield _Source("codex", cwd / ".codex" / "config.toml", codex_servers, "none", cwd)
    yield _Source("gemini", at.folder("GEMINI_CLI_HOME") / ".gemini" / "settings.json", _gemini, "shell")
    yield _Source("gemini", cwd / ".gemini" / "settings.json", _gemini, "shell", cwd)
    yield _Source("windsurf", home / ".codeium" / "windsurf" / "mcp_config.json", mcp_servers, "braces")
    yield _Source("windsurf", home / ".codeium" / "mcp_config.json", mcp_servers, "braces")
    yield _Source(
        "zed", zed / ("Zed" if at.platform == "win32" else "zed") / "settings.json", zed_servers, "none"
    )
    yield _Source("zed", cwd / ".zed" / "settings.json", zed_servers, "none", cwd)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        is_toml = path.suffix == ".toml"
        data = tomllib.loads(text) if is_toml else json.loads(strict_json(text).strip() or "{}", strict=False)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        reason = (
            error.strerror if isinstance(error, OSError) else f"it is not valid {path.suffix[1:]}: {error}"
        )
        raise _UnusableError(f"cannot be read: {reason}") from error
    return _object(data, "its top level")


def _object(value: Any, what: str) -> dict[str, Any]:
    """The value if it is an object; nothing counts as an empty one."""
    if not isinstance(value, dict | None):
        raise _UnusableError(f"{what} must be an object")
    return value or {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _under(key: str) -> Callable[[dict[str, Any]], Iterator[_Group]]:
    return lambda data: iter([_Group(_object(data.get(key), f"`{key}`"))])


def _vscode(data: dict[str, Any]) -> Iterator[_Group]:
    yield _Group(_object(data.get("servers"), "`servers`"), data.get("inputs"))


def _vscode_settings(data: dict[str, Any]) -> Iterator[_Group]:
    yield from _vscode(_object(data.get("mcp"), "`mcp`"))
    yield from _vscode({"servers": data.get("mcp.servers"), "inputs": data.get("mcp.inputs")})


def _claude_code(data: dict[str, Any]) -> Iterator[_Group]:
    yield from _under("mcpServers")(data)
    for folder, project in _object(data.get("projects"), "`projects`").items():
        local = _object(project, "a project")
        servers = _object(local.get("mcpServers"), "`mcpServers` of a project")
        yield _Group(servers, disabled=local.get("disabledMcpServers"), folder=Path(folder))


def _gemini(data: dict[str, Any]) -> Iterator[_Group]:
    servers = _object(data.get("mcpServers"), "`mcpServers`")
    rules = _object(data.get("mcp"), "`mcp`")
    allowed, excluded = _list(rules.get("allowed")) or servers, _list(rules.get("excluded"))
    yield _Group(servers, disabled=[name for name in servers if name in excluded or name not in allowed])


def _fold(found: list[Found]) -> tuple[Found, ...]:
    """Join what is the same, and give every server a name of its own."""
    result: dict[str, Found] = {}
    given: dict[str, list[str]] = {one.name: [] for one in found}
    for one in found:
        names = given[one.name]
        twin = next((name for name in names if _reach(result[name]) == _reach(one)), None)
        if twin is not None:
            first = result[twin]
            result[twin] = replace(
                first,
                client=", ".join(dict.fromkeys((*first.clients, one.client))),
                entry=first.entry if "enabled" in one.entry else one.entry,
                notes=tuple(dict.fromkeys((*first.notes, *one.notes))),
                is_shared=first.is_shared and one.is_shared,
            )
            continue
        name, notes = one.name, one.notes
        if names:
            numbered = (f"{one.name}-{number}" for number in range(2, len(found) + 2))
            candidates = (f"{one.name}-{one.client}", *numbered)
            name = next(name for name in candidates if name not in result and name not in given)
            notes = (f"renamed: {result[one.name].client} has another server {one.name!r}", *notes)
        names.append(name)
        result[name] = replace(one, name=name, notes=notes)
    return tuple(result.values())


def _reach(one: Found) -> dict[str, Any]:
    return {key: value for key, value in one.entry.items() if key != "enabled"}


class _Conversion:
    """Turns one server of a client into an entry, and notes what cannot be taken over as it is."""

    def __init__(self, at: _Machine, source: _Source, group: _Group, name: str, raw: Any) -> None:
        self._at = at
        self._source = source
        self._group = group
        self._name = name
        self._raw = dict(_object(raw, "the server"))
        self._folder = group.folder or source.folder
        project = str(self._folder or "")
        slash = "\\" if at.platform == "win32" else "/"
        places = {"userHome": str(at.home), "/": slash, "pathSeparator": slash}
        places |= dict.fromkeys(("workspaceFolder", "CLAUDE_PROJECT_DIR"), project)
        places["workspaceFolderBasename"] = Path(project).name
        self._translate = Translation(
            syntax=source.syntax,
            environ=at.environ,
            places=places,
            on_input=self._input,
            on_unknown=lambda text: self._note(f"{text} means nothing to maitred; write its value instead"),
        )
        self._own: frozenset[str] = frozenset()
        self._notes: dict[str, None] = {}

    def found(self) -> Found:
        raw = self._raw
        if isinstance(raw.get("command"), dict):  # Zed before 2025-09
            command = raw.pop("command")
            raw.update(command=command.get("path"), args=command.get("args"), env=command.get("env"))
        kind = str(raw.pop("type", None) or raw.pop("transport", None) or "")
        entry = self._local() if raw.get("command") and kind not in ("http", "sse") else self._remote(kind)
        switches = raw.pop("enabled", True) is False, raw.pop("disabled", False) is True
        if any(switches) or self._name in _list(self._group.disabled):
            entry["enabled"] = False
            self._note(f"switched off in {self._source.client}, and so here")
        empty: tuple[Any, ...] = (None, False, {}, [], "")
        left = [f"`{key}`" for key in raw if raw[key] not in empty and not _HARMLESS.fullmatch(key)]
        if left:
            self._note(f"not taken over: {', '.join(left)}")
        dumped = json.dumps([self._name, entry], ensure_ascii=False)
        faults = [fault.removeprefix(f"servers.{self._name}") for fault in entry_faults(self._name, entry)]
        if _is_maitred(entry):
            faults = ["this is maitred itself"]
        elif _UNWRITABLE.search(dumped):
            faults = ["holds NUL or half of a surrogate pair, which cannot be passed on"]
        if faults:
            raise _UnusableError("; ".join(fault.strip(":. ") for fault in faults))
        is_shared = self._source.folder is not None
        if is_shared:
            self._note(
                "stands in a file of this project, which others may have written; check what it starts"
            )
        notes = tuple(self._notes)
        client, path = self._source.client, self._source.path
        return Found(client=client, path=path, name=self._name, entry=entry, notes=notes, is_shared=is_shared)

    def _local(self) -> dict[str, Any]:
        raw = self._raw
        command, args, folder = raw.pop("command"), raw.pop("args", None) or [], self._folder
        if not isinstance(args, list):
            raise _UnusableError("`args` must be a list")
        variables = _object(raw.pop("env", None), "`env`")
        self._own = frozenset(variables)
        env = {key: self._text(value, key) for key, value in variables.items() if value is not None}
        for item in _list(raw.pop("env_vars", None)):
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
            raise _UnusableError("has neither a command nor a URL; it may come from an extension")
        entry: dict[str, Any] = {"url": self._text(http or url)}
        is_sse = not http and not kind and self._source.client == "gemini"
        if is_sse or kind == "sse" or re.search(r"/sse/?(\?|$)", entry["url"]):
            entry["transport"] = "sse"
        elif not re.fullmatch("(streamable[-_]?)?http|remote|", kind, re.IGNORECASE):
            entry["transport"] = kind
        headers: dict[str, str] = {}
        for key in ("headers", "http_headers"):
            given = _object(raw.pop(key, None), f"`{key}`")
            headers |= {name: self._text(value) for name, value in given.items() if value is not None}
        for name, variable in _object(raw.pop("env_http_headers", None), "`env_http_headers`").items():
            headers[name] = f"${{{variable}}}"
        if variable := raw.pop("bearer_token_env_var", None):
            headers.setdefault("Authorization", f"Bearer ${{{variable}}}")
        return {**entry, "headers": headers} if headers else entry

    def _text(self, value: Any, key: str = "") -> str:
        """The value with the client's references turned into ours; `key` is the variable that it is for."""
        if not isinstance(value, str | int | float):
            raise _UnusableError("a value that must be text is none")
        value = str(value).lower() if isinstance(value, bool) else value
        return self._translate(str(value), self._own - {key})

    def _input(self, name: str) -> str:
        variable = re.sub(r"[^A-Z0-9_]|^(?=[0-9])", "_", name.upper())
        self._note(f"asks for {name!r} in {self._source.client}; set the variable {variable} instead")
        inputs = [item for item in _list(self._group.inputs) if isinstance(item, dict)]
        default = next((item.get("default") for item in inputs if item.get("id") == name), None)
        if isinstance(default, str) and default and not re.search(r"[${}]", default):
            return f"${{{variable}:-{default}}}"
        return f"${{{variable}}}"

    def _note(self, text: str) -> None:
        self._notes[text] = None


def _is_relative(text: str, folder: Path) -> bool:
    """Whether a command or an argument means a file of the project."""
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
