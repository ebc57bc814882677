"""Claims: by them the gateways of a catalog know which of them are gone, wherever each of them runs.

A gateway holds a lock on a file of its own beside the catalog, which the kernel takes from it however it
ends: process numbers mean nothing from one container to the next. A mark without such a file here belongs to
others, though their catalog may have the same path, and is left alone. The name of the file ends with its
inode, so that a copy of the folder says nothing of the gateways of the original. Locks hold wherever the
catalog can be shared, since SQLite needs one kernel as well; where there are none, nobody is ever gone.
"""

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from maitred.backends import warden
from maitred.backends.marks import is_mark

if sys.platform != "win32":
    import fcntl

Kind = Literal["processes", "containers"]
"""What a gateway may leave; each is cleared up by itself, and containers only once an engine answers."""


class Claim:
    """The claim of a gateway that lives, until it is released or the process ends."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    def release(self, *, left: bool = False) -> None:
        """Give it up; with `left` the next gateway is to look for what is left."""
        if not left:
            self._path.unlink(missing_ok=True)
        os.close(self._file)


class Claims:
    """The claims of one kind beside a catalog, which need not be there yet; its folder does."""

    def __init__(self, catalog: Path, kind: Kind) -> None:
        path = catalog.resolve()
        self._folder = path.parent
        self._stem = f"{path.name}-{kind}-"

    def take(self, mark: str) -> Claim:
        """Claim that the gateway of a mark, which is this process, lives.

        Raises:
            OSError: Files cannot be made or locked there.
        """
        new = self._folder / f"{self._stem}{mark}.new"
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path = new.with_suffix(f".{os.fstat(file).st_ino}")
            new.rename(path)  # it is seen only now that it is locked
        except OSError:
            os.close(file)
            new.unlink(missing_ok=True)
            raise
        return Claim(path, file)

    def gone(self) -> Sequence[str]:
        """The marks of the gateways that had a claim, and have ended without clearing up."""
        return sorted(
            mark
            for mark, inode, path in self._all()
            if warden.is_gone(mark) and _is_free(path, inode)  # the first guards where locks are no good
        )

    def forget(self, mark: str) -> None:
        """All that a gateway left is cleared up."""
        for found, _, path in self._all():
            if found == mark:
                path.unlink(missing_ok=True)

    def _all(self) -> Iterator[tuple[str, int, Path]]:
        for path in self._folder.glob(f"{glob.escape(self._stem)}*"):
            mark, _, inode = path.name.removeprefix(self._stem).rpartition(".")
            if inode.isdecimal() and is_mark(mark):
                yield mark, int(inode), path


def _is_free(path: Path, inode: int) -> bool:
    """Whether nobody holds the lock of a file, which has to be the original one."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if os.fstat(file).st_ino != inode:
            return False
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two may look at the same time
    except OSError:
        return False
    finally:
        os.close(file)
    return True
