"""Opens the SQLite file of a catalog with the standard library, or the memory that replaces it.

A file that cannot be written, as on a full disk, is opened for reading. If no file exists and none can be
made, the catalog is in memory until one can.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal

from maitred.config.paths import make_folder
from maitred.errors import StoreError
from maitred.storage.diagnosis import is_of_environment

Synchronous = Literal["NORMAL", "FULL"]
"""`FULL` survives a loss of power, `NORMAL` any end of this process. The file is never damaged by either."""


class FileConnection(sqlite3.Connection):
    """A connection; `why_read_only` is the error that keeps the file from being written, if there is one."""

    why_read_only: sqlite3.Error | None = None


class Standby:
    """A catalog in memory, for every connection of this process to its file, until the file can be made.

    `why` is the error for writes that must last.
    """

    def __init__(self, path: Path, why: StoreError) -> None:
        self.why = why
        self.uri: Final = f"file:/maitred-{secrets.token_hex(8)}?vfs=memdb"
        self._path = path.absolute()
        self._connection = sqlite3.connect(self.uri, uri=True, isolation_level=None, check_same_thread=False)
        _STANDBYS[self._path] = self

    def move(self) -> bool:
        """Make the file, whole or not at all; false if another process made one in the meantime.

        After that, connections open the file.

        Raises:
            OSError, sqlite3.Error: It cannot be made yet.
        """
        make_folder(self._path.parent)
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with closing(sqlite3.connect(draft)) as file:
                self._connection.backup(file)
            if self._path.exists() and not self._path.stat().st_size:
                draft.replace(self._path)  # the rest of an earlier attempt to make it
            else:
                self._path.hardlink_to(draft)
        except FileExistsError:
            self.close()
            return False
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        self.close()
        return True

    def close(self) -> None:
        """Forget its content."""
        if _STANDBYS.pop(self._path, None) is not None:
            self._connection.close()


_STANDBYS: Final[dict[Path, Standby]] = {}


def standby_of(path: Path) -> Standby | None:
    """Return the memory that replaces a catalog's file in this process, if there is any."""
    return _STANDBYS.get(path.absolute())


def is_nothing(path: Path) -> bool:
    """Return whether a catalog's file is missing or empty; false if that cannot be found out."""
    try:
        if not path.stat().st_size:
            return True
        with closing(connect(path)) as connection:
            return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]) == 0
    except FileNotFoundError:
        return True
    except (OSError, sqlite3.Error):
        return False


def connect(
    path: Path,
    *,
    wait_s: float = 10.0,
    synchronous: Synchronous = "NORMAL",
    any_thread: bool = False,
    lasting: bool = False,
) -> FileConnection:
    """Open a connection to an existing file; it makes none. No transaction begins by itself.

    Args:
        path: The file.
        wait_s: How many seconds it waits for other writers.
        synchronous: See `Synchronous`.
        any_thread: Whether other threads may use the connection, one at a time.
        lasting: Whether the memory that replaces the file is refused.

    Raises:
        StoreError: It is `lasting`, and memory replaces the file.
        sqlite3.Error: The file cannot be opened.
    """
    open_it = partial(_open_file, wait_s=wait_s, synchronous=synchronous, any_thread=any_thread)
    if (standby := standby_of(path)) is not None:
        if lasting:
            raise standby.why
        return open_it(standby.uri)
    address = path.absolute().as_uri()
    try:
        return open_it(f"{address}?mode=rw")
    except sqlite3.Error as error:
        found = _open_to_read(path, address, open_it) if is_of_environment(error) else None
        if found is None:
            raise
        found.why_read_only = error
        return found


def _open_file(
    uri: str, *, wait_s: float, synchronous: Synchronous, any_thread: bool, alone: bool = False
) -> FileConnection:
    """Open a connection and read the file once, so that an error is raised here and not later.

    `alone` locks out all other connections while this one is open, and needs no shared memory.
    """
    connection = sqlite3.connect(
        uri,
        uri=True,
        timeout=wait_s,
        isolation_level=None,
        check_same_thread=not any_thread,
        factory=FileConnection,
    )
    try:
        if alone:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA schema_version").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _open_to_read(path: Path, address: str, open_it: Callable[..., FileConnection]) -> FileConnection | None:
    """Open a file for reading although SQLite can make no file beside it; `None` if that fails, too.

    Without a log of changes the file is complete, and no process can change it while no log can be made.
    """
    log = path.with_name(f"{path.name}-wal")
    try:
        if log.exists() and log.stat().st_size:
            connection = open_it(f"{address}?mode=rw", alone=True)
            connection.execute("PRAGMA query_only=ON")
        else:
            connection = open_it(f"{address}?mode=ro&immutable=1")
    except (OSError, sqlite3.Error):
        return None
    return connection
