"""The processes under measurement: who runs below us, what they hold in memory, and that none is left.

Orphans are inherited by this process (Linux: PR_SET_CHILD_SUBREAPER), so a program that forgets its own
children is found out and cleaned up after.
"""

import ctypes
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_MIB = 1024 * 1024
_PATIENCE_S = 3.0
_CPU_CLOCK = 2
"""With the complement of a process id above it, the clock of its processor time (clock_getcpuclockid(3))."""


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


def descendants() -> set[int]:
    """All living processes below this one."""
    return {process.pid for process in below(os.getpid())}


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


def rss_mib(pid: int) -> float:
    """Resident memory of one process now, in MiB."""
    return float(psutil.Process(pid).memory_info().rss) / _MIB


def cpu_s(pid: int) -> float:
    """Processor time that one process (not its children) has used, with that of threads that have ended."""
    if sys.platform == "linux":
        with suppress(OSError):
            return time.clock_gettime((~pid << 3) | _CPU_CLOCK)
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def family(roots: Iterable[int], *, without: Sequence[str] = ()) -> list[int]:
    """Processes and all below them that live, but those with a certain command line."""
    found = {pid: None for root in roots for pid in (root, *(one.pid for one in below(root)))}
    return [pid for pid in found if _command_of(pid) not in ([], list(without))]


def _command_of(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def all_cpu_s(pids: Iterable[int]) -> float:
    """Processor time of several processes; one that has ended counts nothing."""
    total = 0.0
    for pid in pids:
        try:
            total += cpu_s(pid)
        except psutil.NoSuchProcess:
            continue
    return total


def all_rss_mib(pids: Iterable[int]) -> float:
    """Resident memory of several processes, as a sum."""
    total = 0.0
    for pid in pids:
        try:
            total += rss_mib(pid)
        except psutil.NoSuchProcess:
            continue
    return total


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
