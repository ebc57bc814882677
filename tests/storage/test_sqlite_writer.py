"""Lines that are written often to an SQLite file: also where the file system allows no write-ahead log."""

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from tests.catalog.databases import new_catalog

from maitred.storage.database import DriverConnection
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

RAISE = "UPDATE state SET generation = generation + 1"


def raise_it(connection: DriverConnection) -> None:
    connection.execute(RAISE)


async def test_a_line_waits_for_a_reader_where_readers_stop_writers(tmp_path: Path) -> None:
    """Without a write-ahead log, as on some network disks, a reader stops the end of a transaction only."""
    path = new_catalog(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        assert reader.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        writer = SqliteDatabase(path).quick_writer()
        await writer.write(raise_it, rows=1)
        reader.execute("BEGIN")
        assert reader.execute("SELECT generation FROM state").fetchone() == (1,)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: writer.write(raise_it, rows=1))
            await anyio.wait_all_tasks_blocked()
            reader.execute("COMMIT")
        await writer.write(raise_it, rows=1)
        await writer.close()
        assert reader.execute("SELECT generation FROM state").fetchone() == (3,)
