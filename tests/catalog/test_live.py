"""The snapshot that a process serves: who is told of a new one, and what other processes write to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.catalog.makers import Counter, found, open_store, raw, spec

from maitred.catalog.live import CheckedStore, LiveCatalog, Planner
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.sync import DiscoveredServer, failure, plan, removal
from maitred.errors import StoreError
from maitred.storage.leader import Fence

pytestmark = pytest.mark.anyio

SOON_S = 120.0


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[LiveCatalog]:
    """The catalog as one process has it."""
    async with open_store(path) as store:
        catalog = LiveCatalog(store)
        await catalog.refresh()
        yield catalog


def finds(discovery: DiscoveredServer) -> Planner:
    """A planner that brings in what was found."""

    async def planned(snapshot: Snapshot) -> Change:
        return await plan(snapshot, discovery, Counter())

    return planned


async def nothing(_: Snapshot) -> Change:
    return Change()


async def test_a_new_catalog_is_empty(tmp_path: Path) -> None:
    """Generation nought; whoever listens is told nothing when it is read again."""
    async with opened(tmp_path / "c.db") as catalog:
        heard: list[Snapshot] = []
        catalog.subscribe(heard.append)
        await catalog.refresh()

        assert (catalog.snapshot.generation, catalog.snapshot.tools) == (0, ())
        assert heard == []


async def test_every_listener_hears_of_each_new_snapshot(tmp_path: Path) -> None:
    """They get the snapshot that is served from then on."""
    async with opened(tmp_path / "c.db") as catalog:
        one: list[Snapshot] = []
        two: list[Snapshot] = []
        catalog.subscribe(one.append)
        catalog.subscribe(two.append)
        await catalog.change(finds(found("s", raw("s", "a"))))

        assert one == two == [catalog.snapshot]
        assert list(catalog.snapshot.by_name) == ["s__a"]


async def test_listeners_are_not_told_of_what_nobody_can_notice(tmp_path: Path) -> None:
    """A failure is recorded and served, but no client has to list tools again because of it."""
    async with opened(tmp_path / "c.db") as catalog:
        await catalog.change(finds(found("s", raw("s", "a"))))
        heard: list[Snapshot] = []
        catalog.subscribe(heard.append)

        async def failed(snapshot: Snapshot) -> Change:
            return failure(snapshot, found("s").spec, "down")

        await catalog.change(failed)

        assert heard == []
        assert catalog.snapshot.servers["s"].error == "down"


async def test_an_empty_change_writes_nothing(tmp_path: Path) -> None:
    """The snapshot stays the very same object."""
    async with opened(tmp_path / "c.db") as catalog:
        before = catalog.snapshot
        assert not await catalog.change(nothing)

        assert catalog.snapshot is before


async def test_a_snapshot_that_someone_holds_does_not_change(tmp_path: Path) -> None:
    """An answer that is being put together sees one generation throughout."""
    async with opened(tmp_path / "c.db") as catalog:
        await catalog.change(finds(found("s", raw("s", "a"))))
        held = catalog.snapshot
        await catalog.change(finds(found("s", raw("s", "b"))))

        assert list(held.by_name) == ["s__a"]
        assert list(catalog.snapshot.by_name) == ["s__b"]


async def test_what_another_process_wrote_is_taken_over(tmp_path: Path) -> None:
    """A refresh reads it and tells the listeners; the next change is planned on it."""
    async with opened(tmp_path / "c.db") as mine, opened(tmp_path / "c.db") as other:
        heard: list[Snapshot] = []
        mine.subscribe(heard.append)
        await other.change(finds(found("a", raw("a", "t"))))
        assert mine.snapshot.tools == ()
        await mine.refresh()
        assert [list(snapshot.by_name) for snapshot in heard] == [["a__t"]]

        await other.change(finds(found("b", raw("b", "t"))))
        await mine.change(finds(found("c", raw("c", "t"))))

        assert list(mine.snapshot.by_name) == ["a__t", "b__t", "c__t"]
        assert [snapshot.generation for snapshot in heard] == [1, 2, 3]


async def test_a_change_is_planned_anew_when_another_process_wrote_in_between(tmp_path: Path) -> None:
    """Both servers publish `a__b__c`: planned on the old catalog, one name would have been given twice."""
    async with opened(tmp_path / "c.db") as mine, opened(tmp_path / "c.db") as other:
        plans: list[int] = []

        async def interrupted(snapshot: Snapshot) -> Change:
            change = await plan(snapshot, found("a__b", raw("a__b", "c")), Counter())
            if not plans:
                await other.change(finds(found("a", raw("a", "b__c"))))
            plans.append(snapshot.generation)
            return change

        await mine.change(interrupted)
        await other.refresh()

        assert plans == [0, 1]
        assert mine.snapshot.tools == other.snapshot.tools
        assert len(mine.snapshot.by_name) == 2
        assert "a__b__c" not in mine.snapshot.by_name


async def test_a_planner_that_fails_leaves_the_catalog_usable(tmp_path: Path) -> None:
    """Its error reaches the caller, and the next change goes through."""
    async with opened(tmp_path / "c.db") as catalog:

        async def fails(_: Snapshot) -> Change:
            raise LookupError("no plan")

        with pytest.raises(LookupError):
            await catalog.change(fails)
        with anyio.fail_after(SOON_S):
            await catalog.change(finds(found("s", raw("s", "a"))))

        assert list(catalog.snapshot.by_name) == ["s__a"]


async def test_two_processes_that_write_at_once_lose_nothing_and_share_no_name(tmp_path: Path) -> None:
    """Every server of both is there at the end, and in no generation did two tools have one name."""
    async with opened(tmp_path / "c.db") as mine, opened(tmp_path / "c.db") as other:
        seen: list[Snapshot] = []
        mine.subscribe(seen.append)
        other.subscribe(seen.append)

        async def write(catalog: LiveCatalog, servers: list[str], tool: str) -> None:
            for server in servers:
                await catalog.change(finds(found(server, raw(server, f"{tool}{server[1]}"))))

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write, mine, [f"s{n}" for n in range(8)], "x__y")
                tasks.start_soon(write, other, [f"s{n}__x" for n in range(8)], "y")
        await mine.refresh()
        await other.refresh()

        assert mine.snapshot.tools == other.snapshot.tools
        assert mine.snapshot.servers == other.snapshot.servers
        assert len(mine.snapshot.servers) == len(mine.snapshot.tools) == 16
        assert all(len(snapshot.by_name) == len(snapshot.tools) for snapshot in seen)


class FullDisk:
    """A store that can be read, and written only while there is `room`."""

    def __init__(self, store: CheckedStore) -> None:
        self._store = store
        self.room = False

    @property
    def name(self) -> str:
        return "c.db"

    @property
    def faults(self) -> int:
        return 1

    async def check(self) -> str:
        return "" if self.room else "its disk is full"

    async def load(self) -> Snapshot:
        return await self._store.load()

    async def generation(self) -> int:
        return await self._store.generation()

    async def write(self, change: Change, *, planned_on: int, fence: Fence | None = None) -> int | None:
        if not self.room:
            raise StoreError("c.db", await self.check())
        return await self._store.write(change, planned_on=planned_on, fence=fence)


async def test_a_schema_stays_stored_while_a_change_that_frees_it_is_not(tmp_path: Path) -> None:
    """What cannot be written at a start is served, but the store still has the tools that it removes."""
    shared, other = ({"type": "object", "title": title} for title in ("shared", "other"))
    async with opened(tmp_path / "c.db") as first, open_store(tmp_path / "c.db") as store:
        await first.change(finds(found("a", raw("a", "t", input_schema=shared))))
        await first.change(finds(found("b", raw("b", "t", input_schema=shared))))
        disk = FullDisk(store)
        catalog = LiveCatalog(disk)
        await catalog.refresh()

        async def without_a(snapshot: Snapshot) -> Change:
            return removal(snapshot, {"b": spec("b")})

        with catalog.serving_unwritten():
            await catalog.change(without_a)
        disk.room = True
        await catalog.change(finds(found("b", raw("b", "t", input_schema=other))))
        stored = await store.load()

    kept = stored.by_name["a__t"]
    assert stored.schema(kept.input_hash) == shared


async def test_what_a_start_takes_over_is_served_though_it_cannot_be_written(tmp_path: Path) -> None:
    """It holds when another process wrote, and when there is room again; all else is refused meanwhile."""
    async with opened(tmp_path / "c.db") as other, open_store(tmp_path / "c.db") as store:
        await other.change(finds(found("s", raw("s", "a"))))
        disk = FullDisk(store)
        catalog = LiveCatalog(disk)
        await catalog.refresh()
        heard: list[int] = []
        catalog.subscribe(lambda snapshot: heard.append(snapshot.generation))

        with catalog.serving_unwritten():
            await catalog.change(finds(found("t", raw("t", "b"))))
        assert [tool.name for tool in catalog.snapshot.tools] == ["s__a", "t__b"]
        with pytest.raises(StoreError, match="its disk is full"):
            await catalog.change(finds(found("u", raw("u", "c"))))

        await other.change(finds(found("v", raw("v", "d"))))
        await catalog.refresh()
        assert [tool.name for tool in catalog.snapshot.tools] == ["s__a", "t__b", "v__d"]

        disk.room = True
        await catalog.change(finds(found("u", raw("u", "c"))))
        assert [tool.name for tool in catalog.snapshot.tools] == ["s__a", "t__b", "u__c", "v__d"]
        assert heard == sorted(set(heard))
        await other.refresh()
        assert list(other.snapshot.by_name) == ["s__a", "u__c", "v__d"]
