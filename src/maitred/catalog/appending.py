"""Writes to the audit trail through one connection that stays open: at once if that is quick, or in a thread.

A line of a call is written before its answer leaves. What the file system takes for that is a fraction of
what going through a thread takes, so lines are appended on the event loop while nobody else is writing and
the disk is quick; anything else is left to a thread. Nothing but appending is ever done on the event loop:
moving the log into the file, which waits for the disk, is done by a thread every few hundred lines.
"""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio

from maitred.catalog import trail
from maitred.catalog.diagnosis import store_error
from maitred.catalog.files import connect, standby_of

T = TypeVar("T")

_BUSY_S: Final = 10.0
_QUICK_S: Final = 0.005
_PATIENCE_S: Final = 5.0
_BETWEEN_CHECKPOINTS: Final = 200
_MOST_AT_ONCE: Final = 50
_BUSY_CODE: Final = 0xFF


class Appender:
    """Writes to the SQLite file `path`, one caller at a time; `key` is that of the trail."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._path = path
        self._key = key
        self._writer: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._slow_until = 0.0
        self._appended = 0

    async def append(self, lines: Sequence[Mapping[str, Any]]) -> int:
        """Add lines at the end of the chain; the number of the first.

        Raises:
            StoreError: They cannot be written now.
        """
        self._appended += len(lines)
        if self._is_quick() and len(lines) <= _MOST_AT_ONCE:
            first = self._appended_at_once(lines)
            if first:
                return first
        return await self.run(lambda connection: self._append(connection, lines))

    def _is_quick(self) -> bool:
        is_due = self._appended >= _BETWEEN_CHECKPOINTS
        return self._writer is not None and not is_due and time.monotonic() >= self._slow_until

    def _appended_at_once(self, lines: Sequence[Mapping[str, Any]]) -> int:
        """The number of the first line; 0 where it is for a thread to write them, or to tell why not."""
        started = time.monotonic()
        try:
            connection = self._open()
            connection.execute("PRAGMA busy_timeout=0")
            first = trail.append(connection, lines, self._key)
        except (sqlite3.Error, OSError) as error:
            if not _is_busy(error):
                self.close()  # which ends what was begun; where others write, nothing was
            return 0
        if time.monotonic() - started > _QUICK_S:
            self._slow_until = time.monotonic() + _PATIENCE_S
        return first

    def _append(self, connection: sqlite3.Connection, lines: Sequence[Mapping[str, Any]]) -> int:
        first = trail.append(connection, lines, self._key)
        if self._appended >= _BETWEEN_CHECKPOINTS:
            self._appended = 0
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
        return first

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the connection in a thread, waiting for others who write.

        Raises:
            StoreError: It failed; nothing of it was written.
        """

        def done() -> T:
            try:
                connection = self._open()
                connection.execute(f"PRAGMA busy_timeout={_BUSY_S * 1_000:.0f}")
                return function(connection)
            except BaseException as error:
                self.close()  # which ends what was begun
                if isinstance(error, sqlite3.Error | OSError):
                    raise store_error(self._path, error) from error
                raise

        return await anyio.to_thread.run_sync(done)

    def close(self) -> None:
        """Close the connection; the next write opens another."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _open(self) -> sqlite3.Connection:
        """The open connection, made anew where another file stands at the path by now.

        The last connection to a file that is closed writes all of it to the disk: too slow for every line.
        """
        if (standby := standby_of(self._path)) is not None:
            raise standby.why
        there = self._path.stat()
        file = (there.st_dev, there.st_ino)
        if self._writer is None or self._file != file:
            self.close()
            self._writer, self._file = connect(self._path, any_thread=True), file
            self._writer.execute("PRAGMA wal_autocheckpoint=0")
        return self._writer


def _is_busy(error: Exception) -> bool:
    """Whether somebody else is writing, so that nothing was begun."""
    return getattr(error, "sqlite_errorcode", 0) & _BUSY_CODE == sqlite3.SQLITE_BUSY
