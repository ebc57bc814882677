"""What to paste into the files of MCP clients, so that they use this gateway.

One entry of `CLIENTS` is one client: where its file is, how it writes a server, and what to do then. No file
is written. No text has a token: a client reads it from the variable `MAITRED_TOKEN`, or a person puts it in.
"""

import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from maitred.config.paths import default_path
from maitred.errors import ConfigError

Json = dict[str, Any]
NAME: Final = "maitred"
"""The name of this gateway in the file of a client."""
TOKEN_VARIABLE: Final = "MAITRED_TOKEN"  # noqa: S105  # the name of a variable
PLACEHOLDER: Final = "YOUR_TOKEN"
"""Where a person puts a token, for a client that reads no variables."""
_SEPARATORS: Final = re.compile(r"[ _-]+")


def start_command(program: Path, config: Path) -> Sequence[str]:
    """The words of the command by which a client starts this gateway over stdio.

    `program` is the file of maitred, if it was started by one; else the interpreter starts it as a module.
    """
    is_own = program.name == NAME and program.is_file()
    started = [str(program)] if is_own else [sys.executable, "-m", "maitred"]
    return [*started, "serve", *([] if _is_default(config) else ["--config", str(config.absolute())])]


def _is_default(config: Path) -> bool:
    """Whether a client finds the file without its name, whatever its variables are."""
    try:
        return config == default_path({})
    except ConfigError:  # there is no home folder
        return False


@dataclass(frozen=True, kw_only=True)
class KnownClient:
    """One client.

    `names` are those by which it introduces itself, folded. `files` are pairs of a place and a path. `stdio`
    makes an entry of a command, `http` one of an address and whether a token is needed; without it,
    `why_no_http` says why. `keys` lead to the entry in the file. `then` is what to do after that.
    """

    title: str
    names: frozenset[str] = frozenset()
    files: Sequence[tuple[str, str]]
    stdio: Callable[[Sequence[str]], Json]
    http: Callable[[str, bool], Json] | None = None
    why_no_http: str = ""
    keys: Sequence[str] = ("mcpServers",)
    form: Literal["JSON", "TOML"] = "JSON"
    then: str
    command: Callable[[Json], str] | None = None

    def text(self, entry: Json) -> str:
        """The text for the file."""
        if self.form == "TOML":
            return _as_toml([*self.keys, NAME], entry)
        value: Json = {NAME: entry}
        for key in reversed(self.keys):
            value = {key: value}
        return json.dumps(value, ensure_ascii=False, indent=2)


def fold_name(name: str) -> str:
    """The name of a client as `KnownClient.names` has it: without case, separators folded."""
    return _SEPARATORS.sub("-", name.casefold())


def _names(*names: str) -> frozenset[str]:
    return frozenset(fold_name(name) for name in names)


def _as_toml(keys: Sequence[str], entry: Json) -> str:
    """One table of texts and lists of texts; the strings of JSON are those of TOML."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join([f"[{'.'.join(keys)}]", *lines]).replace("\x7f", "\\u007f")


def _started(**more: Any) -> Callable[[Sequence[str]], Json]:
    """An entry with `command` and `args`, as most clients have it."""
    before = {key: value for key, value in more.items() if key == "type"}
    after = {key: value for key, value in more.items() if key != "type"}
    return lambda words: {**before, "command": words[0], "args": list(words[1:]), **after}


def _addressed(
    reference: str, *, url: str = "url", before: Mapping[str, Any] | None = None, **more: Any
) -> Callable[[str, bool], Json]:
    """An entry with an address; `reference` is how the client names the variable of the token."""

    def entry(address: str, needs_token: bool) -> Json:  # noqa: FBT001  # a value of the caller's
        headers = {"headers": {"Authorization": f"Bearer {reference}"}} if needs_token else {}
        return {**(before or {}), url: address, **headers, **more}

    return entry


def _codex_address(address: str, needs_token: bool) -> Json:  # noqa: FBT001  # as above
    return {"url": address, **({"bearer_token_env_var": TOKEN_VARIABLE} if needs_token else {})}


_BRACES: Final = f"${{{TOKEN_VARIABLE}}}"
_ENV: Final = f"${{env:{TOKEN_VARIABLE}}}"

CLIENTS: Final[Sequence[KnownClient]] = (
    KnownClient(
        title="Claude Code",
        names=_names("claude-code"),
        files=[("for you", "~/.claude.json"), ("for one project", ".mcp.json in its root")],
        stdio=_started(alwaysLoad=True),
        http=_addressed(_BRACES, before={"type": "http"}, alwaysLoad=True),
        then="Begin a new session. Claude Code asks you to approve what is in `.mcp.json`. Its own command "
        "is safer than an edit of `~/.claude.json`, which every running session writes.",
        command=lambda entry: shlex.join(
            ["claude", "mcp", "add-json", NAME, json.dumps(entry, ensure_ascii=False), "--scope", "user"]
        ),
    ),
    KnownClient(
        title="Claude Desktop",
        names=_names("claude-ai"),
        files=[
            ("macOS", "~/Library/Application Support/Claude/claude_desktop_config.json"),
            ("Windows", r"%APPDATA%\Claude\claude_desktop_config.json"),
            ("Linux", "~/.config/Claude/claude_desktop_config.json"),
        ],
        stdio=_started(),
        why_no_http="Its file takes programs only: an entry with an address makes it drop all its servers.",
        then="Quit it first, with its symbol in the tray; it writes its file from memory. Then edit, and "
        "start it. Look afterwards whether the entry is still there.",
    ),
    KnownClient(
        title="Cursor",
        names=_names("cursor-vscode", "cursor"),
        files=[("for you", "~/.cursor/mcp.json"), ("for one project", ".cursor/mcp.json")],
        stdio=_started(),
        http=_addressed(_ENV),
        then="Start Cursor again.",
    ),
    KnownClient(
        title="VS Code",
        names=_names("Visual Studio Code", "Visual-Studio-Code"),
        files=[
            ("for one project", ".vscode/mcp.json"),
            ("for you, Linux", "~/.config/Code/User/mcp.json"),
            ("for you, macOS", "~/Library/Application Support/Code/User/mcp.json"),
            ("for you, Windows", r"%APPDATA%\Code\User\mcp.json"),
        ],
        stdio=_started(type="stdio"),
        http=_addressed(_ENV, before={"type": "http"}),
        keys=("servers",),
        then="VS Code asks whether you trust the server when it starts. The key is `servers`: it ignores "
        "`mcpServers` there without a word.",
    ),
    KnownClient(
        title="Codex",
        names=_names("codex-mcp-client", "codex"),
        files=[
            ("for you", "~/.codex/config.toml"),
            ("for one trusted project", ".codex/config.toml"),
        ],
        stdio=_started(),
        http=_codex_address,
        keys=("mcp_servers",),
        form="TOML",
        then="Begin a new session. Codex passes few variables of your shell on to the program.",
    ),
    KnownClient(
        title="Windsurf (Cascade)",
        names=_names("windsurf-client", "windsurf"),
        files=[("for you", "~/.codeium/windsurf/mcp_config.json")],
        stdio=_started(),
        http=_addressed(_ENV, url="serverUrl"),
        then="Use the refresh button of its list of servers.",
    ),
    KnownClient(
        title="Copilot CLI",
        names=_names("github-copilot-developer"),
        files=[("for you", "~/.copilot/mcp-config.json")],
        stdio=_started(type="local", tools=["*"], deferTools="never"),
        http=_addressed(_BRACES, before={"type": "http"}, tools=["*"], deferTools="never"),
        then="Type `/mcp reload`. It passes only `PATH` on to the program, and what `env` of the entry has.",
    ),
    KnownClient(
        title="Gemini CLI",
        names=_names("gemini-cli-mcp-client"),
        files=[("for you", "~/.gemini/settings.json"), ("for one project", ".gemini/settings.json")],
        stdio=_started(),
        http=_addressed(_BRACES, before={"type": "http"}),
        then="Start it again. It starts programs only in a folder that you trust, and without variables "
        "whose names have KEY, TOKEN, SECRET, AUTH or PASSWORD in them.",
    ),
    KnownClient(
        title="Zed",
        names=_names("zed"),
        files=[("Linux, macOS", "~/.config/zed/settings.json"), ("Windows", r"%APPDATA%\Zed\settings.json")],
        stdio=_started(),
        http=_addressed(PLACEHOLDER),
        keys=("context_servers",),
        then="Zed asks before each tool, unless its settings say otherwise.",
    ),
    KnownClient(
        title="Cline",
        names=_names("Cline", "@cline/core"),
        files=[("for you", "~/.cline/data/settings/cline_mcp_settings.json")],
        stdio=_started(),
        http=_addressed(_ENV, before={"type": "streamableHttp"}),
        then="Cline sees the change by itself. Without `type`, it takes an address for the older SSE.",
    ),
    KnownClient(
        title="OpenCode",
        names=_names("opencode"),
        files=[("for you", "~/.config/opencode/opencode.json"), ("for one project", "opencode.json")],
        stdio=lambda words: {"type": "local", "command": list(words), "enabled": True},
        http=_addressed(f"{{env:{TOKEN_VARIABLE}}}", before={"type": "remote"}, enabled=True),
        keys=("mcp",),
        then="Start it again. An `opencode.jsonc` beside the file goes before it.",
    ),
    KnownClient(
        title="Kiro",
        files=[("for you", "~/.kiro/settings/mcp.json"), ("for one project", ".kiro/settings/mcp.json")],
        stdio=_started(),
        http=_addressed(_BRACES),
        then="Kiro connects again when the file is saved. It fills in a variable only if you approved that.",
    ),
)
"""The clients, those that most people have first."""
