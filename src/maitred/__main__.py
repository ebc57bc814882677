"""Entry point of `python -m maitred` and of the `maitred` command; all it knows is the command line.

A client's `serve` is let through before, since it is started often and has to be there at once.
"""

import os
import sys

from maitred.errors import MaitredError
from maitred.surfaces.daemon.entry import served


def main() -> None:
    """Run the command line; errors that were foreseen end it with a message and exit code 2."""
    try:
        code = served(sys.argv[1:], os.environ)
    except MaitredError as error:
        from maitred.surfaces.cli.common import fail  # noqa: PLC0415  # slow to import

        sys.exit(fail(error).exit_code)
    if code is not None:
        sys.exit(code)
    from maitred.surfaces.cli import main as command_line  # noqa: PLC0415  # slow to import

    command_line()


if __name__ == "__main__":
    main()
