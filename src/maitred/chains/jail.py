"""Puts bubblewrap around the worker that runs chains, if the machine has it and allows it.

The worker isolates a program by its language alone: it runs as the gateway's user, with the gateway's
network. If its native code has a fault, the jail still leaves it no files, network, other processes or
privileges.
Containers often forbid bubblewrap, so the gateway tries it once. Without it chains still run, and
`why_not` has the reason.
"""

import os
import secrets
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic_monty import Monty, MontyError

_TRY_S = 10
_REASON_CHARS = 200
_GUEST = "/worker"
_ADDRESS_SPACE_KIB = 2 * 1024 * 1024
_STRICT = ("--unshare-user", "--disable-userns")
"""No further user namespaces inside, since they expose much of the kernel; older versions lack the option."""

_OPTIONS = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"),
    *("--uid", "65534", "--gid", "65534", "--ro-bind", "/usr/lib", "/usr/lib"),
    *("--ro-bind-try", "/lib", "/lib", "--ro-bind-try", "/lib64", "/lib64"),
    *("--ro-bind-try", "/usr/lib64", "/usr/lib64"),
)


@dataclass(frozen=True, kw_only=True)
class EngineJail:
    """The program to start as a worker; `why_not` is empty if it is jailed.

    `mark` is in the command line of each process of the jail, and of no other.
    """

    program: Path
    jailed: bool
    why_not: str = ""
    mark: str = ""

    def end_strays(self) -> None:
        """End what bubblewrap left: if it is killed at its start, its child waits for it for ever."""
        if not self.mark:
            return
        found = {pid: parent for pid, parent in _parents() if self._is_marked(pid)}
        for pid, parent in found.items():
            is_held = parent == os.getpid() or parent in found or self._is_marked(parent)
            if not is_held:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def _is_marked(self, pid: int) -> bool:
        try:
            return self.mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False


def make_jail(worker: Path, folder: Path, *, bwrap: str | None = None, why_not: str = "") -> EngineJail:
    """Write a program into `folder` that starts `worker` inside bubblewrap, and try it.

    `folder` is private to the gateway. `bwrap` is the program to use, else the one on PATH. A `why_not`
    is a reason not to try at all. Blocks for as long as the trial takes.
    """
    found = None if why_not else shutil.which(bwrap or "bwrap")
    if found:
        mark = f"chain-{secrets.token_hex(8)}"
        for extra in (_STRICT, ()):
            options = [*_OPTIONS, "--hostname", mark, *extra]
            jailed = _written(folder / "jailed", [found, *options, *_inside(worker)])
            refused = _trial(jailed)
            if not refused:
                return EngineJail(program=jailed, jailed=True, mark=mark)
            why_not = why_not or refused
    why_not = why_not or "bubblewrap (bwrap) is not installed"
    bare = _written(folder / "bare", [str(worker)])
    return EngineJail(program=worker if _trial(bare) else bare, jailed=False, why_not=why_not)


def _parents() -> Iterator[tuple[int, int]]:
    """Each process with its parent; nothing if there is no /proc."""
    with suppress(OSError):
        for entry in os.listdir("/proc"):  # noqa: PTH208  # only the names are needed
            with suppress(OSError, ValueError):
                fields = Path(f"/proc/{int(entry)}/stat").read_text(encoding="latin-1").rpartition(")")[2]
                yield int(entry), int(fields.split()[1])


def _inside(worker: Path) -> tuple[str, ...]:
    return ("--ro-bind", str(worker.resolve()), _GUEST, "--remount-ro", "/", "--chdir", "/", "--", _GUEST)


def _written(path: Path, command: Sequence[str]) -> Path:
    """A script that starts a command without core dumps and with bounded memory.

    It drops standard error, since the worker's message about each program that it stops would fill the
    gateway's log.
    """
    quiet = 'if [ "$1" != --version ]; then exec 2>/dev/null; fi'
    lines = ["#!/bin/sh", "ulimit -c 0", f"ulimit -v {_ADDRESS_SPACE_KIB}", quiet]
    path.write_text("\n".join([*lines, f'exec {shlex.join(command)} "$@"', ""]))
    path.chmod(0o700)
    return path


def _trial(wrapper: Path) -> str:
    """Why the jail cannot be used; empty if a program runs in it and answers."""
    try:
        with (
            Monty(binary_path=wrapper, max_processes=1, request_timeout=_TRY_S) as pool,
            pool.checkout() as s,
        ):
            return "" if s.feed_run("1 + 1") == 1 + 1 else "the worker answered wrongly"
    except (OSError, RuntimeError, MontyError) as error:
        return f"bubblewrap does not work here: {_complaint(wrapper) or str(error)[:_REASON_CHARS]}"


def _complaint(wrapper: Path) -> str:
    try:
        done = subprocess.run(
            [wrapper, "--version"], capture_output=True, text=True, timeout=_TRY_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:_REASON_CHARS]
    return done.stderr.strip()[:_REASON_CHARS] if done.returncode else ""
