"""Find out why the catalog's file cannot be used, and what to do.

SQLite says little, so this module asks the system. It never opens the file itself: closing it would release
the locks that SQLite has on it for this process. To learn whether a file can be written there, it writes
another file beside it.
"""

import errno
import os
import secrets
import sqlite3
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from maitred.errors import StoreError, os_reason

if sys.platform != "win32":
    import resource

HOLDS: Final = "approvals, access tokens, logins to servers and the audit trail"
"""The content of a catalog that cannot be made again."""

_KIND: Final = 0xFF
_OF_ENVIRONMENT: Final = frozenset({
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_PERM,
})  # fmt: skip
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PROBE_BYTES: Final = 65_536


_RIGHTS: Final = (
    "this user may not write there",
    "Correct the owner or the rights of {folder} and of what is in it, or set `catalog.path`.",
)
_FEWER: Final = ("", "Or have fewer servers run at once.")
_BY_NUMBER: Final = {
    errno.ENOSPC: ("its disk is full", "Make room there."),
    errno.EDQUOT: ("the quota of its disk is used up", "Make room there, or raise the quota."),
    errno.EROFS: ("its disk is mounted read-only", "Mount it so that it can be written."),
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EMFILE: _FEWER,
    errno.ENFILE: _FEWER,
    errno.EIO: ("its disk reports an error", f"It holds {HOLDS}: copy the file to another disk first."),
    errno.EFBIG: ("it may not grow any more", "Raise the limit on the size of files (`ulimit -f`)."),
    errno.ENOENT: ("its file is not there", ""),
}
"""Reason and advice by the system's error number."""


class Diagnosis(NamedTuple):
    """A reason that completes "it cannot be used:", and a sentence on what to do."""

    reason: str
    advice: str = ""


def store_error(path: Path, error: Exception) -> StoreError:
    """Make the error that explains why a catalog cannot be used; may write beside it, so it blocks briefly.

    Args:
        path: The catalog's file.
        error: The error of SQLite or the system.
    """
    diagnosis = diagnose(path, error)
    return StoreError(str(path), diagnosis.reason, advice=diagnosis.advice)


def is_of_environment(error: Exception) -> bool:
    """Return whether the cause is the disk, the rights or this process, and not the file's content."""
    return isinstance(error, OSError) or _kind(error) in _OF_ENVIRONMENT


def may_pass(error: BaseException | None) -> bool:
    """Return whether a failure ends once there is room or a right, or other writers are done.

    A `StoreError`, or an error of SQLAlchemy, is judged by its cause.
    """
    if isinstance(error, StoreError):
        return may_pass(error.__cause__)
    error = getattr(error, "orig", error)
    return isinstance(error, Exception) and (is_of_environment(error) or _kind(error) in _LOCKED)


def diagnose(path: Path, error: Exception) -> Diagnosis:
    """Return the reason of an error, and what to do about it."""
    if _kind(error) in _DAMAGED:
        return Diagnosis(
            f"its file is damaged ({error})",
            f"It holds {HOLDS}: copy it first, with {path.name}-wal if that is there. `sqlite3 {path.name}"
            " .recover` may save them; without the file maitred begins with an empty catalog, without these.",
        )
    if _kind(error) in _LOCKED:
        return Diagnosis("another process has locked it", "End that process, or wait for it.")
    if not is_of_environment(error):
        return Diagnosis(str(error))
    if isinstance(error, OSError):
        return _by_number(path, error)
    try:
        path.stat()
        _write_beside(path)
    except OSError as fault:
        return _by_number(path, fault)
    return _of_file(path, error)


def _kind(error: BaseException) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _KIND


def _write_beside(path: Path) -> None:
    """Write as much as a start needs into a file beside it, and remove that file."""
    probe = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    number = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        left = _PROBE_BYTES
        while left > 0:
            left -= os.write(number, bytes(left))
    finally:
        os.close(number)
        with suppress(OSError):
            probe.unlink()


def _by_number(path: Path, error: OSError) -> Diagnosis:
    number = error.errno or 0
    reason, advice = _BY_NUMBER.get(number, ("", ""))
    return Diagnosis(reason or os_reason(error), advice.format(folder=path.parent))


def _of_file(path: Path, error: Exception) -> Diagnosis:
    """Return what is wrong although another file can be written beside it."""
    if not os.access(path, os.R_OK | os.W_OK):
        return _by_number(path, PermissionError(errno.EACCES, ""))
    if _kind(error) == sqlite3.SQLITE_FULL:
        return _by_number(path, OSError(errno.ENOSPC, ""))
    if _kind(error) == sqlite3.SQLITE_IOERR:
        limited = sys.platform != "win32" and _may_not_grow(path)
        return _by_number(path, OSError(errno.EFBIG if limited else errno.EIO, ""))
    return Diagnosis(str(error))


def _may_not_grow(path: Path) -> bool:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    sizes = (one.stat().st_size for one in path.parent.glob(f"{path.name}*"))
    return limit != resource.RLIM_INFINITY and max(sizes, default=0) + _PROBE_BYTES > limit
