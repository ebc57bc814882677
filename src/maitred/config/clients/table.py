"""The MCP clients that maitred knows: one entry of `CLIENTS` is one client.

An entry says where the client keeps its servers on each platform, how it writes a server, and what a person
does after a change. `maitred import`, `connect`, `disconnect` and the page *Clients* read this table alone.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from maitred.config.clients.entries import (
    BRACES,
    ENV,
    NAME,
    PLACEHOLDER,
    TOKEN_VARIABLE,
    HttpEntry,
    Json,
    StdioEntry,
    as_toml_table,
    http_entry,
    stdio_entry,
)
from maitred.config.clients.files import (
    Form,
    Groups,
    UserMachine,
    claude_code,
    gemini,
    named_items,
    under,
    vscode,
    vscode_settings,
)
from maitred.config.edit import as_yaml
from maitred.config.interpolate import Syntax
from maitred.errors import ConfigError
from maitred.wording import did_you_mean, join_with_or, quote_input

Platform = Literal["linux", "darwin", "win32"]
PLATFORMS: Final[Mapping[Platform, str]] = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_SEPARATORS: Final = re.compile(r"[ _-]+")
_ROOT: Final = re.compile(r"\{(\w+):(.*?)\}")
_CONFIG: Final[Mapping[Platform, str]] = {
    "linux": "{XDG_CONFIG_HOME:~/.config}",
    "darwin": "~/Library/Application Support",
    "win32": "{APPDATA:~/AppData/Roaming}",
}
"""The folder of applications for their settings."""
_DOTTED: Final = {**_CONFIG, "darwin": "~/.config"}


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


def _everywhere(*paths: str, **options: Any) -> Sequence[ClientFile]:
    return [ClientFile(path=path, **options) for path in paths]


def _by_platform(
    roots: Mapping[Platform, str], path: str, windows: str = "", **options: Any
) -> Sequence[ClientFile]:
    """A file below a folder that each platform has elsewhere; equal paths are one entry."""
    found: dict[str, list[Platform]] = {}
    for platform, root in roots.items():
        found.setdefault(f"{root}/{windows if windows and platform == 'win32' else path}", []).append(
            platform
        )
    return [ClientFile(path=path, platforms=tuple(where), **options) for path, where in found.items()]


@dataclass(frozen=True, kw_only=True)
class KnownClient:
    """One client.

    `id` is what a person types. `names` are those by which it introduces itself, folded. `stdio` makes an
    entry of a command, `http` one of an address; without it, `why_no_http` says why. `key` leads to the
    servers, and `is_list` if they are a list with names. `then` is what to do after a change.

    For an import: `syntax` is how it writes variables, `limits` names our setting for each of its time limits
    and how many of its units make a second, `renames` our key for each of its own.
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
    command: Callable[[Json], str] | None = None
    syntax: Syntax = "none"
    limits: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    least_limit: float = 0.001
    renames: Mapping[str, str] = field(default_factory=dict)
    untyped_url: str = ""

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


def _names(*names: str) -> frozenset[str]:
    return frozenset(fold_name(name) for name in names)


def _codex_address(address: str, needs_token: bool) -> Json:  # noqa: FBT001  # a value of the caller's
    return {"url": address, **({"bearer_token_env_var": TOKEN_VARIABLE} if needs_token else {})}


def _continue_address(address: str, needs_token: bool) -> Json:  # noqa: FBT001  # as above
    bearer = {"Authorization": f"Bearer ${{{{ secrets.{TOKEN_VARIABLE} }}}}"}
    return {"type": "streamable-http", "url": address} | (
        {"requestOptions": {"headers": bearer}} if needs_token else {}
    )


_GOOSE: Final[Json] = {
    "enabled": True,
    "name": NAME,
    "description": "The servers behind maitred",
    "timeout": 300,
}
_CALL_MS: Final = {"timeout": ("call_timeout_s", 1_000)}
_CALL_S: Final = {"timeout": ("call_timeout_s", 1)}
_EXTENSIONS: Final = "globalStorage/{}/settings/{}"

CLIENTS: Final[Sequence[KnownClient]] = (
    KnownClient(
        id="claude-desktop",
        title="Claude Desktop",
        names=_names("claude-ai"),
        files=[
            ClientFile(
                path="{LOCALAPPDATA:~/AppData/Local}/Packages/Claude_*/LocalCache/Roaming/Claude"
                "/claude_desktop_config.json",
                platforms=("win32",),
                note="from the Store",
            ),
            *_by_platform(_CONFIG, "Claude/claude_desktop_config.json"),
        ],
        stdio=stdio_entry(),
        why_no_http="Its file takes programs only: an entry with an address makes it drop all its servers.",
        then="Quit it first, with its symbol in the tray; it writes its file from memory. Then edit, and "
        "start it. Look afterwards whether the entry is still there.",
    ),
    KnownClient(
        id="claude-code",
        title="Claude Code",
        names=_names("claude-code"),
        files=_everywhere("{CLAUDE_CONFIG_DIR:~}/.claude.json", "./.mcp.json"),
        groups=claude_code,
        stdio=stdio_entry(alwaysLoad=True),
        http=http_entry(BRACES, before={"type": "http"}, alwaysLoad=True),
        then="Begin a new session. Claude Code asks you to approve what is in `.mcp.json`. Its own command "
        "is safer than an edit of `~/.claude.json`, which every running session writes.",
        command=lambda entry: shlex.join(
            ["claude", "mcp", "add-json", NAME, json.dumps(entry, ensure_ascii=False), "--scope", "user"]
        ),
        syntax="braces",
        limits=_CALL_MS,
        least_limit=1_000,
    ),
    KnownClient(
        id="cursor",
        title="Cursor",
        names=_names("cursor-vscode", "cursor"),
        files=_everywhere("~/.cursor/mcp.json", "./.cursor/mcp.json"),
        stdio=stdio_entry(),
        http=http_entry(ENV),
        then="Start Cursor again.",
        syntax="editor",
    ),
    KnownClient(
        id="vscode",
        title="VS Code",
        names=_names("Visual Studio Code", "Visual-Studio-Code"),
        files=[
            *(
                file
                for user in ("Code/User", "Code - Insiders/User")
                for file in (
                    *_by_platform(_CONFIG, f"{user}/mcp.json"),
                    *_by_platform(_CONFIG, f"{user}/profiles/*/mcp.json", is_written=False),
                    *_by_platform(_CONFIG, f"{user}/settings.json", groups=vscode_settings, is_written=False),
                )
            ),
            *_everywhere("./.vscode/mcp.json"),
            *_everywhere("./.vscode/settings.json", groups=vscode_settings, is_written=False),
        ],
        key="servers",
        groups=vscode,
        stdio=stdio_entry(before={"type": "stdio"}),
        http=http_entry(ENV, before={"type": "http"}),
        then="VS Code asks whether you trust the server when it starts. The key is `servers`: it ignores "
        "`mcpServers` there without a word.",
        syntax="editor",
    ),
    KnownClient(
        id="codex",
        title="Codex",
        names=_names("codex-mcp-client", "codex"),
        files=_everywhere("{CODEX_HOME:~/.codex}/config.toml", "./.codex/config.toml"),
        key="mcp_servers",
        form="TOML",
        stdio=stdio_entry(),
        http=_codex_address,
        then="Begin a new session. Codex reads the file of a project only if you trust the project, and "
        "passes few variables of your shell on to the program.",
        limits={
            "startup_timeout_sec": ("start_timeout_s", 1),
            "startup_timeout_ms": ("start_timeout_s", 1_000),
            "tool_timeout_sec": ("call_timeout_s", 1),
        },
    ),
    KnownClient(
        id="gemini",
        title="Gemini CLI",
        names=_names("gemini-cli-mcp-client"),
        files=_everywhere("{GEMINI_CLI_HOME:~}/.gemini/settings.json", "./.gemini/settings.json"),
        groups=gemini,
        stdio=stdio_entry(),
        http=http_entry(BRACES, before={"type": "http"}),
        then="Start it again. It starts programs only in a folder that you trust, and without variables "
        "whose names have KEY, TOKEN, SECRET, AUTH or PASSWORD in them.",
        syntax="shell",
        limits=_CALL_MS,
    ),
    KnownClient(
        id="windsurf",
        title="Windsurf (Cascade)",
        names=_names("windsurf-client", "windsurf"),
        files=_everywhere("~/.codeium/windsurf/mcp_config.json", "~/.codeium/mcp_config.json"),
        stdio=stdio_entry(),
        http=http_entry(ENV, url="serverUrl"),
        then="Use the refresh button of its list of servers.",
        syntax="editor",
    ),
    KnownClient(
        id="zed",
        title="Zed",
        names=_names("zed"),
        files=[
            *_by_platform(_DOTTED, "zed/settings.json", "Zed/settings.json"),
            *_everywhere("./.zed/settings.json"),
        ],
        key="context_servers",
        stdio=stdio_entry(),
        http=http_entry(PLACEHOLDER),
        then="Zed asks before each tool, unless its settings say otherwise.",
        limits=_CALL_S,
    ),
    KnownClient(
        id="cline",
        title="Cline",
        names=_names("Cline", "@cline/core"),
        files=[
            *_everywhere("{CLINE_DATA_DIR:~/.cline/data}/settings/cline_mcp_settings.json"),
            *_by_platform(
                _CONFIG,
                f"Code/User/{_EXTENSIONS.format('saoudrizwan.claude-dev', 'cline_mcp_settings.json')}",
                note="older",
            ),
        ],
        stdio=stdio_entry(),
        http=http_entry(ENV, before={"type": "streamableHttp"}),
        then="Cline sees the change by itself. Without `type`, it takes an address for the older SSE.",
        syntax="editor",
        limits=_CALL_S,
        untyped_url="sse",
    ),
    KnownClient(
        id="roo",
        title="Roo Code",
        names=_names("Roo Code", "Roo-Code"),
        files=[
            *_by_platform(
                _CONFIG, f"Code/User/{_EXTENSIONS.format('rooveterinaryinc.roo-cline', 'mcp_settings.json')}"
            ),
            *_everywhere("./.roo/mcp.json"),
        ],
        stdio=stdio_entry(),
        http=http_entry(ENV, before={"type": "streamable-http"}),
        then="Roo Code sees the change by itself. It had its last release in May 2026.",
        syntax="editor",
        limits=_CALL_S,
    ),
    KnownClient(
        id="continue",
        title="Continue",
        names=_names("continue-client", "continue-cli-client"),
        files=[
            *_everywhere("~/.continue/config.yaml"),
            *_everywhere(
                "~/.continue/mcpServers/*.yaml",
                "~/.continue/mcpServers/*.json",
                "./.continue/mcpServers/*.yaml",
                "./.continue/mcpServers/*.json",
                is_written=False,
            ),
        ],
        is_list=True,
        form="YAML",
        head={"name": "Local", "version": "1.0.0", "schema": "v1"},
        stdio=stdio_entry(),
        http=_continue_address,
        then="Load its configuration again. Its tools are there in agent mode only.",
        syntax="secrets",
        limits={"connectionTimeout": ("start_timeout_s", 1_000)},
    ),
    KnownClient(
        id="opencode",
        title="OpenCode",
        names=_names("opencode"),
        files=_everywhere(
            "{XDG_CONFIG_HOME:~/.config}/opencode/opencode.jsonc",
            "{XDG_CONFIG_HOME:~/.config}/opencode/opencode.json",
            "./opencode.jsonc",
            "./opencode.json",
        ),
        key="mcp",
        stdio=lambda words: {"type": "local", "command": list(words), "enabled": True},
        http=http_entry(f"{{env:{TOKEN_VARIABLE}}}", before={"type": "remote"}, enabled=True),
        then="Start it again. An `opencode.jsonc` beside an `opencode.json` goes before it.",
        syntax="single-braces",
        limits={"timeout": ("list_timeout_s", 1_000)},
        renames={"environment": "env"},
    ),
    KnownClient(
        id="goose",
        title="Goose",
        names=_names("goose"),
        files=_by_platform(
            {**_DOTTED, "win32": _CONFIG["win32"]}, "goose/config.yaml", "Block/goose/config/config.yaml"
        ),
        key="extensions",
        form="YAML",
        stdio=lambda words: {
            "type": "stdio", **_GOOSE, "cmd": words[0], "args": list(words[1:]), "envs": {}, "env_keys": [],
        },
        http=lambda address, needs_token: {
            "type": "streamable_http", **_GOOSE, "uri": address,
            **({"headers": {"Authorization": f"Bearer {PLACEHOLDER}"}} if needs_token else {}),
        },
        then="Begin a new session.",
        limits=_CALL_S,
        renames={"cmd": "command", "envs": "env", "uri": "url"},
    ),
    KnownClient(
        id="copilot",
        title="Copilot CLI",
        names=_names("github-copilot-developer"),
        files=_everywhere("{COPILOT_HOME:~/.copilot}/mcp-config.json", "./.github/mcp.json"),
        stdio=stdio_entry(before={"type": "local"}, tools=["*"], deferTools="never"),
        http=http_entry(BRACES, before={"type": "http"}, tools=["*"], deferTools="never"),
        then="Type `/mcp reload`. It passes only `PATH` on to the program, and what `env` of the entry has.",
        syntax="shell",
        limits=_CALL_MS,
    ),
    KnownClient(
        id="kiro",
        title="Kiro",
        files=_everywhere("~/.kiro/settings/mcp.json", "./.kiro/settings/mcp.json"),
        stdio=stdio_entry(),
        http=http_entry(BRACES),
        then="Kiro connects again when the file is saved. It fills in a variable only if you approved that.",
        syntax="braces",
    ),
    KnownClient(
        id="lmstudio",
        title="LM Studio",
        files=_everywhere("~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"),
        stdio=stdio_entry(),
        http=http_entry(PLACEHOLDER),
        then="Open its file in its own editor and save it, or start it again.",
        limits=_CALL_MS,
    ),
    KnownClient(
        id="amazon-q",
        title="Amazon Q CLI",
        names=_names("Q-DEV-CLI"),
        files=_everywhere("~/.aws/amazonq/mcp.json", "./.amazonq/mcp.json"),
        stdio=stdio_entry(),
        http=http_entry(PLACEHOLDER, before={"type": "http"}),
        then="Begin a new session. The file counts only for an agent with `useLegacyMcpJson: true`.",
        limits=_CALL_MS,
    ),
)  # fmt: skip
"""The clients. Of two servers with one name, the client that is first keeps it in an import."""

CLIENT_IDS: Final[Sequence[str]] = tuple(one.id for one in CLIENTS)


def find_client(name: str, option: str = "CLIENT") -> KnownClient:
    """The client that a person means by its id.

    Raises:
        ConfigError: There is none; `option` says where the name came from.
    """
    for client in CLIENTS:
        if client.id == name:
            return client
    hint = did_you_mean(name, CLIENT_IDS, otherwise=f"use {join_with_or(CLIENT_IDS)}")
    raise ConfigError(option, [f"{quote_input(name)} is not a known client; {hint}"])
