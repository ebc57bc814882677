"""A catalog in an SQLite file, read with the standard library alone.

Starting means reading, and SQLAlchemy takes longer to import than a large catalog to read. So the full store
is opened only when something is to be written or migrated, or when reading failed and the reason is wanted.
"""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import anyio

from maitred.catalog import rows
from maitred.catalog.files import connect
from maitred.catalog.live import Store
from maitred.catalog.snapshot import Change, Snapshot
from maitred.errors import ConfigError, StoreError

T = TypeVar("T")


class SqliteStore:
    """A store in the SQLite file `path`; `make` gives the full store on the same file."""

    def __init__(self, path: Path, make: Callable[[], AbstractAsyncContextManager[Store]]) -> None:
        self._path = path
        self._make = make
        self._stack = AsyncExitStack()
        self._opened: Store | None = None
        self._running = False

    async def __aenter__(self) -> Self:
        try:
            current = await self._read(_is_current)
        except sqlite3.Error:
            current = False
        if not current:
            await self._full()
        self._running = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def load(self) -> Snapshot:
        """Read everything in one transaction."""
        try:
            return await self._read(_load)
        except sqlite3.Error:
            return await (await self._full()).load()

    async def generation(self) -> int:
        """The present generation."""
        try:
            return await self._read(_generation)
        except sqlite3.Error:
            return await (await self._full()).generation()

    async def write(self, change: Change, *, planned_on: int) -> int | None:
        """Apply a change in one transaction; see `Store`."""
        return await (await self._full()).write(change, planned_on=planned_on)

    async def _full(self) -> Store:
        if self._opened is None:
            if self._running and not self._path.exists():  # else an empty one would take its place
                raise StoreError(str(self._path), "the file is gone")
            try:
                store = await anyio.to_thread.run_sync(self._make)
                self._opened = await self._stack.enter_async_context(store)
            except ConfigError as error:
                if not self._running:
                    raise
                raise StoreError(str(self._path), "; ".join(error.faults)) from error
        return self._opened

    async def _read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        def read() -> T:
            with closing(connect(self._path)) as connection:
                connection.execute("BEGIN")
                return function(connection)

        return await anyio.to_thread.run_sync(read)


def _is_current(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(rows.HEAD,)]


def _generation(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT generation FROM state").fetchone()[0])


def _load(connection: sqlite3.Connection) -> Snapshot:
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
