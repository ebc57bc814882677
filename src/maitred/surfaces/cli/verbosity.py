"""How much commands print: `--quiet` and `--verbose`, before the name of any command or after it."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer


@dataclass
class Verbosity:
    """What a command line asked for; it holds for one run of `main`."""

    quiet: bool = False
    verbose: bool = False


VERBOSITY: Final = Verbosity()


def reset_verbosity() -> None:
    """Begin a command line: neither option is given."""
    VERBOSITY.quiet = VERBOSITY.verbose = False


def _be_quiet(wanted: bool) -> None:
    if wanted:
        VERBOSITY.quiet = True
        apply_verbosity()


def _be_verbose(wanted: bool) -> None:
    if wanted:
        VERBOSITY.verbose = True
        apply_verbosity()


def apply_verbosity() -> None:
    """Log as much as the command line asks for."""
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
