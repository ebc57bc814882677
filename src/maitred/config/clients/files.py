"""Read the files in which MCP clients keep their servers, and find the groups of servers in each.

This module writes nothing and does not interpret a server: `maitred.config.clients.discovery` does that.
"""

import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from maitred.config.document import strict_json

Form = Literal["JSON", "TOML", "YAML"]
FORMS: Final[Mapping[str, Form]] = {".toml": "TOML", ".yaml": "YAML", ".yml": "YAML"}
"""The syntax by the end of a file's name; any other is JSON, with or without comments."""
Content = Mapping[str, Any]


class UserMachine(NamedTuple):
    """The user's folders, environment and platform."""

    home: Path
    cwd: Path
    environ: Mapping[str, str]
    platform: str

    @classmethod
    def here(cls, cwd: Path | None = None) -> "UserMachine":
        """This machine, in the current folder or another one."""
        return cls(Path.home(), cwd or Path.cwd(), os.environ, sys.platform)


class ServerGroup(NamedTuple):
    """The servers in one object of a file, and what the file says about them elsewhere."""

    servers: Any
    inputs: Any = None
    disabled: Any = None
    folder: Path | None = None


Groups = Callable[[Content], Iterator[ServerGroup]]
"""Finds the servers in the content of a file."""


class UnusableError(Exception):
    """A file, or a server in it, cannot be used; the text says why."""


def unknown_layout(error: Exception) -> str:
    """Why a file cannot be used in which maitred met something that it does not know."""
    return f"its layout is not known to maitred ({type(error).__name__}); edit it by hand"


def form_of(path: Path) -> Form:
    """The syntax of a file, by its name."""
    return FORMS.get(path.suffix.lower(), "JSON")


def parse_content(form: Form, text: str) -> dict[str, Any]:
    """The object in a text; empty if the text is.

    Raises:
        UnusableError: The text is not valid, or is not an object.
    """
    try:
        if form == "TOML":
            data = tomllib.loads(text)
        elif form == "YAML":
            data = YAML(typ="safe", pure=True).load(text)
        else:
            data = json.loads(strict_json(text).strip() or "{}", strict=False)
    except (ValueError, RecursionError, YAMLError) as error:
        problem = getattr(error, "problem", None)
        mark = getattr(error, "problem_mark", None)
        reason = f"{problem}: line {mark.line + 1}" if problem and mark else str(error)
        raise UnusableError(f"cannot be read: it is not valid {form.lower()}: {reason}") from error
    return as_object(data, "its top level")


def read_file(path: Path) -> dict[str, Any]:
    """Read the object in a file; empty if there is no file.

    Raises:
        UnusableError: The file cannot be read, or is not an object.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UnusableError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UnusableError("cannot be read: it is not UTF-8 text") from error
    return parse_content(form_of(path), text)


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


def under(key: str) -> Groups:
    """The servers are an object under one key."""
    return lambda data: iter([ServerGroup(as_object(data.get(key), f"`{key}`"))])


def named_items(key: str) -> Groups:
    """The servers are a list under one key, each with its `name`."""

    def groups(data: Content) -> Iterator[ServerGroup]:
        items = data.get(key)
        if not isinstance(items, list):
            yield from under(key)(data)
            return
        names = (str(item["name"]) if isinstance(item, dict) and "name" in item else "" for item in items)
        yield ServerGroup({name: item for name, item in zip(names, items, strict=True) if name})

    return groups


def vscode(data: Content) -> Iterator[ServerGroup]:
    """The servers in `mcp.json` of VS Code, with what it asks its user for."""
    yield ServerGroup(as_object(data.get("servers"), "`servers`"), data.get("inputs"))


def vscode_settings(data: Content) -> Iterator[ServerGroup]:
    """The servers in the settings of an older VS Code, in both spellings."""
    yield from vscode(as_object(data.get("mcp"), "`mcp`"))
    yield from vscode({"servers": data.get("mcp.servers"), "inputs": data.get("mcp.inputs")})


def claude_code(data: Content) -> Iterator[ServerGroup]:
    """The servers of the user, and those for each of the user's projects."""
    yield from under("mcpServers")(data)
    for folder, project in as_object(data.get("projects"), "`projects`").items():
        local = as_object(project, "a project")
        servers = as_object(local.get("mcpServers"), "`mcpServers` of a project")
        yield ServerGroup(servers, disabled=local.get("disabledMcpServers"), folder=Path(folder))


def gemini(data: Content) -> Iterator[ServerGroup]:
    """The servers, and which of them the lists in `mcp` switch off."""
    servers = as_object(data.get("mcpServers"), "`mcpServers`")
    rules = as_object(data.get("mcp"), "`mcp`")
    allowed, excluded = as_list(rules.get("allowed")) or servers, as_list(rules.get("excluded"))
    yield ServerGroup(servers, disabled=[name for name in servers if name in excluded or name not in allowed])


FINDERS: Final[Mapping[str, Groups]] = {
    "vscode": vscode,
    "vscode_settings": vscode_settings,
    "claude_code": claude_code,
    "gemini": gemini,
}
"""What finds the servers in files of other shapes, by the names that `clients.yaml` has."""
