"""Memories in the file of the catalog outlive the program, and a broken file is told as one."""

from pathlib import Path

import pytest
from tests.catalog.makers import open_store

from maitred.errors import StoreError
from maitred.mediation.memo import MemoEntry, MemoStore
from maitred.mediation.memo_store import SqlMemos
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

OLD, NEW = MemoEntry(answer=b"null", at=100.0), MemoEntry(answer=b'{"name":"caf\xc3\xa9"}', at=200.5)


async def catalog(folder: Path) -> Path:
    path = folder / "c.db"
    async with open_store(path) as store:
        await store.load()
    return path


async def test_what_was_kept_is_there_for_the_next_program(tmp_path: Path) -> None:
    """With its time, byte for byte; keys that were never kept are left out."""
    path = await catalog(tmp_path)
    store: MemoStore = SqlMemos(SqliteDatabase(path))
    await store.save({"a": OLD, "b": NEW})

    assert await SqlMemos(SqliteDatabase(path)).load({"a", "b", "c"}) == {"a": OLD, "b": NEW}
    assert await SqlMemos(SqliteDatabase(path)).load(()) == {}


async def test_a_newer_memory_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    """One memory a key."""
    store = SqlMemos(SqliteDatabase(await catalog(tmp_path)))
    await store.save({"a": OLD})
    await store.save({"a": NEW})

    assert await store.load({"a"}) == {"a": NEW}


async def test_what_is_too_old_is_dropped(tmp_path: Path) -> None:
    """What is as old as the limit stays."""
    store = SqlMemos(SqliteDatabase(await catalog(tmp_path)))
    await store.save({"a": OLD, "b": NEW})
    await store.prune(NEW.at)

    assert await store.load({"a", "b"}) == {"b": NEW}


async def test_thousands_of_keys_are_loaded_at_once(tmp_path: Path) -> None:
    """More than SQLite takes as parameters of one statement."""
    store = SqlMemos(SqliteDatabase(await catalog(tmp_path)))
    many = {f"key {number}": OLD for number in range(40_000)}
    await store.save(many)

    assert len(await store.load(many)) == len(many)


@pytest.mark.parametrize("content", [b"", b"no database " * 1_000])
async def test_a_file_that_cannot_be_used_is_a_fault_of_the_store(tmp_path: Path, content: bytes) -> None:
    """It is named, and no empty file is made in the place of a lost one."""
    path = tmp_path / "c.db"
    if content:
        path.write_bytes(content)
    store = SqlMemos(SqliteDatabase(path))

    with pytest.raises(StoreError, match=r"c\.db"):
        await store.load({"a"})
    with pytest.raises(StoreError):
        await store.save({"a": NEW})
    with pytest.raises(StoreError):
        await store.prune(0)
    assert path.exists() == bool(content)
