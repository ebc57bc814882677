"""Why a container ended, from all that can be known of it: its exit code, what the engine did, the kernel.

An exit code of 137 says only that it was killed. Docker tells when that was for want of memory, Podman does
not always. So the count that the kernel keeps of it is read as well, where the engine is on this machine, at
the moment when the container falls silent: soon afterwards it is gone. With control groups of version 1,
where Podman misses it, the kernel also tells whoever asked it to, and that is not gone with the group.
"""

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from maitred.backends.base import Ending
from maitred.backends.isolation.engine_api import ContainerState
from maitred.backends.launch import ended, of_first

_GROUPS: Final = Path("/sys/fs/cgroup")
_FROM_OUTSIDE: Final = frozenset({"kill", "stop"})
_MIB: Final = 2**20
_GROUP_GONE_S: Final = 2.0
_GONE_AND_MORE: Final = 2


def memory_count(pid: int | None, *, groups: Path = _GROUPS, processes: Path = Path("/proc")) -> Path | None:
    """The file in which the kernel counts what it ended for want of memory in the control group of a process.

    `None` where there is no such file, as when the process is on another machine.
    """
    try:
        lines = (processes / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    paths = {
        kind: path for _, kinds, path in (one.split(":", 2) for one in lines) for kind in kinds.split(",")
    }
    if "memory" in paths:
        found = groups / "memory" / paths["memory"].lstrip("/") / "memory.oom_control"
    else:
        found = groups / paths.get("", "").lstrip("/") / "memory.events"
    return found if found.exists() else None


def ended_for_memory(count: Path | None) -> bool | None:
    """Whether the kernel ended something there for want of memory; `None` if that cannot be told."""
    if count is None:
        return None
    try:
        found = re.search(r"^oom_kill (\d+)$", count.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) > 0 if found else None


class MemoryWatch:
    """Whether the kernel ended something for want of memory in a control group, also when that is gone."""

    def __init__(self, count: Path | None) -> None:
        """Ask the kernel to tell it, if it has a way to; `count` is as `memory_count` found it."""
        self._count = count
        self._events: int | None = None
        control = count.parent / "cgroup.event_control" if count else None
        if count is None or control is None or not control.exists():
            return
        with suppress(OSError), count.open("rb") as watched:  # not ours to ask, or no descriptor left
            self._events = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            control.write_text(f"{self._events} {watched.fileno()}")

    def counted(self) -> bool | None:
        """What the count says now; `None` if it is gone."""
        return ended_for_memory(self._count)

    async def heard(self) -> bool | None:
        """What the kernel said of a group that is gone; `None` if that cannot be told.

        It adds one for each want of memory and one more when the group has gone, which may take a moment.
        """
        added = 0
        with anyio.move_on_after(_GROUP_GONE_S):
            while self._events is not None and added < _GONE_AND_MORE:
                await anyio.wait_readable(self._events)
                added += os.eventfd_read(self._events)
        return True if added >= _GONE_AND_MORE else None

    def close(self) -> None:
        """Hear no more of it."""
        if self._events is not None:
            os.close(self._events)
            self._events = None


def from_outside(actions: frozenset[str]) -> bool:
    """Whether somebody had the engine end it."""
    return bool(actions & _FROM_OUTSIDE)


def judged(state: ContainerState, actions: frozenset[str], by_kernel: bool | None, memory: int) -> Ending:  # noqa: FBT001  # of three
    """Why a container ended.

    Args:
        state: How it was found afterwards.
        actions: What the engine did with it, as `Engine.actions` has it.
        by_kernel: As `ended_for_memory` told when it fell silent.
        memory: Its limit, in bytes.
    """
    need = f"more memory than its {memory / _MIB:g} MiB"
    if state.out_of_memory or "oom" in actions or (by_kernel and state.code != 0):
        return Ending(kind="memory", reason=f"the kernel ended it: it needed {need}")
    if from_outside(actions):
        return Ending(kind="killed", reason="its container was ended from outside")
    if of_first(state.code) == -signal.SIGKILL and by_kernel is None:
        return Ending(kind="killed", reason=f"it was killed, perhaps since it needed {need}")
    return ended(of_first(state.code))
