"""Helpers that need SQLAlchemy; the first statement that is built from tables imports them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from maitred.storage.database import WriteOptions

T = TypeVar("T")

_CHUNK: Final = 500
_WRITES: Final = "writes"


def sqlite_engine(connect: Callable[[], Any]) -> sa.Engine:
    """Make an engine that opens a connection for each transaction, and closes it afterwards."""
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool)
    sa.event.listen(engine, "connect", _keep_references)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _keep_references(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: sa.Connection) -> None:
    """Take the write lock at once if the transaction writes, so that two writers cannot block each other."""
    writes = connection.get_execution_options().get(_WRITES) is not None
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def postgres_engine(connection: Any) -> sa.Engine:
    """Make an engine over one connection of the driver; the caller begins each transaction itself."""
    engine = sa.create_engine(
        "postgresql+psycopg://",
        creator=lambda: connection,
        poolclass=sa.pool.StaticPool,
        use_native_hstore=False,
    )
    with engine.connect():  # it asks the server for its version, in a transaction of its own
        return engine


def run(engine: sa.Engine, function: Callable[[sa.Connection], T], writes: WriteOptions | None) -> T:
    """Run a function in one transaction, which writes if `writes` is given."""
    with engine.connect() as connection:
        connection.execution_options(**{_WRITES: writes})
        with connection.begin():
            return function(connection)


def driver_error(error: sa.exc.SQLAlchemyError) -> Exception:
    """Return the error of the driver behind an error of SQLAlchemy, if there is one."""
    cause = getattr(error, "orig", None)
    return cause if isinstance(cause, Exception) else error


def revision(connection: sa.Connection) -> str | None:
    """Return the migration of a database; `None` if it has no tables of maitred."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    row = connection.execute(sa.text("SELECT version_num FROM alembic_version")).first()
    return str(row[0]) if row else None


def put(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], key: Sequence[str] = ()
) -> None:
    """Insert rows, or replace rows with the same key. Default of `key`: the primary key."""
    key = key or [column.name for column in table.primary_key]
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(table)
    fresh = {column.name: statement.excluded[column.name] for column in table.c if column.name not in key}
    statement = (
        statement.on_conflict_do_update(index_elements=list(key), set_=fresh)
        if fresh
        else statement.on_conflict_do_nothing(index_elements=list(key))
    )
    for start in range(0, len(rows), _CHUNK):
        connection.execute(statement, [dict(row) for row in rows[start : start + _CHUNK]])


def keep_first(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> None:
    """Insert a row unless a row with its key exists."""
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(make(table).values(**row).on_conflict_do_nothing())
