"""The interface of a database that stores use; `sqlite` and `postgres` implement it.

Stores take a `Database`, never a path. `read` and `write` give a function, which runs in a worker thread, a
SQLAlchemy connection. Importing SQLAlchemy takes longer than reading a large catalog. So a start and a single
call use `read_driver` and `write_driver`: the same transactions, with the driver's connection and constant
statements. A test compiles these statements from `maitred.storage.tables`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeVar

import anyio

from maitred.errors import StoreError
from maitred.storage.signals import Signals

if TYPE_CHECKING:  # the first statement that needs SQLAlchemy imports it
    from sqlalchemy import Connection

T = TypeVar("T")

HEAD: Final = "0022"
"""The newest migration. A database with it opens without Alembic, which is slow to import."""
REVISION: Final = "SELECT version_num FROM alembic_version"


Lane = Literal["alone", "together", "barrier"]
"""Beside which other processes a transaction writes; see `WriteOptions`."""


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How a transaction writes.

    Attributes:
        wait_s: How many seconds it waits for other writers.
        durable: Whether the result also survives a loss of power, and not only the end of this process.
        lasting: Whether it is refused while the catalog is only in memory, where the result would be lost.
        lane: `alone`: one such transaction after the other. `together`: beside all others, for rows that only
            this process writes. `barrier`: alone, and none of `together` at the same time. SQLite knows only
            one writer, so there all are alone.
    """

    wait_s: float = 10.0
    durable: bool = False
    lasting: bool = False
    lane: Lane = "alone"


DEFAULT: Final = WriteOptions()


class DriverRows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row; `None` after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class DriverConnection(Protocol):
    """A connection of the driver. Statements have `?` for each value, for both engines."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> DriverRows:
        """Run one statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> DriverRows:
        """Run one statement for each row of values."""
        ...


class QuickWriter(Protocol):
    """Writes small things often, such as a line of the audit trail before each answer; one at a time."""

    async def write(
        self, function: Callable[[DriverConnection], T], *, rows: int, is_small: bool = True
    ) -> T:
        """Write as `Database.write_driver` does, but never into memory; on the event loop if that is quicker.

        Args:
            function: Writes the rows. If it fails, nothing of it is written, and it may be called again.
            rows: About how many rows it writes.
            is_small: False for a function that may take long.
        """
        ...

    async def close(self) -> None:
        """Close the connection; the next write opens one."""
        ...


class Database(ABC):
    """A database with the tables of a catalog. The constructor opens nothing; `async with` does.

    One event loop may call the methods. Each waits for its thread even if its task is cancelled, so a
    transaction is written as a whole or not at all. Methods raise `StoreError` if the database cannot be read
    or written.
    """

    name: str
    """Its place, as errors show it: a path, or an address without its password."""
    faults: int
    """How often a write was found to be impossible."""
    signals: Signals
    """News of other processes, as far as `watch` hears of them."""
    writes_together: bool = False
    """Whether several processes may write at the same time, in the lane `together`."""

    @abstractmethod
    async def read(self, function: "Callable[[Connection], T]") -> T:
        """Run a function in one reading transaction: it sees one state of the database."""

    @abstractmethod
    async def write(self, function: "Callable[[Connection], T]", options: WriteOptions = DEFAULT) -> T:
        """Run a function in one writing transaction; no other process writes at the same time.

        If the function raises an error, its changes are undone.
        """

    @abstractmethod
    async def read_driver(self, function: Callable[[DriverConnection], T]) -> T:
        """Run a function as `read` does, with the connection of the driver."""

    @abstractmethod
    async def write_driver(
        self, function: Callable[[DriverConnection], T], options: WriteOptions = DEFAULT
    ) -> T:
        """Run a function as `write` does, with the connection of the driver."""

    @abstractmethod
    def quick_writer(self) -> QuickWriter:
        """Return a writer for small things that are written often."""

    @abstractmethod
    async def open(self, *, allows_memory: bool = False) -> None:
        """Make missing tables. With `allows_memory`, a file that cannot be made is replaced by memory.

        Raises:
            ConfigError: The database has other content than the tables of this version.
            StoreError: It cannot be opened now.
        """

    @abstractmethod
    async def ensure(self) -> None:
        """Make the tables of an open database if another process removed them.

        Raises:
            StoreError: They cannot be made; the reason is also why reading failed before.
        """

    @abstractmethod
    async def close(self) -> None:
        """End one `open`; every `open` needs one `close`."""

    @abstractmethod
    async def check(self) -> str:
        """Try to write, without a change, and return why that cannot be done; empty if it can."""

    @abstractmethod
    def note_fault(self, error: StoreError) -> None:
        """Count a failed write in `faults` if a later write may succeed."""

    locks_jobs: bool = False
    """Whether `lock_job` locks. Otherwise a lease in the table of fencing numbers has to do."""

    async def lock_job(self, name: str) -> int:
        """Lock a job until the connection of this process ends; the number of the lock, 0 for none."""
        return 1

    async def unlock_job(self, name: str, lock: int) -> None:
        """End the lock of this number, if it is there."""
        return

    async def watch(self) -> None:
        """Pass news of other processes on to `signals`; never returns. By default there are none."""
        await anyio.sleep_forever()

    async def is_replaced(self) -> bool:
        """Return whether a file of another process replaced the database in memory; true only once."""
        return False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def placeholders(count: int) -> str:
    """Return the part of a statement for a list of so many values."""
    return ", ".join("?" * count)
