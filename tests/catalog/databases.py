"""Catalog files for tests: migrated once, then copied."""

import shutil
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import sqlalchemy as sa

from maitred.storage.migrate import migrate


@cache
def _template() -> Path:
    path = Path(mkdtemp()) / "c.db"
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        migrate(connection, None)
    engine.dispose()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
    return path


def new_catalog(folder: Path) -> Path:
    """A catalog with its tables and nothing in them."""
    return Path(shutil.copy(_template(), folder / "c.db"))


def key_beside(path: Path) -> Path:
    """Where the key of logins is, as `maitred` has it."""
    return path.with_name(f"{path.name}.key")


def execute(path: Path, statement: str, *values: Any) -> list[Any]:
    """Do something behind everybody's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()
