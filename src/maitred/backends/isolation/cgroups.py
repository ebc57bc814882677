"""Control groups of the kernel (cgroups), which bound what all processes of a server use together.

A group is a folder beside the gateway's own group. Files in it set the limits and count the processes
that the kernel ended for lack of memory. A process that enters a group stays in it with its children.
Version 1 has one tree for each kind of limit, version 2 has a single tree with other file names. Only
root can make groups, or a user to whom systemd delegated a part of the tree. Otherwise the gateway
reports why not.
"""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from maitred.backends.isolation.endings import ended_for_memory
from maitred.model.servers import Cage

ROOT: Final = Path("/sys/fs/cgroup")
OWN: Final = Path("/proc/self/cgroup")
_PREFIX: Final = "maitred-"
_PERIOD_US: Final = 100_000
_LEAST_QUOTA_US: Final = 1_000
_KINDS: Final = ("memory", "pids", "cpu")
_LEAVE_S: Final = 2.0
_TRY_S: Final = 10
_ENTER: Final = (
    'unset PWD OLDPWD; while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'
)


@dataclass(frozen=True, kw_only=True)
class ControlGroup:
    """One group, which may not exist yet; `folders` by kind, which are all the same folder in version 2."""

    folders: Mapping[str, Path]
    version: int

    def make(self, cage: Cage) -> None:
        """Create the group with the limits of a cage.

        Raises:
            OSError: The kernel does not allow it.
        """
        for folder in set(self.folders.values()):
            folder.mkdir(exist_ok=True)
        for kind, name, value in self._limits(cage):
            (self.folders[kind] / name).write_text(value)
        for kind, name, value in self._wishes(cage):
            with suppress(OSError):  # not every kernel counts these
                (self.folders[kind] / name).write_text(value)

    def _limits(self, cage: Cage) -> Iterator[tuple[str, str, str]]:
        quota = max(_LEAST_QUOTA_US, cage.nano_cpus * _PERIOD_US // 1_000_000_000)
        yield "pids", "pids.max", str(cage.pids)
        if self.version == 1:
            yield "memory", "memory.limit_in_bytes", str(cage.memory)
            yield "cpu", "cpu.cfs_period_us", str(_PERIOD_US)
            yield "cpu", "cpu.cfs_quota_us", str(quota)
        else:
            yield "memory", "memory.max", str(cage.memory)
            yield "cpu", "cpu.max", f"{quota} {_PERIOD_US}"

    def _wishes(self, cage: Cage) -> Iterator[tuple[str, str, str]]:
        """No swap, and the CPU weight, whose default is 1024 in version 1 and 100 in version 2."""
        if self.version == 1:
            yield "memory", "memory.memsw.limit_in_bytes", str(cage.memory)
            if cage.cpu_shares:
                yield "cpu", "cpu.shares", str(cage.cpu_shares)
        else:
            yield "memory", "memory.swap.max", "0"
            if cage.cpu_shares:
                yield "cpu", "cpu.weight", str(min(10_000, max(1, cage.cpu_shares * 100 // 1_024)))

    def entering(self, argv: Sequence[str]) -> list[str]:
        """The command that enters the group and then replaces itself with `argv`."""
        entrances = [str(folder / "cgroup.procs") for folder in sorted(set(self.folders.values()))]
        return ["/bin/sh", "-c", _ENTER, "sh", *entrances, "--", *argv]

    def ended_for_memory(self) -> bool:
        """Whether the kernel ended a process of the group for lack of memory."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        return bool(ended_for_memory(self.folders["memory"] / name))

    def remove(self) -> bool:
        """End the processes of the group and remove it. Blocks for at most two seconds.

        Returns:
            Whether the group is gone.
        """
        deadline = time.monotonic() + _LEAVE_S
        left = set(self.folders.values())
        try:
            while left := {folder for folder in left if not _removed(folder)}:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.005)  # the kernel sends no event when the last process has left
        except OSError:
            return False
        return True


def _removed(folder: Path) -> bool:
    """Remove a folder; if it is busy, end the processes in it and return false."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _end_all(folder)
        return False
    return True


def _end_all(folder: Path) -> None:
    with suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A place where groups can be made: a folder for each kind of limit, all the same one in version 2."""

    folders: Mapping[str, Path]
    version: int

    def group(self, name: str) -> ControlGroup:
        """The group of a name."""
        own = {kind: folder / f"{_PREFIX}{name}" for kind, folder in self.folders.items()}
        return ControlGroup(folders=own, version=self.version)

    def names(self) -> Sequence[str]:
        """The names of the groups that exist."""
        found = {one.name for folder in self.folders.values() for one in folder.glob(f"{_PREFIX}*")}
        return sorted(name.removeprefix(_PREFIX) for name in found)

    def why_not(self, mark: str) -> str:
        """Why no group can be made here; empty if one can.

        The gateway makes a group and enters it, since the kernel does not publish what it allows.
        """
        for folder in set(self.folders.values()) if self.version > 1 else ():
            with suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(" ".join(f"+{kind}" for kind in _KINDS))
        trial = self.group(f"{mark}.trial")
        try:
            trial.make(Cage())
            argv = trial.entering(["/bin/true"])
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_TRY_S, check=False, env={})
        except subprocess.TimeoutExpired:
            return "it takes too long to enter one"
        except OSError as error:
            return f"{error.strerror}: {error.filename}"
        finally:
            trial.remove()
        return done.stderr.strip() if done.returncode else ""


def find_tree(mark: str, *, root: Path = ROOT, own: Path = OWN) -> tuple[Tree | None, str]:
    """Find where groups can be made, or the reason why none can.

    The gateway tries it with a group that is named after `mark`. Blocks for a moment.
    """
    trees = _trees(root, own)
    if not trees:
        return None, "this system has no control groups for memory, processes and cores"
    refused = ""
    for tree in trees:
        if not (why := tree.why_not(mark)):
            return tree, ""
        refused = refused or why
    return None, f"control groups cannot be made here: {refused}"


def _trees(root: Path, own: Path) -> Sequence[Tree]:
    """Where groups might be made, the best place first.

    In version 2 a group that holds processes, as the gateway's does, cannot set limits for groups inside
    it. Only the root group can. So the groups of servers are beside the gateway's group.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return ()
    paths = {
        kind: path.lstrip("/")
        for _, kinds, path in (line.split(":", 2) for line in lines)
        for kind in kinds.split(",")
    }
    if all(kind in paths for kind in _KINDS):
        return [Tree(folders={kind: root / kind / paths[kind] for kind in _KINDS}, version=1)]
    if "" not in paths or not (root / "cgroup.controllers").exists():
        return ()
    ours = root / paths[""]
    places = [ours] if ours == root else [ours.parent, ours]
    return [Tree(folders=dict.fromkeys(_KINDS, place), version=2) for place in places]


def sweep(is_gone: Callable[[str], bool], *, root: Path = ROOT, own: Path = OWN) -> Sequence[str]:
    """End and remove the groups whose gateway is gone, and return their names, `MARK.NUMBER`.

    `is_gone` gets the mark of each gateway. Blocks for at most two seconds for each group.
    """
    ended = []
    for tree in _trees(root, own):
        for name in tree.names():
            mark, dot, _ = name.rpartition(".")
            if dot and is_gone(mark) and tree.group(name).remove():
                ended.append(name)
    return ended
