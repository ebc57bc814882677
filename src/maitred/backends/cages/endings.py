"""Why a container ended, from all that can be known of it: its exit code, what the engine did, the kernel.

An exit code of 137 says only that it was killed. Docker tells when that was for want of memory, Podman does
not always. So the count that the kernel keeps of it is read as well, where the engine is on this machine, at
the moment when the container falls silent: soon afterwards it is gone.
"""

import re
import signal
from pathlib import Path
from typing import Final

from maitred.backends.base import Ending
from maitred.backends.cages.engines import ContainerState
from maitred.backends.launch import ended, of_first

_GROUPS: Final = Path("/sys/fs/cgroup")
_FROM_OUTSIDE: Final = frozenset({"kill", "stop"})
_MIB: Final = 2**20


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
    if actions & _FROM_OUTSIDE:
        return Ending(kind="killed", reason="its container was ended from outside")
    if of_first(state.code) == -signal.SIGKILL and by_kernel is None:
        return Ending(kind="killed", reason=f"it was killed, perhaps since it needed {need}")
    return ended(of_first(state.code))
