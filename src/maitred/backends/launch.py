"""How a program is started, and what its end means: values that know neither asyncio nor the jail.

How fast a server may write: the arithmetic of a limit in bytes a second, without any clock or waiting.

Whoever reads a server's output takes what came, asks how long to read nothing more, and does so: the server's
pipe fills up, and it waits. Nothing that it wrote is lost.
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
_FROM_OUTSIDE: Final = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
)
"""Signals that somebody sends; others, such as that of a fault in memory, are a program's own."""


def ended(code: int | None) -> Ending:
    """How a process ended, by its exit code: below zero it is a signal, and with `None` it still runs."""
    if code is None:
        return Ending(kind="lost", reason="it closed its standard output")
    if code >= 0:
        return Ending(kind="exit", reason=f"it exited with code {code}")
    try:
        number = signal.Signals(-code)
    except ValueError:
        return Ending(kind="exit", reason=f"it was ended by signal {-code}")
    kind: Final = "killed" if number in _FROM_OUTSIDE else "exit"
    return Ending(kind=kind, reason=f"it was ended by {number.name}")


def of_first(code: int) -> int:
    """The exit code of a program by that of its cage's first process, which tells signal N as 128 + N."""
    is_signal = _SIGNALLED < code <= _SIGNALLED + max(signal.valid_signals())
    return _SIGNALLED - code if is_signal else code


def find_program(name: str, search: str, cwd: str | None) -> str:
    """The path of a program: by its name on the path `search`, or by its own path, maybe below `cwd`.

    Raises:
        ConnectError: It is not there.
    """
    found = shutil.which(name, path=search)
    if found is None and cwd is not None and os.sep in name:
        found = shutil.which(str(Path(cwd) / name))
    if found is None:
        where = "does not exist or is not executable" if os.sep in name else "is not on PATH"
        raise ConnectError(f"its program {name!r} {where}; install it or correct `command`")
    return found


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What to start and with what environment.

    `files` are descriptors that it inherits. `rate` bounds what it may write, in bytes a second; 0 is no
    bound. Of a program that is `wrapped`, the first process only waits for the others, and is not asked to
    end. `ending` tells by the exit code of that process how it ended.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None
    files: Sequence[int] = ()
    rate: int = 0
    wrapped: bool = False
    ending: Callable[[int | None], Ending] = ended


class Meter:
    """A bucket of `rate` bytes that fills up at `rate` bytes a second; what is taken may empty it and more.

    So a burst of one second's worth passes at once, and over a longer time no more than `rate` a second does.
    """

    def __init__(self, rate: int, *, now: float) -> None:
        if rate < 1:
            raise ValueError(f"a rate is at least 1 byte a second, not {rate}")
        self._rate = rate
        self._left = float(rate)
        self._at = now

    def take(self, count: int, *, now: float) -> float:
        """Account for bytes that came, and return the seconds for which nothing more may be read.

        `now` is in seconds by a clock that never goes back. 0 while there is something left.
        """
        self._left = min(self._rate, self._left + (now - self._at) * self._rate) - count
        self._at = now
        return max(0.0, -self._left / self._rate)
