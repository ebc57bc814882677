"""Persistence of the catalog: SQLAlchemy Core over SQLite, opened, migrated, read whole and written in parts.

Reads of single tools never come here; a process loads one `Snapshot` and serves from it. Every write runs in
one transaction and raises the generation only when something changed that a reader could notice.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from maitred.catalog import rows
from maitred.catalog.snapshot import Change, Snapshot
from maitred.config.paths import make_folder
from maitred.errors import ConfigError, StoreError
from maitred.model.resources import Offer
from maitred.model.servers import ServerRecord
from maitred.model.tools import Mediation, Tool, ToolKey
from maitred.model.usage import ToolStanding
from maitred.storage.diagnosis import HOLDS, may_pass, store_error
from maitred.storage.tables import offers, schemas, servers, standings, state, tools

log = structlog.get_logger(__name__)

_CHUNK = 500
_OTHERS = 0o077
_ADDRESS = "file:"
_IN_MEMORY = (_ADDRESS, ":memory:")


Migrate = Callable[[sa.Connection, str | None], None]
"""Brings a database from a revision (`None`: empty) to the present tables, inside the open transaction."""


class SqlStore:
    """A store in an SQL database; `path` is an SQLite file, the address of one in memory, or `:memory:`.

    `migrate` is called only when the database is behind; see `maitred.storage.migrate`.
    """

    def __init__(self, path: str, *, migrate: Migrate) -> None:
        self._path = path
        self._run_migrations = migrate
        self._engine: AsyncEngine | None = None

    async def __aenter__(self) -> Self:
        if not self._path.startswith(_IN_MEMORY):
            await anyio.to_thread.run_sync(_make_place, Path(self._path))
        address = f"{self._path}&uri=true" if self._path.startswith(_ADDRESS) else self._path
        engine = create_async_engine(f"sqlite+aiosqlite:///{address}", connect_args={"timeout": 10})
        sa.event.listen(engine.sync_engine, "connect", _prepare)
        sa.event.listen(engine.sync_engine, "begin", _begin)
        self._engine = engine
        try:
            with anyio.CancelScope(shield=True):  # see `_explained`
                async with engine.connect() as connection:
                    revision = await connection.run_sync(_revision)
                if revision != rows.HEAD:
                    await self._migrate()
        except sa.exc.DatabaseError as error:
            with anyio.CancelScope(shield=True):
                await engine.dispose()
                raise await self._not_opened(error) from error
        except BaseException:
            await engine.dispose()
            raise
        return self

    async def _not_opened(self, error: sa.exc.DatabaseError) -> ConfigError | StoreError:
        """Why it cannot be opened: what can pass is another error than what has to be mended."""
        cause = _cause(error)
        found = await anyio.to_thread.run_sync(store_error, Path(self._path), cause)
        if may_pass(cause):
            return found
        advice = found.advice or f"If maitred made it, it holds {HOLDS}: copy it before anything else."
        return ConfigError(self._path, [f"the catalog cannot be opened: {found.reason}. {advice}"])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            with anyio.CancelScope(shield=True):  # a connection cut off in the middle is not closed at all
                await self._engine.dispose()

    async def _migrate(self) -> None:
        """Migrate in one write transaction; a process that came first may have done it already."""
        async with self._writing() as connection:
            revision = await connection.run_sync(_revision)
            if revision != rows.HEAD:
                log.debug("migrating the catalog", path=self._path, revision=revision, to=rows.HEAD)
                await connection.run_sync(self._run_migrations, revision)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        async with self._db.connect() as connection:
            await connection.execution_options(writes=True)
            async with connection.begin():
                yield connection

    @property
    def _db(self) -> AsyncEngine:
        if self._engine is None:
            raise RuntimeError("the store is not open")
        return self._engine

    @asynccontextmanager
    async def _explained(self) -> AsyncIterator[None]:
        """Turn what the database raises into what a user can read; end what was begun.

        Where a task is cancelled in the middle, the driver closes its connection twice, and the second time
        never comes to an end: the whole program would not.
        """
        with anyio.CancelScope(shield=True):
            try:
                yield
            except sa.exc.SQLAlchemyError as error:
                path = Path(self._path)
                raise await anyio.to_thread.run_sync(store_error, path, _cause(error)) from error

    async def generation(self) -> int:
        """The present generation."""
        async with self._explained(), self._db.connect() as connection:
            return await _generation(connection)

    async def load(self) -> Snapshot:
        """Read everything in one transaction."""
        async with self._explained():
            return await self._load()

    async def _load(self) -> Snapshot:
        async with self._db.connect() as connection, connection.begin():
            generation = await _generation(connection)
            [(placed_by, tiers_at, mended_by)] = await _all(connection, state, rows.STATE_COLUMNS)
            server_rows = await _all(connection, servers, rows.SERVER_COLUMNS)
            tool_rows = await _all(connection, tools, rows.TOOL_COLUMNS, order="name")
            schema_rows = await _all(connection, schemas, rows.SCHEMA_COLUMNS)
            offer_rows = await _all(connection, offers, rows.OFFER_COLUMNS, order="name")
            standing_rows = await _all(connection, standings, rows.STANDING_COLUMNS)
        return Snapshot(
            generation=generation,
            servers={row[0]: rows.record(row) for row in server_rows},
            tools=tuple(map(rows.tool, tool_rows)),
            schemas={digest: bytes(body) for digest, body in schema_rows},
            offers=tuple(map(rows.offer, offer_rows)),
            standings=dict(map(rows.standing, standing_rows)),
            placed_by=placed_by,
            tiers_at=tiers_at,
            mended_by=mended_by,
        )

    async def write(self, change: Change, *, planned_on: int) -> int | None:
        """Apply a change in one transaction; see `maitred.catalog.live.Store`."""
        raised = sa.update(state).where(state.c.id == 1).values(generation=state.c.generation + 1)
        async with self._explained(), self._writing() as connection:
            if await _generation(connection) != planned_on:
                return None
            if change:
                await self._apply(connection, change)
                if change.visible:
                    await connection.execute(raised)
            return await _generation(connection)

    async def _apply(self, connection: AsyncConnection, change: Change) -> None:
        await _delete(connection, tools, change.removed_tools)
        for name in change.removed_servers:
            await connection.execute(sa.delete(tools).where(tools.c.server == name))
            await connection.execute(sa.delete(servers).where(servers.c.name == name))
        for record in change.servers:
            await _put(connection, servers, [_server_row(record)], ["name"])
        await _put(
            connection,
            schemas,
            [{"hash": digest, "body": body} for digest, body in change.schemas.items()],
            ["hash"],
        )
        await _put(connection, tools, [_tool_row(tool) for tool in change.tools], ["server", "raw_name"])
        if change.removed_tools or change.removed_servers or change.tools:
            hashes = (tools.c.input_hash, tools.c.output_hash, tools.c.raw_input_hash)
            used = sa.union(*(sa.select(column) for column in hashes))
            await connection.execute(sa.delete(schemas).where(schemas.c.hash.not_in(used)))
        await self._apply_whole(connection, change)

    @staticmethod
    async def _apply_whole(connection: AsyncConnection, change: Change) -> None:
        """What a change replaces as a whole: offers, standings, and the marks of the state."""
        if change.offers is not None:
            await connection.execute(sa.delete(offers))
            fresh = [asdict(offer.key) | _offer_row(offer) for offer in change.offers]
            await _put(connection, offers, fresh, ["server", "kind", "key"])
        if change.standings is not None:
            await connection.execute(sa.delete(standings))
            fresh = [_standing_row(key, standing) for key, standing in change.standings.items()]
            await _put(connection, standings, fresh, ["server", "raw_name"])
        marks = {name: getattr(change, name) for name in rows.STATE_COLUMNS}
        if marks := {name: mark for name, mark in marks.items() if mark}:
            await connection.execute(sa.update(state).where(state.c.id == 1).values(**marks))


def _make_place(path: Path) -> None:
    """Make the folder, and the file for its owner alone: there are tokens and an audit trail in it."""
    try:
        make_folder(path.parent)
    except (NotADirectoryError, FileExistsError) as error:
        fault = f"the folder of the catalog cannot be made ({error.strerror}); set `catalog.path` to another"
        raise ConfigError(str(path.parent), [fault]) from error
    except OSError as error:
        raise store_error(path, error) from error
    with suppress(OSError):  # why it cannot be made or changed is found when it is opened
        if not path.exists():  # to close one that is in use would give up the locks of this process
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        for one in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
            if one.exists() and one.stat().st_mode & _OTHERS:
                one.chmod(one.stat().st_mode & ~_OTHERS & 0o7777)


def _cause(error: sa.exc.SQLAlchemyError) -> Exception:
    """What the driver raised, if it was that."""
    cause = getattr(error, "orig", None)
    return cause if isinstance(cause, Exception) else error


def _prepare(connection: Any, _: Any) -> None:
    """Set up a new SQLite connection: readers beside one writer, transactions begun by us, not the driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    """Take the write lock at once where a write will follow, so that no two writers wait for each other."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    row = connection.execute(sa.text("SELECT version_num FROM alembic_version")).first()
    return str(row[0]) if row else None


async def _generation(connection: AsyncConnection) -> int:
    return int((await connection.execute(sa.select(state.c.generation))).scalar_one())


def _select(table: sa.Table, columns: Sequence[str]) -> sa.Select[Any]:
    """The columns of a table, JSON as the text that is stored."""
    kinds = {name: sa.Text() for name in columns if isinstance(table.c[name].type, sa.JSON)}
    return sa.select(*(sa.type_coerce(table.c[n], kinds.get(n, table.c[n].type)) for n in columns))


async def _all(
    connection: AsyncConnection, table: sa.Table, columns: Sequence[str], order: str = ""
) -> Sequence[Any]:
    query = _select(table, columns)
    found = await connection.execute(query.order_by(table.c[order]) if order else query)
    return list(found.all())


async def _put(
    connection: AsyncConnection, table: sa.Table, rows: Sequence[dict[str, Any]], key: Sequence[str]
) -> None:
    """Insert rows, or replace those with the same key."""
    statement = insert(table)
    fresh = {column.name: statement.excluded[column.name] for column in table.c if column.name not in key}
    statement = statement.on_conflict_do_update(index_elements=list(key), set_=fresh)
    for start in range(0, len(rows), _CHUNK):
        await connection.execute(statement, list(rows[start : start + _CHUNK]))


async def _delete(connection: AsyncConnection, table: sa.Table, keys: Iterable[ToolKey]) -> None:
    for key in keys:
        where = (table.c.server == key.server) & (table.c.raw_name == key.name)
        await connection.execute(sa.delete(table).where(where))


def _server_row(record: ServerRecord) -> dict[str, Any]:
    row = asdict(record)
    return row | {"notes": list(record.notes)}


def _tool_row(tool: Tool) -> dict[str, Any]:
    return {
        "server": tool.key.server,
        "raw_name": tool.key.name,
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "annotations": dict(tool.annotations),
        "extra": dict(tool.extra),
        "input_hash": tool.input_hash,
        "output_hash": tool.output_hash,
        "cost_tokens": tool.cost_tokens,
        "category": tool.placement.category,
        "confidence": tool.placement.confidence,
        "placed_by": tool.placement.by,
        "tags": list(tool.placement.tags),
        "use_cases": list(tool.use_cases),
        "use_cases_by": tool.use_cases_by,
        "mending": _mending(tool.mending) if tool.mending else {},
        "raw_input_hash": tool.mending.input_hash if tool.mending else "",
        "withheld": tool.withheld,
    }


def _mending(mending: Mediation) -> dict[str, Any]:
    """What was done to a tool, but for the hash, which has a column of its own."""
    return {name: value for name, value in asdict(mending).items() if name != "input_hash" and value}


def _offer_row(offer: Offer) -> dict[str, Any]:
    return {"name": offer.name, "definition": dict(offer.definition), "withheld": offer.withheld}


def _standing_row(key: ToolKey, standing: ToolStanding) -> dict[str, Any]:
    return {
        "server": key.server,
        "raw_name": key.name,
        "score": standing.score,
        "level": standing.level,
        "usage": asdict(standing.usage),
    }
