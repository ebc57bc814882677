"""Writes small things to an SQLite file through one connection that stays open.

Writing a row takes a fraction of the time that a change of threads takes. So the writer writes rows on the
event loop while no other process writes and the disk is quick. Otherwise a thread writes. Moving the
write-ahead log into the file waits for the disk: a thread does it, every few hundred rows.
"""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from maitred.storage.database import DriverConnection
from maitred.storage.diagnosis import store_error
from maitred.storage.sqlite_file import connect, standby_of
from maitred.storage.threads import DatabaseThreads

T = TypeVar("T")

_BUSY_S: Final = 10.0
_QUICK_S: Final = 0.005
_PATIENCE_S: Final = 5.0
_BETWEEN_CHECKPOINTS: Final = 200
_MOST_AT_ONCE: Final = 50
_BUSY_CODE: Final = 0xFF


class SqliteWriter:
    """Writes to the SQLite file `path`, one caller at a time."""

    def __init__(self, path: Path, threads: DatabaseThreads) -> None:
        self._path = path
        self._threads = threads
        self._writer: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._slow_until = 0.0
        self._rows = 0

    async def write(
        self, function: Callable[[DriverConnection], T], *, rows: int, is_small: bool = True
    ) -> T:
        """See `maitred.storage.database.QuickWriter`."""
        self._rows += rows
        if is_small and rows <= _MOST_AT_ONCE and self._is_quick() and (done := self._write_here(function)):
            return done[0]
        return await self._threads.write(self._write, function)

    async def close(self) -> None:
        """See `maitred.storage.database.QuickWriter`."""
        await self._threads.write(self._close)

    def _is_quick(self) -> bool:
        is_due = self._rows >= _BETWEEN_CHECKPOINTS
        return self._writer is not None and not is_due and time.monotonic() >= self._slow_until

    def _write_here(self, function: Callable[[DriverConnection], T]) -> tuple[T] | None:
        """Write on the event loop and return the result; `None` if a thread has to try."""
        started = time.monotonic()
        try:
            connection = self._open()
            connection.execute("PRAGMA busy_timeout=0")
            done = _transaction(connection, function)
        except (sqlite3.Error, OSError) as error:
            if not _is_busy(error):
                self._close()  # which ends the transaction
            elif self._writer is not None and self._writer.in_transaction:
                self._writer.rollback()  # without a write-ahead log, a reader stops the end of it
            return None
        except BaseException:
            self._close()
            raise
        if time.monotonic() - started > _QUICK_S:
            self._slow_until = time.monotonic() + _PATIENCE_S
        return (done,)

    def _write(self, function: Callable[[DriverConnection], T]) -> T:
        """Write in this thread, and wait for other writers."""
        try:
            connection = self._open()
            connection.execute(f"PRAGMA busy_timeout={_BUSY_S * 1_000:.0f}")
            done = _transaction(connection, function)
            if self._rows >= _BETWEEN_CHECKPOINTS:
                self._rows = 0
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
        except BaseException as error:
            self._close()  # which ends the transaction
            if isinstance(error, sqlite3.Error | OSError):
                raise store_error(self._path, error) from error
            raise
        return done

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _open(self) -> sqlite3.Connection:
        """Return the open connection, or a new one if the path has another file by now.

        Closing the last connection to a file writes all of it to the disk: too slow for every row.
        """
        if (standby := standby_of(self._path)) is not None:
            raise standby.why
        there = self._path.stat()
        file = (there.st_dev, there.st_ino)
        if self._writer is None or self._file != file:
            self._close()
            self._writer, self._file = connect(self._path, any_thread=True), file
            self._writer.execute("PRAGMA wal_autocheckpoint=0")
        return self._writer


def _transaction(connection: sqlite3.Connection, function: Callable[[DriverConnection], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    done = function(connection)
    connection.execute("COMMIT")
    return done


def _is_busy(error: Exception) -> bool:
    """Return whether another process writes, or reads a file that has no write-ahead log."""
    return getattr(error, "sqlite_errorcode", 0) & _BUSY_CODE == sqlite3.SQLITE_BUSY
