"""Ends the servers of a gateway that was killed, so that even SIGKILL leaves no orphans.

A program, `python -I -S warden.py MARK`, on whose standard input the gateway holds a pipe. When the pipe
ends, the warden ends every listed process group, its descendants, and every process with the mark in its
environment. Lines `+PID START` and `-PID` add and remove a group. `@SOCKET NAME` and `!NAME` do so for a
container, which the engine at that socket is to remove. It imports nothing of maitred, to start in
milliseconds. It cannot find a process that left its session, environment and parent; without /proc it ends
groups only.
"""

import _socket  # `socket` loads more slowly than all the rest
import os
import signal
import sys
import time

MARK = "MAITRED_GATEWAY"
"""The environment variable that marks every process of a gateway's servers."""

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""The signal that ends a process at once; on Windows, every signal but two does."""

_GRACE_S = 1.0
_REMOVE_S = 5.0
_LATE_S = 3.0


def parents() -> dict[int, tuple[int, str]]:
    """Map each process to its parent and its start time, from /proc; empty if there is no /proc."""
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
    """The start time of a process in clock ticks of the kernel; empty if it is gone or unknown."""
    stat = _stat(pid)
    return stat[1] if stat else ""


def is_gone(mark: str) -> bool:
    """Whether the gateway of a mark, `CATALOG-PID-START-RANDOM`, does not run any more on this machine."""
    try:
        _, pid, started, _ = mark.split("-")
        if started:
            return start_time(int(pid)) != started
        if sys.platform == "win32":  # `kill` there ends what it is to ask about
            return False
        os.kill(int(pid), 0)  # start times are unknown on this system
    except (ValueError, ProcessLookupError):
        return True
    except PermissionError:
        return False
    return False


def descendants(root: int) -> dict[int, str]:
    """Every living descendant of a process with its start time, which distinguishes reused ids."""
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


def processes_with_mark(mark: str) -> dict[int, str]:
    """Every living process that inherited the mark, with its start time."""
    entry = f"{MARK}={mark}".encode()
    found = {}
    for pid, (_, started) in parents().items():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123  # starts without pathlib
                if entry in file.read().split(b"\0"):
                    found[pid] = started
        except OSError:  # gone, or of another user
            continue
    return found


def signal_all(group: int, strays: dict[int, str], number: int) -> bool:
    """Send a signal to a process group and to the strays that left it; returns whether there were any."""
    return bool(signal_each(strays, number)) | signal_group(group, number)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; returns whether it has any process left.

    Windows has no such groups: there the process alone is ended, and is not asked about.
    """
    try:
        if sys.platform != "win32":
            os.killpg(group, number)
        elif not number or not _end(group):
            return False
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _end(pid: int) -> bool:
    try:
        os.kill(pid, KILL)
    except OSError:  # Windows says neither which process is missing nor which may not be ended
        return False
    return True


def signal_each(processes: dict[int, str], number: int) -> dict[int, str]:
    """Send a signal to processes, by id and start time; returns those that were still there."""
    reached = {}
    for pid, started in processes.items():
        if started and start_time(pid) == started:
            try:
                os.kill(pid, number)
                reached[pid] = started
            except (ProcessLookupError, PermissionError):
                pass
    return reached


def ask_to_remove(containers: dict[str, str]) -> dict[str, _socket.socket]:
    """Ask the engines to remove containers, by name and the engine's socket, without waiting for answers."""
    asked = {}
    for name, path in containers.items():
        engine = asked[name] = _socket.socket(_socket.AF_UNIX)
        engine.settimeout(_REMOVE_S)
        try:
            engine.connect(path)
            request = f"DELETE /containers/{name}?force=true&v=true HTTP/1.1"
            engine.sendall(f"{request}\r\nHost: engine\r\nConnection: close\r\n\r\n".encode())
        except OSError:  # no engine answers: the next gateway removes it
            engine.close()
            del asked[name]
    return asked


def not_removed(asked: dict[str, _socket.socket]) -> set[str]:
    """Wait for each engine's answer; returns the names of the containers that it did not remove.

    Podman cannot remove a container that is just ending by itself, or it may not know the container yet.
    """
    refused = set()
    for name, engine in asked.items():
        try:
            if not engine.recv(64).partition(b" ")[2].startswith(b"2"):
                refused.add(name)
        except OSError:
            pass
        engine.close()
    return refused


def _see_to(containers: dict[str, str], asked: dict[str, _socket.socket]) -> None:
    """Remove containers, also one that an engine was still making when the gateway ended."""
    deadline = time.monotonic() + _LATE_S
    while left := not_removed(asked):
        if time.monotonic() > deadline:
            return
        time.sleep(0.2)
        asked = ask_to_remove({name: containers[name] for name in left})


def _end_all(groups: dict[int, str], mark: str) -> None:
    left = []
    strays = processes_with_mark(mark)
    for pid, started in groups.items():
        now = start_time(pid)
        if not started or not now or now == started:  # a dead leader may have left a group behind
            left.append(pid)
            strays |= descendants(pid)
    number: int = signal.SIGTERM
    deadline = time.monotonic() + _GRACE_S
    while left or strays:
        left = [group for group in left if signal_group(group, number)]
        strays = signal_each(strays, number)
        number = 0 if time.monotonic() < deadline else KILL
        if left or strays:
            time.sleep(0.02)
        if time.monotonic() > deadline + _GRACE_S:
            return


def main() -> None:
    """Follow the gateway until its pipe ends, then end what it left."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends last, whichever process ends the others
    groups: dict[int, str] = {}
    containers: dict[str, str] = {}
    with open(0, "rb", buffering=0) as pipe:
        for line in pipe:
            what, rest = line[:1], line[1:].decode("utf-8", "surrogateescape").strip()
            if what == b"+":
                pid, _, started = rest.partition(" ")
                groups[int(pid)] = started
            elif what == b"@":
                path, _, name = rest.rpartition(" ")
                containers[name] = path
            elif what == b"!":
                containers.pop(rest, None)
            else:
                groups.pop(int(rest), None)
    asked = ask_to_remove(containers)
    _end_all(groups, sys.argv[1])
    _see_to(containers, asked)


if __name__ == "__main__":
    main()
