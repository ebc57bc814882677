"""Where the catalog is kept: one database for all stores of this process."""

from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from maitred.config.load import catalog_path
from maitred.config.settings import Settings

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.catalog.store import CatalogStore
    from maitred.storage.database import Database

_DATABASES: "Final[WeakValueDictionary[str, Database]]" = WeakValueDictionary()
"""The databases that stores have now: what one of them finds out about a disk, all of them know."""


def database_of(settings: Settings) -> "Database":
    """The database of a configuration; nothing is opened."""
    from maitred.storage.sqlite import SqliteDatabase

    path = str(catalog_path(settings).absolute())
    if (database := _DATABASES.get(path)) is None:
        database = _DATABASES[path] = SqliteDatabase(Path(path))
    return database


def open_store(settings: Settings, *, stands_by: bool = False) -> "CatalogStore":
    """The catalog's store, which loads SQLAlchemy only to write and Alembic only to migrate.

    With `stands_by` it is in memory as long as there is no file, and none can be made.
    """
    from maitred.catalog.store import CatalogStore

    return CatalogStore(database_of(settings), stands_by=stands_by)


def key_path(settings: Settings) -> Path:
    """The file of the key that encrypts logins, where the operator gives none."""
    path = catalog_path(settings)
    return path.with_name(f"{path.name}.key")
