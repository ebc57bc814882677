"""Entry point of `python -m maitred` and of the `maitred` command; all it knows is the command line.

A client's `serve` is let through before, since it is started often and has to be there at once.
"""

import atexit
import codecs
import io
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from maitred.errors import MaitredError
from maitred.surfaces.daemon.client_entry import served

_ENGINE = "pydantic_monty"
_UTF8 = ["-X", "utf8"]


def main() -> None:
    """Run the command line; errors that were foreseen end it with a message and exit code 2."""
    try:
        _run()
    except SystemExit as ended:
        if _ENGINE not in sys.modules:
            raise
        _leave(ended.code)
    if _ENGINE in sys.modules:
        _leave(0)


def _leave(code: object) -> None:
    """End the process as Python does, but for taking the interpreter apart.

    The engine of chains has threads that nobody can wait for. One that wants the interpreter while that is
    taken apart is ended in the middle of its work, which its language answers by aborting the process.
    """
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # as at every end: waits for our own
    atexit._run_exitfuncs()  # noqa: SLF001  # as at every end
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(code or 0)


def _run() -> None:
    prepare()
    try:
        code = served(sys.argv[1:], os.environ)
    except MaitredError as error:
        from maitred.surfaces.cli.console import fail  # noqa: PLC0415  # slow to import

        sys.exit(fail(error).exit_code)
    if code is not None:
        sys.exit(code)
    from maitred.surfaces.cli import main as command_line  # noqa: PLC0415  # slow to import

    command_line()


def prepare() -> None:
    """Make the best of odd surroundings: a locale of ASCII alone, outputs that lack letters, no home.

    In a locale of ASCII alone, names and paths in other letters are no texts, and nothing can be done with
    them. So the interpreter is started anew in its UTF-8 mode, in the same process.
    """
    if sys.getfilesystemencoding() == "ascii" and sys.orig_argv[1:3] != _UTF8:
        os.execv(sys.executable, [sys.executable, *_UTF8, *sys.orig_argv[1:]])  # noqa: S606  # the same program
    codecs.register_error("maitred", _printable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # one that is open for reading as well and cannot seek stays as it is
                stream.reconfigure(errors="maitred")
    if not Path(
        os.environ.get("HOME", "")
    ).is_absolute():  # an empty one would be the root of the file system
        os.environ.pop("HOME", None)


def _printable(error: UnicodeError) -> tuple[bytes, int]:
    """Bytes of a file's name as they are, and what the output cannot hold as escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    return part.encode("ascii", "surrogateescape" if _is_bytes(part) else "backslashreplace"), error.end


def _is_bytes(part: str) -> bool:
    return all(0xDC80 <= ord(character) <= 0xDCFF for character in part)  # noqa: PLR2004  # of `os.fsdecode`


if __name__ == "__main__":
    main()
