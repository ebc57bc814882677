"""The processes under measurement: who runs below us, what they hold in memory, and that none is left.

Orphans are inherited by this process (Linux: PR_SET_CHILD_SUBREAPER), so a program that forgets its own
children is found out and cleaned up after.
"""

import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_MIB = 1024 * 1024
_PATIENCE_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Held:
    """Resident memory in MiB. `pss_mib` shares pages fairly between processes; None where /proc lacks it."""

    rss_mib: float
    pss_mib: float | None


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def below(pid: int) -> list[psutil.Process]:
    """All living descendants of a process."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in found if _is_alive(process)]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def describe(process: psutil.Process) -> str:
    """A process as a person recognises it."""
    try:
        return " ".join(process.cmdline())[-120:] or process.name()
    except psutil.Error:
        return f"process {process.pid}"


def held_by(pid: int) -> Held:
    """What one process holds in memory now."""
    rss = psutil.Process(pid).memory_info().rss / _MIB
    return Held(rss_mib=rss, pss_mib=_pss_mib(pid))


def _pss_mib(pid: int) -> float | None:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return None


def cpu_s(pid: int) -> float:
    """Processor time that one process (not its children) has used; in nanoseconds where Linux tells."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        spent_ns = sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks)
    except (OSError, ValueError):
        spent_ns = 0
    if spent_ns:
        return spent_ns / 1e9
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def end_all() -> list[str]:
    """End every descendant that is there; the answer names those that did not end on their own."""
    found = psutil.Process().children(recursive=True)
    _, late = psutil.wait_procs(found, timeout=_PATIENCE_S)
    left = [describe(process) for process in late]
    for process in late:
        process.terminate()
    _, stubborn = psutil.wait_procs(late, timeout=_PATIENCE_S)
    for process in stubborn:
        process.kill()
    psutil.wait_procs(stubborn, timeout=_PATIENCE_S)
    return left
