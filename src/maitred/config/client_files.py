"""The files in which MCP clients keep their servers, and the form of the servers in each.

This module writes nothing and does not interpret a server: `maitred.config.clients` does that.
"""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from maitred.config.document import strict_json
from maitred.config.interpolate import Syntax


class UserMachine(NamedTuple):
    """The user's folders, environment and platform."""

    home: Path
    cwd: Path
    environ: Mapping[str, str]
    platform: str

    def folder(self, variable: str, *default: str) -> Path:
        """Return the folder that a variable names, or else one below the user's home."""
        return Path(self.environ.get(variable) or self.home.joinpath(*default))


class ServerGroup(NamedTuple):
    """The servers in one object of a file, and what the file says about them elsewhere."""

    servers: Any
    inputs: Any = None
    disabled: Any = None
    folder: Path | None = None


class Source(NamedTuple):
    """A file in which a client may keep servers; `syntax` is how it writes variables."""

    client: str
    path: Path
    groups: Callable[[dict[str, Any]], Iterator[ServerGroup]]
    syntax: Syntax
    folder: Path | None = None


class UnusableError(Exception):
    """A file, or a server in it, cannot be used; the text says why."""


def sources(at: UserMachine) -> Iterator[Source]:
    """Yield every file to read; of two servers with one name, the first one keeps it."""
    home, cwd = at.home, at.cwd
    mcp_servers, codex_servers, zed_servers = map(_under, ("mcpServers", "mcp_servers", "context_servers"))
    config = zed = at.folder("XDG_CONFIG_HOME", ".config")
    if at.platform == "darwin":
        config, zed = home / "Library" / "Application Support", home / ".config"
    elif at.platform == "win32":
        config = zed = at.folder("APPDATA", "AppData", "Roaming")
        for package in sorted(at.folder("LOCALAPPDATA", "AppData", "Local").glob("Packages/Claude_*")):
            path = package / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"
            yield Source("claude-desktop", path, mcp_servers, "none")
    yield Source("claude-desktop", config / "Claude" / "claude_desktop_config.json", mcp_servers, "none")
    yield Source("claude-code", at.folder("CLAUDE_CONFIG_DIR") / ".claude.json", _claude_code, "braces")
    yield Source("claude-code", cwd / ".mcp.json", mcp_servers, "braces", cwd)
    yield Source("cursor", home / ".cursor" / "mcp.json", mcp_servers, "editor")
    yield Source("cursor", cwd / ".cursor" / "mcp.json", mcp_servers, "editor", cwd)
    for user in (config / "Code" / "User", config / "Code - Insiders" / "User"):
        for path in (user / "mcp.json", *sorted(user.glob("profiles/*/mcp.json"))):
            yield Source("vscode", path, _vscode, "editor")
        yield Source("vscode", user / "settings.json", _vscode_settings, "editor")
    yield Source("vscode", cwd / ".vscode" / "mcp.json", _vscode, "editor", cwd)
    yield Source("vscode", cwd / ".vscode" / "settings.json", _vscode_settings, "editor", cwd)
    yield Source("codex", at.folder("CODEX_HOME", ".codex") / "config.toml", codex_servers, "none")
    yield Source("codex", cwd / ".codex" / "config.toml", codex_servers, "none", cwd)
    yield Source("gemini", at.folder("GEMINI_CLI_HOME") / ".gemini" / "settings.json", _gemini, "shell")
    yield Source("gemini", cwd / ".gemini" / "settings.json", _gemini, "shell", cwd)
    yield Source("windsurf", home / ".codeium" / "windsurf" / "mcp_config.json", mcp_servers, "editor")
    yield Source("windsurf", home / ".codeium" / "mcp_config.json", mcp_servers, "editor")
    yield Source(
        "zed", zed / ("Zed" if at.platform == "win32" else "zed") / "settings.json", zed_servers, "none"
    )
    yield Source("zed", cwd / ".zed" / "settings.json", zed_servers, "none", cwd)


def read_file(path: Path) -> dict[str, Any]:
    """Read the object in a JSON or TOML file; empty if there is no file.

    Raises:
        UnusableError: The file cannot be read, or is not an object.
    """
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
        raise UnusableError(f"cannot be read: {reason}") from error
    return as_object(data, "its top level")


def as_object(value: Any, what: str) -> dict[str, Any]:
    """Return the value if it is an object; `None` counts as an empty one.

    Raises:
        UnusableError: The value is something else.
    """
    if not isinstance(value, dict | None):
        raise UnusableError(f"{what} must be an object")
    return value or {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list; anything else counts as an empty one."""
    return value if isinstance(value, list) else []


def _under(key: str) -> Callable[[dict[str, Any]], Iterator[ServerGroup]]:
    return lambda data: iter([ServerGroup(as_object(data.get(key), f"`{key}`"))])


def _vscode(data: dict[str, Any]) -> Iterator[ServerGroup]:
    yield ServerGroup(as_object(data.get("servers"), "`servers`"), data.get("inputs"))


def _vscode_settings(data: dict[str, Any]) -> Iterator[ServerGroup]:
    yield from _vscode(as_object(data.get("mcp"), "`mcp`"))
    yield from _vscode({"servers": data.get("mcp.servers"), "inputs": data.get("mcp.inputs")})


def _claude_code(data: dict[str, Any]) -> Iterator[ServerGroup]:
    yield from _under("mcpServers")(data)
    for folder, project in as_object(data.get("projects"), "`projects`").items():
        local = as_object(project, "a project")
        servers = as_object(local.get("mcpServers"), "`mcpServers` of a project")
        yield ServerGroup(servers, disabled=local.get("disabledMcpServers"), folder=Path(folder))


def _gemini(data: dict[str, Any]) -> Iterator[ServerGroup]:
    servers = as_object(data.get("mcpServers"), "`mcpServers`")
    rules = as_object(data.get("mcp"), "`mcp`")
    allowed, excluded = as_list(rules.get("allowed")) or servers, as_list(rules.get("excluded"))
    yield ServerGroup(servers, disabled=[name for name in servers if name in excluded or name not in allowed])
