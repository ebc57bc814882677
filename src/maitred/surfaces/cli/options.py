"""Options that all commands have, and those that several have with a help text of their own."""

from typing import Annotated, Any

import typer

from maitred.surfaces.cli.completion import (
    complete_categories,
    complete_profiles,
    complete_servers,
    complete_tools,
)
from maitred.surfaces.cli.hosted_command import hosted_command
from maitred.surfaces.cli.verbosity import VERBOSITY


def tools_option(about: str, *names: str, metavar: str = "TOOL") -> Any:
    """An option that names a tool."""
    return typer.Option(*names, metavar=metavar, help=about, autocompletion=complete_tools)


def server_option(about: str) -> Any:
    """`--server`, `-s`."""
    return typer.Option("--server", "-s", help=about, autocompletion=complete_servers)


def profile_option(about: str) -> Any:
    """`--profile`, `-p`."""
    return typer.Option("--profile", "-p", help=about, autocompletion=complete_profiles)


def category_option(about: str) -> Any:
    """`--category`."""
    return typer.Option("--category", help=about, autocompletion=complete_categories)


def _be_quiet(wanted: bool) -> None:
    if wanted:
        VERBOSITY.quiet = True
        apply_verbosity()


def _be_verbose(wanted: bool) -> None:
    if wanted and hosted_command() is None:  # the log of a gateway is not that of a command
        VERBOSITY.verbose = True
        apply_verbosity()


def apply_verbosity() -> None:
    """Log as much as the command line asks for."""
    if hosted_command() is not None:
        return
    from maitred.surfaces.cli.logs import set_up_logging  # noqa: PLC0415  # not needed for `--help`

    set_up_logging(verbose=VERBOSITY.verbose, quiet=VERBOSITY.quiet)


QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", callback=_be_quiet, expose_value=False, help="Print answers and errors alone."
    ),
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        callback=_be_verbose,
        expose_value=False,
        help="Log what happens to standard error.",
    ),
]


def verbosity_options() -> list[Any]:
    """The two options, for the parser of a command."""
    part = typer.Typer(add_completion=False)

    @part.command(add_help_option=False)
    def options(quiet: QuietOption = False, verbose: VerboseOption = False) -> None:
        """It is never run; its options are used."""

    return list(typer.main.get_command(part).params)
