"""How much commands print, by the options `--quiet` and `--verbose`."""

from dataclasses import dataclass
from typing import Final


@dataclass
class Verbosity:
    """What a command line asked for; it holds for one run of `main`."""

    quiet: bool = False
    verbose: bool = False


VERBOSITY: Final = Verbosity()


def reset_verbosity() -> None:
    """Begin a command line: neither option is given."""
    VERBOSITY.quiet = VERBOSITY.verbose = False
