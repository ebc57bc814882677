"""`maitred entry`: the entry that starts this gateway, to paste into a client's configuration file."""

import json
import sys
from pathlib import Path
from typing import Any

import typer

from maitred.config.paths import default_path
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
    """The entry; with `alwaysLoad`, Claude Code shows the menu's definitions and not only its names."""
    program = Path(sys.argv[0]).absolute()
    started = (
        [str(program)]
        if program.name == "maitred" and program.is_file()
        else [sys.executable, "-m", "maitred"]
    )
    command, *rest = started
    path = config_path(config)
    chosen = [] if path == default_path({}) else ["--config", str(path.absolute())]
    return {"command": command, "args": [*rest, "serve", *chosen], "alwaysLoad": True}
