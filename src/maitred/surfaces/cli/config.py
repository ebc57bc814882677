"""`maitred config`: which configuration file is used and why, and whether it can be."""

import os
from pathlib import Path

import typer
from rich.text import Text

from maitred.errors import ConfigError
from maitred.surfaces.cli.console import (
    ConfigOption,
    JsonOption,
    config_path,
    fail,
    out,
    print_json,
    settings_of,
)
from maitred.surfaces.cli.verbosity import VERBOSITY
from maitred.wording import count_of

config_app = typer.Typer(
    help="Say which configuration is used, and check it.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(config_app, name="config")


@config_app.command("path")
def show_path(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print the path of the configuration file. With --verbose it says why it is this one."""
    path = config_path(config).absolute()
    if as_json:
        print_json({"path": str(path), "exists": path.exists(), "reason": _reason(config)})
        return
    typer.echo(str(path))
    if VERBOSITY.verbose:
        out.print(Text(f"{_reason(config)}; {'it is there' if path.exists() else 'it is not there yet'}"))


@config_app.command()
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Read the configuration, and name each fault with its line. Exits with 1 for a fault."""
    try:
        settings = settings_of(config)
    except ConfigError as error:
        if as_json:
            print_json({"path": str(config_path(config)), "servers": [], "faults": list(error.faults)})
        else:
            fail(error)
        raise typer.Exit(1) from None
    if as_json:
        print_json({"path": str(settings.source), "servers": list(settings.servers), "faults": []})
        return
    out.note(Text(f"{settings.source}: fine, {count_of(len(settings.servers), 'server')}"))


def _reason(given: Path | None) -> str:
    if given:
        return "--config names it"
    for variable, words in (("MAITRED_CONFIG", "names it"), ("XDG_CONFIG_HOME", "names its folder")):
        if os.environ.get(variable):
            return f"the variable {variable} {words}"
    return "it is the user's own, as neither --config nor MAITRED_CONFIG names another"
