"""One seam to a database, and what every engine behind it does: SQLite in `sqlite`, PostgreSQL in `postgres`.

Stores take a `Database`, never a path. `read` and `write` hand a SQLAlchemy connection to a function that
runs in a worker thread. Importing SQLAlchemy takes longer than reading a large catalog. So what a start or a
single call needs goes through `read_driver` and `write_driver`: the same transactions, with the driver's
connection and constant statements, which a test compiles from `maitred.storage.tables`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from maitred.errors import StoreError

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import Connection

T = TypeVar("T")

HEAD: Final = "0005"
"""The newest migration. A database that has it is opened without loading Alembic, which is slow to import."""
REVISION: Final = "SELECT version_num FROM alembic_version"


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How a transaction writes.

    Attributes:
        wait_s: How long it waits for others who write.
        durable: Whether it also survives a loss of power; else it survives all that happens to this process.
        lasting: Whether it is refused while the catalog is in memory only, where it would be lost.
    """

    wait_s: float = 10.0
    durable: bool = False
    lasting: bool = False


DEFAULT: Final = WriteOptions()


class DriverRows(Protocol):
    """The rows that a statement gave."""

    @property
    def rowcount(self) -> int:
        """How many rows a statement changed."""
        ...

    def fetchone(self) -> Any:
        """The next row; `None` after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class DriverConnection(Protocol):
    """A connection of the driver. Statements have `?` for each value, on both engines."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> DriverRows:
        """Run one statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> DriverRows:
        """Run one statement for each row of values."""
        ...


class QuickWriter(Protocol):
    """Writes what is small and often, as a line of the audit trail before each answer; one at a time."""

    async def write(
        self, function: Callable[[DriverConnection], T], *, rows: int, is_small: bool = True
    ) -> T:
        """As `Database.write_driver`, but never into memory only; on the event loop where that is quicker.

        Args:
            function: What writes; it is called again where it failed, since nothing of it was written then.
            rows: About how many rows it writes.
            is_small: False for what may take long.
        """
        ...

    async def close(self) -> None:
        """Close what it has open; the next write opens it."""
        ...


class Database(ABC):
    """A database with the tables of a catalog. Making it opens nothing; `async with` looks after `open`.

    Methods may be called from one event loop. Each waits for its thread also where its task is cancelled:
    what was begun is written, or not. They raise `StoreError` where the database cannot be read or written.
    """

    name: str
    """Where it is, as errors name it; it holds no secret."""
    faults: int
    """How often it was found that nothing can be written."""

    @abstractmethod
    async def read(self, function: "Callable[[Connection], T]") -> T:
        """Run a function in one reading transaction: it sees the database as it is at one moment."""

    @abstractmethod
    async def write(self, function: "Callable[[Connection], T]", options: WriteOptions = DEFAULT) -> T:
        """Run a function in one writing transaction, beside which nobody else writes.

        What it did is undone where it raises an error.
        """

    @abstractmethod
    async def read_driver(self, function: Callable[[DriverConnection], T]) -> T:
        """As `read`, with the connection of the driver."""

    @abstractmethod
    async def write_driver(
        self, function: Callable[[DriverConnection], T], options: WriteOptions = DEFAULT
    ) -> T:
        """As `write`, with the connection of the driver."""

    @abstractmethod
    def quick_writer(self) -> QuickWriter:
        """What writes small things often."""

    @abstractmethod
    async def open(self, *, stands_by: bool = False) -> None:
        """Make the tables where there are none. With `stands_by` they are in memory if they cannot be made.

        Raises:
            ConfigError: There is something else than the tables of this version.
            StoreError: It cannot be opened now.
        """

    @abstractmethod
    async def ensure(self) -> None:
        """Bring what is open to the present tables where another process left it without.

        Raises:
            StoreError: That cannot be; the reason is that for which reading failed before.
        """

    @abstractmethod
    async def close(self) -> None:
        """End what `open` began; as often as that."""

    @abstractmethod
    async def check(self) -> str:
        """Why nothing can be written now, found out by trying; empty if something can be."""

    @abstractmethod
    def note_fault(self, error: StoreError) -> None:
        """Count a failed write in `faults` where it may be over later."""

    async def is_replaced(self) -> bool:
        """Whether another database took the place of the one in memory, once after it happened."""
        return False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def placeholders(count: int) -> str:
    """The part of a statement for a list of so many values."""
    return ", ".join("?" * count)
