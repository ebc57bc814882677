"""How much commands print, by the options `--quiet` and `--verbose`.

A command that runs here for another process is as quiet as its words say. What happens in it is in the log of
this gateway.
"""

from typing import Final

from maitred.surfaces.cli.hosted_command import hosted_command


class Verbosity:
    """What a command line asked for; it holds for one run of `main`, or for one hosted command."""

    def __init__(self) -> None:
        self._is_quiet = False
        self.verbose = False

    @property
    def quiet(self) -> bool:
        """Whether answers and errors alone are printed."""
        hosted = hosted_command()
        return self._is_quiet if hosted is None else hosted.quiet

    @quiet.setter
    def quiet(self, wanted: bool) -> None:
        hosted = hosted_command()
        if hosted is None:
            self._is_quiet = wanted
        else:
            hosted.quiet = wanted


VERBOSITY: Final = Verbosity()


def reset_verbosity() -> None:
    """Begin a command line: neither option is given."""
    VERBOSITY.quiet = VERBOSITY.verbose = False
