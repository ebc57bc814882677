"""Why a container ended: from its exit code, the events of the engine, and the kernel.

An exit code of 137 says only that the container was killed. Docker reports whether that was for lack of
memory, Podman not always. So the gateway also reads the kernel's count, if the engine is on this machine.
It reads it as soon as the output ends, since the count is soon gone.
With control groups of version 1 Podman misses such ends. There the kernel can also send an event, which
the gateway still receives after the group is gone.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from maitred.backends.base import Ending
from maitred.backends.isolation.engine_api import ContainerState
from maitred.backends.launch import exit_ending, of_first

_GROUPS: Final = Path("/sys/fs/cgroup")
_FROM_OUTSIDE: Final = frozenset({"kill", "stop"})
_MIB: Final = 2**20
_KILLED: Final = -9
_GROUP_GONE_S: Final = 2.0
_GONE_AND_MORE: Final = 2


def memory_count(pid: int | None, *, groups: Path = _GROUPS, processes: Path = Path("/proc")) -> Path | None:
    """The file in which the kernel counts the processes that it ended for lack of memory.

    It belongs to the control group of process `pid`. `None` if there is no such file, as when the process
    is on another machine.
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
    """Whether the kernel ended a process there for lack of memory; `None` if it is unknown."""
    if count is None:
        return None
    try:
        found = re.search(r"^oom_kill (\d+)$", count.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) > 0 if found else None


class MemoryWatch:
    """Reports whether the kernel ended a process of a control group for lack of memory.

    It can do so even after the group is gone.
    """

    def __init__(self, count: Path | None) -> None:
        """Subscribe to the event of the kernel, if there is one; `count` comes from `memory_count`."""
        self._count = count
        self._events: int | None = None
        control = count.parent / "cgroup.event_control" if count else None
        if count is None or control is None or not control.exists():
            return
        with suppress(OSError), count.open("rb") as watched:  # no permission, or no descriptor left
            self._events = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            control.write_text(f"{self._events} {watched.fileno()}")

    def counted(self) -> bool | None:
        """Whether the count shows an end for lack of memory; `None` if the count is gone."""
        return ended_for_memory(self._count)

    async def heard(self) -> bool | None:
        """Whether the kernel reported lack of memory for a group that is gone; `None` if it is unknown.

        The kernel adds one for each lack of memory, and one more when the group is gone, which may take a
        moment.
        """
        added = 0
        with anyio.move_on_after(_GROUP_GONE_S):
            while self._events is not None and added < _GONE_AND_MORE:
                await anyio.wait_readable(self._events)
                added += os.eventfd_read(self._events)
        return True if added >= _GONE_AND_MORE else None

    def close(self) -> None:
        """End the subscription."""
        if self._events is not None:
            os.close(self._events)
            self._events = None


def from_outside(actions: frozenset[str]) -> bool:
    """Whether a client of the engine ended the container."""
    return bool(actions & _FROM_OUTSIDE)


def container_ending(
    state: ContainerState,
    actions: frozenset[str],
    by_kernel: bool | None,  # noqa: FBT001  # of three
    memory: int,
) -> Ending:
    """Why a container ended.

    Args:
        state: The state of the container afterwards.
        actions: What the engine did with it, from `Engine.actions`.
        by_kernel: What `ended_for_memory` returned when the output ended.
        memory: The container's limit, in bytes.
    """
    need = f"more memory than its {memory / _MIB:g} MiB"
    if state.out_of_memory or "oom" in actions or (by_kernel and state.code != 0):
        return Ending(kind="memory", reason=f"the kernel ended it: it needed {need}")
    if from_outside(actions):
        return Ending(kind="killed", reason="its container was ended from outside")
    if of_first(state.code) == _KILLED and by_kernel is None:
        return Ending(kind="killed", reason=f"it was killed, perhaps since it needed {need}")
    return exit_ending(of_first(state.code))
