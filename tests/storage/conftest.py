"""Both engines, each with the tables of a new catalog."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.catalog.databases import new_catalog

from maitred.storage.database import Database
from maitred.storage.sqlite import SqliteDatabase


def new_database(request: pytest.FixtureRequest, engine: str, folder: Path) -> Database:
    """A database that nobody has opened; that of SQLite has its tables already."""
    if engine == "sqlite":
        return SqliteDatabase(new_catalog(folder))
    url = request.getfixturevalue("postgres").new_database()
    from maitred.storage.postgres import PostgresDatabase  # noqa: PLC0415  # of an extra

    return PostgresDatabase(url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def database(request: pytest.FixtureRequest, engine: str, tmp_path: Path) -> AsyncIterator[Database]:
    """An open database."""
    async with new_database(request, engine, tmp_path) as database:
        yield database


@pytest.fixture
def other(request: pytest.FixtureRequest, database: Database) -> Database:
    """What another process has of the same database."""
    if isinstance(database, SqliteDatabase):
        return SqliteDatabase(database.path)
    from maitred.storage.postgres import PostgresDatabase  # noqa: PLC0415  # of an extra

    assert isinstance(database, PostgresDatabase)
    return PostgresDatabase(database._url)
