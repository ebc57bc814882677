"""The `maitred` command and its subcommands."""

import sys
from typing import Annotated

import typer

from maitred import __version__
from maitred.errors import MaitredError
from maitred.surfaces.cli import demo, doctor, serve, servers, tools
from maitred.surfaces.cli.common import fail, set_up_logging

app = typer.Typer(
    name="maitred",
    help="A gateway between AI agents and many MCP servers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maitred {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # handled by its callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log what happens to standard error.")
    ] = False,
) -> None:
    set_up_logging(verbose=verbose)


for _module in (serve, servers, tools, doctor, demo):
    _module.register(app)


def main() -> None:
    """Run the command line; errors that were foreseen end it with a message and exit code 2."""
    try:
        app(standalone_mode=True)
    except MaitredError as error:
        sys.exit(fail(error).exit_code)
