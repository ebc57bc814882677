"""Homes of users, written by the tests, in which the clients' files stand where the clients put them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maitred.config.clients.discovery import ClientServer, ImportedServers

Look = Callable[..., ImportedServers]
TIME = {"command": "uvx", "args": ["mcp-server-time"]}


def put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8")
    return path


def only(discovery: ImportedServers) -> ClientServer:
    assert discovery.problems == ()
    (found,) = discovery.found
    return found
