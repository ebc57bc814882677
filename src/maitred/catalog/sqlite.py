"""A catalog in an SQLite file, read with the standard library alone.

Starting means reading, and SQLAlchemy takes longer to import than a large catalog to read. So the full store
is opened only when something is to be written or migrated, or when reading failed and the reason is wanted.
A file that cannot be written is read all the same. Where there is none, and none can be made, the catalog is
in memory until one can.
"""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import anyio
import structlog

from maitred.catalog import rows
from maitred.catalog.live import Store
from maitred.catalog.snapshot import Change, Snapshot
from maitred.errors import ConfigError, StoreError
from maitred.storage.sqlite import FileConnection, Standby, is_nothing, within
from maitred.storage.diagnosis import may_pass, store_error

log = structlog.get_logger(__name__)

T = TypeVar("T")

_CHECK_S: Final = 2.0
_UNKNOWN: Final = -1


class SqliteStore:
    """A store in the SQLite file `path`.

    Args:
        path: The file.
        make: Gives the full store on a file, or on the address of one in memory.
        stands_by: Whether the catalog may be in memory as long as there is no file, and none can be made.
    """

    def __init__(
        self,
        path: Path,
        make: Callable[[str], AbstractAsyncContextManager[Store]],
        *,
        stands_by: bool = False,
    ) -> None:
        self._path = path
        self._make = make
        self._stands_by = stands_by
        self._standby: Standby | None = None
        self._stack = AsyncExitStack()
        self._opened: Store | None = None
        self._running = False
        self._replaced = False
        self._is_only_read = False
        self.faults = 0
        """How often it was found that nothing can be written."""

    async def __aenter__(self) -> Self:
        try:
            current = await self._read(_is_current)
        except StoreError:
            current = False
        if not current:
            await self._begin()
        self._running = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        if self._standby is not None:
            self._standby.close()

    async def _begin(self) -> None:
        """Make the file, or bring it to the present tables; where neither can be, begin without."""
        try:
            await self._full()
        except StoreError as error:
            if not self._stands_by or not await anyio.to_thread.run_sync(is_nothing, self._path):
                raise
            try:
                self._standby = Standby(self._path, error)
            except sqlite3.Error:  # an old SQLite
                raise error from None
            self.faults += 1
            log.warning("the catalog is kept in memory, since its file cannot be made", reason=error.reason)
            await self._full()

    async def load(self) -> Snapshot:
        """Read everything in one transaction."""
        try:
            return await self._read(_load)
        except StoreError:
            return await (await self._full()).load()

    async def generation(self) -> int:
        """The present generation; none that ever was when another file stands there than before."""
        if self._replaced:
            self._replaced = False
            return _UNKNOWN
        try:
            return await self._read(_generation)
        except StoreError:
            return await (await self._full()).generation()

    async def write(self, change: Change, *, planned_on: int) -> int | None:
        """Apply a change in one transaction; see `Store`."""
        try:
            return await (await self._full()).write(change, planned_on=planned_on)
        except StoreError as error:
            self.faults += may_pass(error)
            await self._close()  # a connection that could only read would never be able to write
            raise

    async def check(self) -> str:
        """Why nothing can be written now, found out by trying; empty if something can be."""
        try:
            if self._standby is None:
                await within(self._path, _touch, wait_s=_CHECK_S)
            else:
                await self._leave_memory(self._standby)
        except StoreError as error:
            self.faults += 1
            return error.reason
        return ""

    async def _leave_memory(self, standby: Standby) -> None:
        try:
            self._replaced = not await anyio.to_thread.run_sync(standby.move)
        except (OSError, sqlite3.Error) as error:
            raise await anyio.to_thread.run_sync(store_error, self._path, error) from error
        self._standby = None
        await self._close()

    async def _full(self) -> Store:
        if self._opened is None:
            if self._running and self._standby is None:
                await anyio.to_thread.run_sync(self._look_for_file)
            place = self._standby.uri if self._standby else str(self._path)
            try:
                store = await anyio.to_thread.run_sync(self._make, place)
                self._opened = await self._stack.enter_async_context(store)
            except ConfigError as error:
                if not self._running:
                    raise
                raise StoreError(str(self._path), "; ".join(error.faults)) from error
        return self._opened

    def _look_for_file(self) -> None:
        """Refuse to go on without it: an empty one would take its place."""
        try:
            if not self._path.exists():
                raise StoreError(str(self._path), "the file is gone")
        except OSError as error:
            raise store_error(self._path, error) from error

    async def _close(self) -> None:
        """Let go of the full store; the next write opens it anew."""
        stack, self._stack, self._opened = self._stack, AsyncExitStack(), None
        await stack.aclose()

    async def _read(self, function: Callable[[FileConnection], T]) -> T:
        def read(connection: FileConnection) -> tuple[T, sqlite3.Error | None]:
            connection.execute("BEGIN")
            return function(connection), connection.why_read_only

        found, why = await within(self._path, read)
        was_only_read, self._is_only_read = self._is_only_read, why is not None
        if why is not None and not was_only_read:
            self.faults += 1
            reason = (await anyio.to_thread.run_sync(store_error, self._path, why)).reason
            log.warning("the catalog cannot be written; what it holds is served", reason=reason)
        return found


def _touch(connection: FileConnection) -> None:
    """Write what changes nothing."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version={int(version)}")


def _is_current(connection: FileConnection) -> bool:
    return connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(rows.HEAD,)]


def _generation(connection: FileConnection) -> int:
    return int(connection.execute("SELECT generation FROM state").fetchone()[0])


def _load(connection: FileConnection) -> Snapshot:
    def all_of(table: str, columns: tuple[str, ...], order: str = "") -> sqlite3.Cursor:
        by = f" ORDER BY {order}" if order else ""
        return connection.execute(f"SELECT {', '.join(columns)} FROM {table}{by}")  # noqa: S608  # our own names

    placed_by, tiers_at, mended_by = all_of("state", rows.STATE_COLUMNS).fetchone()
    return Snapshot(
        generation=_generation(connection),
        servers={row[0]: rows.record(row) for row in all_of("servers", rows.SERVER_COLUMNS)},
        tools=tuple(map(rows.tool, all_of("tools", rows.TOOL_COLUMNS, "name"))),
        schemas=dict(all_of("schemas", rows.SCHEMA_COLUMNS)),
        offers=tuple(map(rows.offer, all_of("offers", rows.OFFER_COLUMNS, "name"))),
        standings=dict(map(rows.standing, all_of("standings", rows.STANDING_COLUMNS))),
        placed_by=placed_by,
        tiers_at=tiers_at,
        mended_by=mended_by,
    )
