"""Marks and claims: how a gateway finds what killed gateways of the same catalog left.

A mark, `CATALOG-PID-START-RANDOM`, is in the environment that all processes of a server inherit. It has 8
hexadecimal digits of the catalog's path, and the gateway's process with its start time, since numbers are
reused. A claim is a lock on a file beside the catalog, since containers share no process numbers. The kernel
releases it however the gateway ends. The file name ends with the inode, so a copied folder claims nothing. A
mark without a claim file here belongs to another catalog, and is left alone. Without /proc or file locks
nothing is ended.
"""

import glob
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from maitred.backends import warden
from maitred.config.paths import make_folder
from maitred.model.tools import content_hash

NO_CATALOG: Final = "0" * 8
_FORM: Final = re.compile(r"[0-9a-f]{8}-\d+-\d*-[0-9a-f]+")
_GRACE_S: Final = 1.0
_LEAVE_S: Final = 2.0
_POLL_S: Final = 0.02


def catalog_of(path: Path) -> str:
    """The identifier of a catalog in marks, the same for every link to it."""
    return content_hash(os.fsencode(path.resolve()))[:8]


def new_mark(catalog: str) -> str:
    """The mark of this process as a gateway of a catalog."""
    pid = os.getpid()
    return f"{catalog}-{pid}-{warden.start_time(pid)}-{secrets.token_hex(4)}"


def is_mark(text: str) -> bool:
    """Whether a text has the form of a mark."""
    return _FORM.fullmatch(text) is not None


def orphans(gone: Collection[str]) -> dict[int, str]:
    """Every process with one of the marks of gateways that are gone, and its descendants.

    Returns:
        The start time of each process, by its id. This process, its ancestors and its descendants are
            never among them, whatever they inherited.

    Raises:
        ValueError: An element of `gone` is not a mark.
    """
    if isinstance(gone, str) or not all(map(is_mark, gone)):  # anything else might match every process
        raise ValueError(f"these are no marks: {gone!r}")
    if not gone:
        return {}
    table = warden.parents()
    spared = _line(table) | warden.descendants(os.getpid()).keys()
    found: dict[int, str] = {}
    for pid, (_, started) in table.items():
        if pid not in spared and _mark_of(pid) in gone:
            found |= {pid: started} | warden.descendants(pid)
    return {pid: started for pid, started in found.items() if pid not in spared}


def end_orphans(gone: Collection[str]) -> int:
    """End the orphans of gateways, by SIGTERM, then by SIGKILL; returns how many there were.

    Blocks for three seconds at most, and only if there are some.
    """
    left = found = orphans(gone)
    number: int = signal.SIGTERM
    begun = time.monotonic()
    while left and time.monotonic() - begun < _GRACE_S + _LEAVE_S:
        left = warden.signal_each(left, number)
        number = 0 if time.monotonic() - begun < _GRACE_S else warden.KILL
        if left:
            time.sleep(_POLL_S)  # the kernel sends no event for processes that are no children of this one
    return len(found)


def _mark_of(pid: int) -> str:
    """The mark that a process carries; empty if it has none, or may not be read."""
    wanted = f"{warden.MARK}=".encode()
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    found = next((one for one in entries if one.startswith(wanted)), wanted)
    return found[len(wanted) :].decode("ascii", "replace")


def _line(table: dict[int, tuple[int, str]]) -> set[int]:
    """This process and its ancestors."""
    found, pid = set(), os.getpid()
    while pid in table and pid not in found:
        found.add(pid)
        pid = table[pid][0]
    return found


if sys.platform != "win32":
    import fcntl

Kind = Literal["processes", "containers"]
"""What a gateway may leave; each kind is removed separately, containers only once an engine answers."""


class Claim:
    """The claim of a running gateway, until it is released or the process ends."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    def release(self, *, left: bool = False) -> None:
        """Release the claim; with `left` the next gateway searches for what is left."""
        if not left:
            self._path.unlink(missing_ok=True)
        os.close(self._file)


class ClaimRegistry:
    """The claims of one kind beside a catalog, which need not exist: it may be in a database elsewhere."""

    def __init__(self, catalog: Path, kind: Kind) -> None:
        path = catalog.resolve()
        self._folder = path.parent
        self._stem = f"{path.name}-{kind}-"

    def take(self, mark: str) -> Claim:
        """Claim that the gateway of a mark, which is this process, runs.

        Raises:
            OSError: Files cannot be made or locked there.
        """
        make_folder(self._folder)
        new = self._folder / f"{self._stem}{mark}.new"
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path = new.with_suffix(f".{os.fstat(file).st_ino}")
            new.rename(path)  # visible to others only once it is locked
        except OSError:
            os.close(file)
            new.unlink(missing_ok=True)
            raise
        return Claim(path, file)

    def gone(self) -> Sequence[str]:
        """The marks of the gateways that had a claim, and have ended without cleaning up."""
        return sorted(
            mark
            for mark, inode, path in self._all()
            if warden.is_gone(mark) and _is_free(path, inode)  # `is_gone` protects where locks do not work
        )

    def forget(self, mark: str) -> None:
        """Delete the claim of a gateway, after all that it left was removed."""
        for found, _, path in self._all():
            if found == mark:
                path.unlink(missing_ok=True)

    def _all(self) -> Iterator[tuple[str, int, Path]]:
        for path in self._folder.glob(f"{glob.escape(self._stem)}*"):
            mark, _, inode = path.name.removeprefix(self._stem).rpartition(".")
            if inode.isdecimal() and is_mark(mark):
                yield mark, int(inode), path


def _is_free(path: Path, inode: int) -> bool:
    """Whether no process holds the lock of a file, which must be the original one."""
    if sys.platform == "win32":
        return False
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if os.fstat(file).st_ino != inode:
            return False
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two gateways may check at the same time
    except OSError:
        return False
    finally:
        os.close(file)
    return True
