"""A catalog whose file is lost or damaged while it is served: what is in memory stays, the fault is told."""

from pathlib import Path

import pytest
from tests.catalog.makers import found, open_store, raw

from maitred.catalog.live import LiveCatalog
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.sync import plan
from maitred.errors import StoreError

pytestmark = pytest.mark.anyio


async def count(texts: object) -> list[int]:
    return [1 for _ in texts]  # type: ignore[attr-defined]


async def test_a_file_that_is_gone_is_not_replaced_by_an_empty_catalog(tmp_path: Path) -> None:
    """All tools would vanish from a running gateway otherwise."""
    path = tmp_path / "c.db"
    async with open_store(path) as store:
        await _fill(LiveCatalog(store))
    async with open_store(path) as store:
        catalog = LiveCatalog(store)
        await catalog.refresh()
        _spoil(tmp_path)

        with pytest.raises(StoreError, match="the file is gone"):
            await catalog.refresh()

        assert list(catalog.snapshot.by_name) == ["s__t"]
        assert not path.exists()


async def test_a_file_that_is_damaged_is_a_fault_of_the_store(tmp_path: Path) -> None:
    """Who serves from memory catches that one, and serves on."""
    path = tmp_path / "c.db"
    async with open_store(path) as store:
        await _fill(LiveCatalog(store))
    async with open_store(path) as store:
        catalog = LiveCatalog(store)
        await catalog.refresh()
        _spoil(tmp_path, b"no database " * 1_000)

        with pytest.raises(StoreError):
            await catalog.refresh()

        assert list(catalog.snapshot.by_name) == ["s__t"]


def _spoil(folder: Path, content: bytes = b"") -> None:
    """Overwrite every file, or take it away."""
    for file in folder.iterdir():
        if content:
            file.write_bytes(content)
        else:
            file.unlink()


async def _fill(catalog: LiveCatalog) -> None:
    async def planned(snapshot: Snapshot) -> Change:
        return await plan(snapshot, found("s", raw("s", "t")), count)

    await catalog.change(planned)
