"""How to start a program, what its end means, and how fast it may write.

These are values and arithmetic, without asyncio, clocks or jails.
The limit of output is in bytes a second. A reader reports to a `TokenBucket` what came, and pauses for as
long as it says. Then the server's pipe fills up and the server waits, so no output is lost.
"""

import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from maitred.backends.base import ConnectError, Ending

_SIGNALLED: Final = 128
_FROM_OUTSIDE: Final = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"})
"""Signals that come from other processes; all others, such as SIGSEGV, are the program's own fault."""


def exit_ending(code: int | None) -> Ending:
    """How a process ended, by its exit code: negative means a signal, and `None` that it still runs."""
    if code is None:
        return Ending(kind="lost", reason="it closed its standard output")
    if code >= 0:
        return Ending(kind="exit", reason=f"it exited with code {code}")
    try:
        number = signal.Signals(-code)
    except ValueError:
        return Ending(kind="exit", reason=f"it was ended by signal {-code}")
    kind: Final = "killed" if number.name in _FROM_OUTSIDE else "exit"
    return Ending(kind=kind, reason=f"it was ended by {number.name}")


def of_first(code: int) -> int:
    """Convert the exit code of a cage's first process, which reports signal N as 128 + N."""
    is_signal = _SIGNALLED < code <= _SIGNALLED + max(signal.valid_signals())
    return _SIGNALLED - code if is_signal else code


def find_program(name: str, search: str, cwd: str | None) -> str:
    """The path of a program: by its name on the path `search`, or by its own path, relative to `cwd`.

    Raises:
        ConnectError: There is no such program.
    """
    found = shutil.which(name, path=search)
    if found is None and cwd is not None and os.sep in name:
        found = shutil.which(str(Path(cwd) / name))
    if found is None:
        where = "does not exist or is not executable" if os.sep in name else "is not on PATH"
        raise ConnectError(
            f"its program {name!r} {where}; install it or correct `command`", fault="program_missing"
        )
    return found


def names_folder(args: Sequence[str]) -> bool:
    """Whether a command line names a folder to work on. In some servers a root would take its place."""
    words = [word.partition("=")[2] if word.startswith("-") else word for word in args]
    return any(word.startswith(("/", "~")) and Path(word).expanduser().is_dir() for word in words)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What to start and with what environment.

    `files` are descriptors that it inherits. `rate` bounds its output, in bytes a second; 0 is no bound.
    If it is `wrapped`, the first process only waits for the others, and gets no SIGTERM. `ending`
    converts the exit code of the first process into how the program ended.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None
    files: Sequence[int] = ()
    rate: int = 0
    wrapped: bool = False
    ending: Callable[[int | None], Ending] = exit_ending
