"""Opens the SQLite file of a catalog with the standard library, or the memory that stands in for it.

A file that cannot be written, as on a full disk, is opened to be read. Where there is none, and none can be
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
"""`FULL` survives a loss of power, `NORMAL` whatever happens to this process. The file is always whole."""


class FileConnection(sqlite3.Connection):
    """A connection; `why_read_only` is why the file could not be opened to be written, if it could not."""

    why_read_only: sqlite3.Error | None = None


class Standby:
    """A catalog in memory, for all who open its file in this process, until the file can be made.

    `why` is told to whoever has to keep something for good.
    """

    def __init__(self, path: Path, why: StoreError) -> None:
        self.why = why
        self.uri: Final = f"file:/maitred-{secrets.token_hex(8)}?vfs=memdb"
        self._path = path.absolute()
        self._held = sqlite3.connect(self.uri, uri=True, isolation_level=None, check_same_thread=False)
        _STANDBYS[self._path] = self

    def move(self) -> bool:
        """Make the file, whole or not at all; false if another process has made one meanwhile.

        From then on the file is what is opened.

        Raises:
            OSError, sqlite3.Error: It cannot be made yet.
        """
        make_folder(self._path.parent)
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            with closing(sqlite3.connect(draft)) as file:
                self._held.backup(file)
            if self._path.exists() and not self._path.stat().st_size:
                draft.replace(self._path)  # what is left of an attempt to make it
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
        """Forget all that it has."""
        if _STANDBYS.pop(self._path, None) is not None:
            self._held.close()


_STANDBYS: Final[dict[Path, Standby]] = {}


def standby_of(path: Path) -> Standby | None:
    """What stands in for a catalog's file in this process, if anything does."""
    return _STANDBYS.get(path.absolute())


def is_nothing(path: Path) -> bool:
    """Whether a catalog's file is not there, or has nothing in it; false where that cannot be told."""
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
    """A connection to a file that is there; one that is not is not made. No transaction begins by itself.

    It waits `wait_s` for others who write. With `any_thread` another thread may use it, one at a time. What
    is `lasting` does not go to what stands in for the file.

    Raises:
        StoreError: It is `lasting`, and the file is stood in for.
        sqlite3.Error: It cannot be opened.
    """
    open_it = partial(_connected, wait_s=wait_s, synchronous=synchronous, any_thread=any_thread)
    if (standby := standby_of(path)) is not None:
        if lasting:
            raise standby.why
        return open_it(standby.uri)
    address = path.absolute().as_uri()
    try:
        return open_it(f"{address}?mode=rw")
    except sqlite3.Error as error:
        found = _to_read(path, address, open_it) if is_of_environment(error) else None
        if found is None:
            raise
        found.why_read_only = error
        return found


def _connected(
    uri: str, *, wait_s: float, synchronous: Synchronous, any_thread: bool, alone: bool = False
) -> FileConnection:
    """A connection that has read the file once, so that what keeps it from that is known.

    `alone` keeps all others out for as long as it is open, and needs no shared memory for that.
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


def _to_read(path: Path, address: str, open_it: Callable[..., FileConnection]) -> FileConnection | None:
    """A connection for reading to a file beside which SQLite can make nothing; `None` where that fails, too.

    Where no log of changes is left, the file itself has all, and nobody changes it while none can be made.
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
