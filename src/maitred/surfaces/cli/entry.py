"""`maitred entry`: the entry that starts this gateway, to paste into a client's configuration file."""

import json
import sys
from pathlib import Path
from typing import Any

import typer

from maitred.config.clients.entries import start_command
from maitred.config.clients.table import find_client
from maitred.surfaces.cli.console import ConfigOption, config_path


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(entry)


def entry(config: ConfigOption = None) -> None:
    """Print the entry for a client's MCP configuration, with full paths. It replaces all others there."""
    typer.echo(entry_line(config))


def entry_line(config: Path | None = None) -> str:
    """The entry in one line, under `mcpServers` as most clients write it."""
    return json.dumps({"mcpServers": {"maitred": _entry(config)}}, ensure_ascii=False)


def _entry(config: Path | None) -> dict[str, Any]:
    """The entry of Claude Code, with what has it show the menu's definitions and not only its names."""
    words = start_command(Path(sys.argv[0]).absolute(), config_path(config))
    return find_client("claude-code").stdio(words)
