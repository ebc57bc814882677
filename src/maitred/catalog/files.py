"""Opens the catalog's SQLite file with the standard library alone, and does things with it in a thread.

For what is needed at a start, or small: whatever needs the tables as SQLAlchemy knows them has the store.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import anyio

from maitred.errors import StoreError

T = TypeVar("T")

Synchronous = Literal["NORMAL", "FULL"]
"""`FULL` survives a loss of power, `NORMAL` whatever happens to this process. The file is always whole."""


def connect(
    path: Path, *, wait_s: float = 10.0, synchronous: Synchronous = "NORMAL", any_thread: bool = False
) -> sqlite3.Connection:
    """A connection to a file that is there; one that is not is not made. No transaction begins by itself.

    It waits `wait_s` for others who write. With `any_thread` another thread may use it, one at a time.

    Raises:
        sqlite3.Error: It cannot be opened.
    """
    where = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        where, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=not any_thread
    )
    connection.execute(f"PRAGMA synchronous={synchronous}")
    return connection


@contextmanager
def opened(
    path: Path, *, wait_s: float = 10.0, synchronous: Synchronous = "NORMAL"
) -> Iterator[sqlite3.Connection]:
    """A connection of one's own, as `connect` makes it; what is left open when it is closed is undone.

    Raises:
        StoreError: The file cannot be opened, or what is done with it fails in SQLite.
    """
    try:
        with closing(connect(path, wait_s=wait_s, synchronous=synchronous)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StoreError(str(path), str(error)) from error


async def within(
    path: Path,
    function: Callable[[sqlite3.Connection], T],
    *,
    wait_s: float = 10.0,
    synchronous: Synchronous = "NORMAL",
) -> T:
    """Do something with a connection of its own in a worker thread; see `opened`.

    The thread is waited for even if the task is cancelled: what was begun is written, or not.
    """

    def run() -> T:
        with opened(path, wait_s=wait_s, synchronous=synchronous) as connection:
            return function(connection)

    return await anyio.to_thread.run_sync(run)
