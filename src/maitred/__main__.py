"""Entry point of `python -m maitred` and of the `maitred` command: runs the command line.

A client's `serve` has a shortcut past the command line's imports, since clients start it often and wait.
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
from maitred.surfaces.daemon.client_entry import serve_command
from maitred.surfaces.daemon.command_client import run_in_gateway

_ENGINE = "pydantic_monty"
_UTF8 = ["-X", "utf8"]


def main() -> None:
    """Run the command line. An expected error ends it with a message and exit code 2."""
    try:
        _run()
    except SystemExit as ended:
        if _ENGINE not in sys.modules:
            raise
        _leave(ended.code)
    if _ENGINE in sys.modules:
        _leave(0)


def _leave(code: object) -> None:
    """End the process as Python does, but without finalizing the interpreter.

    The engine of chains has threads that cannot be joined. One that needs the interpreter during finalization
    is ended at any point, and the engine's language, Rust, answers that by aborting the process.
    """
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # as in a normal exit: waits for our own threads
    atexit._run_exitfuncs()  # noqa: SLF001  # as in a normal exit
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or its reader is gone
            stream.flush()
    os._exit(code or 0)


def _run() -> None:
    prepare()
    try:
        code = serve_command(sys.argv[1:], os.environ)
        if code is None:
            code = run_in_gateway(sys.argv[1:], os.environ)
    except MaitredError as error:
        from maitred.surfaces.cli.console import fail  # noqa: PLC0415  # slow to import

        sys.exit(fail(error).exit_code)
    if code is not None:
        sys.exit(code)
    from maitred.surfaces.cli import main as command_line  # noqa: PLC0415  # slow to import

    command_line()


def prepare() -> None:
    """Prepare for unusual environments: an ASCII locale, outputs that lack letters, no home directory.

    In an ASCII locale Python cannot decode names and paths with other letters. So the process restarts its
    interpreter in UTF-8 mode, under the same process id.
    """
    if sys.getfilesystemencoding() == "ascii" and sys.orig_argv[1:3] != _UTF8:
        os.execv(sys.executable, [sys.executable, *_UTF8, *sys.orig_argv[1:]])  # noqa: S606  # the same program
    codecs.register_error("maitred", _printable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # a stream that is also readable and cannot seek stays as it is
                stream.reconfigure(errors="maitred")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # else it reads the metadata of all packages
    if not Path(os.environ.get("HOME", "")).is_absolute():  # an empty one would mean the root directory
        os.environ.pop("HOME", None)


def _printable(error: UnicodeError) -> tuple[bytes, int]:
    """Error handler of the outputs: file names keep their bytes, other characters become escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    return part.encode("ascii", "surrogateescape" if _is_bytes(part) else "backslashreplace"), error.end


def _is_bytes(part: str) -> bool:
    return all(0xDC80 <= ord(character) <= 0xDCFF for character in part)  # noqa: PLR2004  # from `os.fsdecode`


if __name__ == "__main__":
    main()
