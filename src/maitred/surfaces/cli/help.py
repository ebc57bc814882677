"""`maitred help`: what `--help` says, of the program or of one command."""

from typing import Annotated, Any

import typer

from maitred.surfaces.cli.commands import SHOW_ALL
from maitred.surfaces.cli.completion import complete_commands


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("help")(show_help)


def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="The command to explain.", autocompletion=complete_commands),
    ] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="List all commands.")] = False,
) -> None:
    """Explain a command, or list the commands by their groups."""
    found: Any = context.find_root()
    found.meta[SHOW_ALL] = every
    for word in words or ():
        command = found.command
        if not hasattr(command, "resolve_command"):
            found.fail(f"`{found.command_path}` has no command {word!r}")
        name, inner, _ = command.resolve_command(found, [word])
        found = type(found)(inner, info_name=name, parent=found)
    typer.echo(found.get_help())
