"""The MCP clients that maitred knows: each entry of `clients.yaml` is one client.

An entry says where the client keeps its servers on each platform, how it writes a server, what a person does
after a change, and what the client does with what a server sends. Each entry is parsed alone, when it is
needed: parsing all of them takes longer than a client waits for its first list.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from ruamel.yaml import YAML

from maitred.config.clients.entries import NAME, HttpEntry, Json, StdioEntry, as_toml_table, fill_in
from maitred.config.clients.files import FINDERS, Form, Groups, UserMachine, named_items, under
from maitred.config.clients.traits import UNKNOWN, ClientTraits, read_traits
from maitred.config.edit import as_yaml
from maitred.config.interpolate import Syntax
from maitred.errors import ConfigError
from maitred.model.access import Viewer
from maitred.wording import did_you_mean, join_with_or, quote_input

Platform = Literal["linux", "darwin", "win32"]
PLATFORMS: Final[Mapping[Platform, str]] = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_SEPARATORS: Final = re.compile(r"[ _-]+")
_ROOT: Final = re.compile(r"\{(\w+):(.*?)\}")
_FOLDERS: Final[Mapping[str, Mapping[Platform, str]]] = {
    "<config>": {
        "linux": "{XDG_CONFIG_HOME:~/.config}",
        "darwin": "~/Library/Application Support",
        "win32": "{APPDATA:~/AppData/Roaming}",
    },
    "<dotted>": {
        "linux": "{XDG_CONFIG_HOME:~/.config}",
        "darwin": "~/.config",
        "win32": "{APPDATA:~/AppData/Roaming}",
    },
}
"""The folders of applications for their settings, as paths of `clients.yaml` begin."""
CLIENTS_FILE: Final = Path(__file__).with_name("clients.yaml")
_ENTRY: Final = re.compile(r"^([a-z][a-z0-9-]*):\n", re.MULTILINE)
_MOST_NAMES: Final = 500


@dataclass(frozen=True, kw_only=True)
class ClientFile:
    """A file in which a client may keep servers.

    `path` begins with `~` (the home), `.` (the project), or `{VARIABLE:default}`; `*` is any name. `groups`
    finds the servers if they are not where those of the client usually are; no entry is written there.
    """

    path: str
    platforms: Sequence[Platform] = tuple(PLATFORMS)
    groups: Groups | None = None
    is_written: bool = True
    note: str = ""

    @property
    def is_project(self) -> bool:
        """Whether it is in the folder of a project, where others may have written it."""
        return self.path.startswith("./")

    def project_of(self, path: Path) -> Path | None:
        """The folder of the project in which a file of this kind is; `None` if it is no such file."""
        wanted = Path(self.path).parts
        found = path.absolute().parts[-len(wanted) :]
        if not self.is_project or not all(map(fnmatchcase, found, wanted)):
            return None
        return path.absolute().parents[len(wanted) - 1]

    def paths(self, at: UserMachine) -> Iterator[Path]:
        """The files on a machine; none if the client has no such file on its platform."""
        platform = at.platform if at.platform in PLATFORMS else "linux"
        if platform not in self.platforms:
            return
        path = _absolute(self.path, at)
        if "*" not in self.path:
            yield path
            return
        parts = path.parts
        first = next(number for number, part in enumerate(parts) if "*" in part)
        yield from sorted(Path(*parts[:first]).glob("/".join(parts[first:])))

    @property
    def path_text(self) -> str:
        """The path as a person reads it."""
        variable = _ROOT.match(self.path)
        if self.platforms == ("win32",):
            by_name = variable[1] if variable else ""
            text = f"%{by_name}%{self.path[variable.end() :]}" if variable else self.path
            return text.replace("/", "\\")
        return _ROOT.sub(r"\2", self.path).removeprefix("./")

    @property
    def place(self) -> str:
        """For whom and where the file is."""
        whom = "for one project" if self.is_project else "for you"
        where = (
            ", ".join(PLATFORMS[one] for one in self.platforms)
            if len(self.platforms) < len(PLATFORMS)
            else ""
        )
        return ", ".join(part for part in (whom, where, self.note) if part)


def _absolute(path: str, at: UserMachine) -> Path:
    if match := _ROOT.match(path):
        chosen = at.environ.get(match[1])
        root = Path(chosen) if chosen else _absolute(match[2], at)
        return root / path[match.end() :].lstrip("/")
    first, _, rest = path.partition("/")
    return {"~": at.home, ".": at.cwd}[first] / rest


@dataclass(frozen=True, kw_only=True)
class KnownClient:
    """One client.

    `id` is what a person types. `names` are those by which it introduces itself, folded. `stdio` makes an
    entry of a command, `http` one of an address; without it, `why_no_http` says why. `key` leads to the
    servers, and `is_list` if they are a list with names. `first` and `then` are what to do before and
    after a change, `by_hand` is for a person who edits the file.

    For an import: `syntax` is how it writes variables, `limits` names our setting for each of its time limits
    and how many of its units make a second, `renames` our key for each of its own. `traits` are what it does
    with a server.
    """

    id: str
    title: str
    names: frozenset[str] = frozenset()
    files: Sequence[ClientFile]
    stdio: StdioEntry
    http: HttpEntry | None = None
    why_no_http: str = ""
    key: str = "mcpServers"
    is_list: bool = False
    groups: Groups | None = None
    form: Form = "JSON"
    head: Json = field(default_factory=dict)
    then: str
    first: str = ""
    by_hand: str = ""
    command: Callable[[Json], str] | None = None
    syntax: Syntax = "none"
    limits: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    least_limit: float = 0.001
    renames: Mapping[str, str] = field(default_factory=dict)
    untyped_url: str = ""
    traits: ClientTraits = UNKNOWN

    def file_at(self, at: UserMachine, path: Path) -> ClientFile:
        """Which of its files to which an entry is written a path is: one of the user, or of some project."""
        written = [one for one in self.files if one.is_written]
        here = [one for one in written if path.absolute() in one.paths(at)]
        return next(iter([*here, *(one for one in written if one.project_of(path)), *written]))

    def groups_of(self, file: ClientFile) -> Groups:
        """What finds the servers in one of its files."""
        usual = self.groups or (named_items(self.key) if self.is_list else under(self.key))
        return file.groups or usual

    def text(self, entry: Json) -> str:
        """The text for the file."""
        if self.form == "TOML":
            return "\n".join(as_toml_table([self.key, NAME], entry))
        if self.is_list:
            lines = as_yaml({"name": NAME, **entry})
            return "\n".join([f"{self.key}:", f"  - {lines[0]}", *(f"    {line}" for line in lines[1:])])
        if self.form == "YAML":
            return "\n".join(as_yaml({self.key: {NAME: entry}}))
        return json.dumps({self.key: {NAME: entry}}, ensure_ascii=False, indent=2)


def fold_name(name: str) -> str:
    """The name of a client as `KnownClient.names` has it: without case, separators folded."""
    return _SEPARATORS.sub("-", name.casefold())


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """A file in `clients.yaml`; `windows` is its path there, if it differs by more than the folder."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}
    path: str
    windows: str = ""
    platforms: Sequence[Platform] = tuple(PLATFORMS)
    finds: str = ""
    is_written: bool = True
    note: str = ""

    def files(self) -> Iterator[ClientFile]:
        """One file for each path; a path that several platforms have is one."""
        found: dict[str, list[Platform]] = {}
        for platform in self.platforms:
            path = self.windows if self.windows and platform == "win32" else self.path
            for folder, roots in _FOLDERS.items():
                path = path.replace(folder, roots[platform])
            found.setdefault(path, []).append(platform)
        for path, where in found.items():
            yield ClientFile(
                path=path, platforms=tuple(where), groups=FINDERS[self.finds] if self.finds else None,
                is_written=self.is_written, note=self.note,
            )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HttpTemplate:
    """Our entry with an address; `token` is merged into it where a token is needed."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}
    entry: Json
    token: Json


@dataclass(frozen=True, kw_only=True)
class ClientEntry:
    """An entry of `clients.yaml`, which says what each key means."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}
    title: str
    names: Sequence[str] = ()
    files: Sequence[str | FileEntry]
    stdio: Json
    http: HttpTemplate | None = None
    why_no_http: str = ""
    key: str = "mcpServers"
    is_list: bool = False
    finds: str = ""
    form: Form = "JSON"
    head: Json = field(default_factory=dict)
    command: Sequence[str] = ()
    then: str
    first: str = ""
    by_hand: str = ""
    syntax: Syntax = "none"
    limits: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    least_limit: float = 0.001
    renames: Mapping[str, str] = field(default_factory=dict)
    untyped_url: str = ""
    traits: ClientTraits = UNKNOWN

    def client(self, client_id: str) -> KnownClient:
        """The client that the entry describes."""
        files = [FileEntry(path=one) if isinstance(one, str) else one for one in self.files]
        own = self.traits.deferral.entry
        return KnownClient(
            id=client_id,
            title=self.title,
            names=frozenset(map(fold_name, self.names)),
            files=[file for one in files for file in one.files()],
            stdio=lambda words: {**fill_in(self.stdio, words=words), **own},
            http=_http_entry(self.http, own) if self.http else None,
            why_no_http=self.why_no_http,
            key=self.key,
            is_list=self.is_list,
            groups=FINDERS[self.finds] if self.finds else None,
            form=self.form,
            head=self.head,
            then=self.then,
            first=self.first,
            by_hand=self.by_hand,
            command=_command(self.command) if self.command else None,
            syntax=self.syntax,
            limits={key: (name, units) for key, (name, units) in self.limits.items()},
            least_limit=self.least_limit,
            renames=self.renames,
            untyped_url=self.untyped_url,
            traits=self.traits,
        )


def _http_entry(http: HttpTemplate, own: Mapping[str, Any]) -> HttpEntry:
    def entry(address: str, needs_token: bool) -> Json:  # noqa: FBT001  # a value of the caller's
        return {**fill_in(http.entry, address=address), **(http.token if needs_token else {}), **own}

    return entry


def _command(words: Sequence[str]) -> Callable[[Json], str]:
    return lambda entry: shlex.join(
        json.dumps(entry, ensure_ascii=False) if word == "{entry}" else word for word in words
    )


@cache
def _texts() -> Mapping[str, str]:
    """The text of each entry in the file, by the id of its client."""
    text = CLIENTS_FILE.read_text(encoding="utf-8")
    starts = [*_ENTRY.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return {match[1]: text[match.start() : end] for match, end in zip(starts, ends, strict=True)}


def read_entry(entry: Mapping[str, Any]) -> ClientEntry:
    """An entry of `clients.yaml`. The file is part of the package, so tests check its types, and not this."""
    files = [one if isinstance(one, str) else FileEntry(**one) for one in entry["files"]]
    http = HttpTemplate(**entry["http"]) if "http" in entry else None
    traits = read_traits(entry.get("traits", {}))
    return ClientEntry(**{**entry, "files": files, "http": http, "traits": traits})


@cache
def _client(client_id: str) -> KnownClient:
    ((_, entry),) = YAML(typ="safe", pure=True).load(_texts()[client_id]).items()
    return read_entry(entry).client(client_id)


CLIENT_IDS: Final[Sequence[str]] = tuple(_texts())


def known_clients() -> Sequence[KnownClient]:
    """All clients. Of two servers with one name, the client that is first keeps it in an import."""
    return [_client(client_id) for client_id in CLIENT_IDS]


@lru_cache(maxsize=_MOST_NAMES)
def client_named(name: str) -> KnownClient | None:
    """The client that introduces itself by a name; `None` if none is known."""
    folded = fold_name(name)
    if not folded:
        return None
    near = (client_id for client_id, text in _folded_texts().items() if folded in text)
    return next((one for one in map(_client, near) if folded in one.names), None)


@cache
def _folded_texts() -> Mapping[str, str]:
    return {client_id: fold_name(text) for client_id, text in _texts().items()}


def traits_of(viewer: Viewer) -> ClientTraits:
    """The traits of the client of a viewer, by the name that it gives itself over MCP."""
    client = client_named(viewer.client) if viewer.surface == "mcp" else None
    return client.traits if client else UNKNOWN


def find_client(name: str, option: str = "CLIENT") -> KnownClient:
    """The client that a person means by its id.

    Raises:
        ConfigError: There is none; `option` says where the name came from.
    """
    if name in CLIENT_IDS:
        return _client(name)
    hint = did_you_mean(name, CLIENT_IDS, otherwise=f"use {join_with_or(CLIENT_IDS)}")
    raise ConfigError(option, [f"{quote_input(name)} is not a known client; {hint}"])
