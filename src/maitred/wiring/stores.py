"""Where the catalog is kept."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from sqlalchemy import Connection

    from maitred.catalog.sqlite import SqliteStore
    from maitred.catalog.store import SqlStore


def open_store(path: Path, *, stands_by: bool = False) -> "SqliteStore":
    """The catalog's store, which loads SQLAlchemy only to write and Alembic only to migrate.

    With `stands_by` it is in memory as long as there is no file, and none can be made.
    """
    from maitred.catalog.sqlite import SqliteStore

    def full(place: str) -> "SqlStore":
        from maitred.catalog.store import SqlStore

        return SqlStore(place, migrate=_migrate)

    return SqliteStore(path, full, stands_by=stands_by)


def _migrate(connection: "Connection", revision: str | None) -> None:
    from maitred.catalog.migrate import migrate

    migrate(connection, revision)
