"""Where the catalog is kept."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from sqlalchemy import Connection

    from maitred.catalog.sqlite import SqliteStore
    from maitred.catalog.store import SqlStore


def open_store(path: Path) -> "SqliteStore":
    """The catalog's store, which loads SQLAlchemy only to write and Alembic only to migrate."""
    from maitred.catalog.sqlite import SqliteStore

    def full() -> "SqlStore":
        from maitred.catalog.store import SqlStore

        return SqlStore(str(path), migrate=_migrate)

    return SqliteStore(path, full)


def _migrate(connection: "Connection", revision: str | None) -> None:
    from maitred.catalog.migrate import migrate

    migrate(connection, revision)
