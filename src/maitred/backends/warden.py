"""Ends the servers of a gateway that was killed, so that even SIGKILL leaves no orphans.

A program of its own, started as `python -I -S warden.py` with a pipe on its standard input whose other end
only the gateway holds. Lines `+PID START` and `-PID` say which process groups live. When the pipe ends, the
gateway is gone, for whatever reason: the warden ends every group still listed, with the descendants that
left it, and exits. It imports nothing of maitred, so it starts in milliseconds and stays small.

What it cannot reach: a process that made a session of its own and whose parent ended within two seconds of
its start. On systems without /proc only the groups are ended.
"""

import os
import select
import signal
import time

_GRACE_S = 1.0
_RESCAN_S = 2.0


def parents() -> dict[int, tuple[int, str]]:
    """Map each process to its parent and its start time, from /proc; empty where there is none."""
    table = {}
    try:
        entries = os.listdir("/proc")  # noqa: PTH208  # starts without pathlib
    except OSError:
        return {}
    for entry in entries:
        if entry.isdigit():
            stat = _stat(int(entry))
            if stat:
                table[int(entry)] = stat
    return table


def _stat(pid: int) -> tuple[int, str] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:  # noqa: PTH123  # starts without pathlib
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[1]), fields[19]) if fields[0] != "Z" else None


def start_time(pid: int) -> str:
    """When a process started, in the kernel's own count; empty if it is gone or the system does not say."""
    stat = _stat(pid)
    return stat[1] if stat else ""


def descendants(root: int) -> dict[int, str]:
    """Every living descendant of a process with its start time, by which a reused id is told apart."""
    table = parents()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, str] = {}
    queue = [root]
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found[child] = table[child][1]
                queue.append(child)
    return found


def signal_all(group: int, strays: dict[int, str], number: int) -> bool:
    """Send a signal to a process group and to the strays that left it; return whether anything was there."""
    alive = False
    try:
        os.killpg(group, number)
        alive = True
    except (ProcessLookupError, PermissionError):
        pass
    for pid, started in strays.items():
        if started and start_time(pid) == started:
            try:
                os.kill(pid, number)
                alive = True
            except (ProcessLookupError, PermissionError):
                pass
    return alive


def _end_all(groups: dict[int, str], strays: dict[int, dict[int, str]]) -> None:
    targets = {}
    for pid, started in groups.items():
        now = start_time(pid)
        if not started or not now or now == started:  # gone leaders may have left a group behind
            targets[pid] = strays.get(pid, {}) | descendants(pid)
    number: int = signal.SIGTERM
    deadline = time.monotonic() + _GRACE_S
    while targets:
        targets = {group: left for group, left in targets.items() if signal_all(group, left, number)}
        number = 0 if time.monotonic() < deadline else signal.SIGKILL
        if targets:
            time.sleep(0.02)
        if time.monotonic() > deadline + _GRACE_S:
            return


def main() -> None:
    """Follow the gateway until its pipe ends, then end what it left."""
    groups: dict[int, str] = {}
    strays: dict[int, dict[int, str]] = {}
    rest = b""
    while True:
        ready, _, _ = select.select([0], [], [], _RESCAN_S)
        data = os.read(0, 65_536) if ready else None
        if data == b"":
            break
        *lines, rest = (rest + (data or b"")).split(b"\n")
        for line in lines:
            pid, _, started = line[1:].decode().partition(" ")
            if line.startswith(b"+"):
                groups[int(pid)] = started
            else:
                groups.pop(int(pid), None)
                strays.pop(int(pid), None)
        for group in groups:  # whoever leaves the group is found as long as its parent lives
            strays[group] = strays.get(group, {}) | descendants(group)
    _end_all(groups, strays)


if __name__ == "__main__":
    main()
