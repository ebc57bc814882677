"""Jobs that one process at a time does: on both engines, also where a process lost one without knowing."""

import math

import anyio
import pytest
from tests.support.waiting import eventually

from maitred.background import Background
from maitred.catalog.snapshot import Change
from maitred.catalog.store import CatalogStore
from maitred.errors import LostJobError
from maitred.storage.database import Database
from maitred.storage.leader import LEASE_S, Fence, Jobs
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class SeenJobs(Jobs):
    """Jobs that say once they have tried to take one."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.tried = anyio.Event()

    async def _take(self, name: str) -> Fence | None:
        taken = await super()._take(name)
        self.tried.set()
        return taken


async def test_only_one_process_does_a_job_and_the_next_gets_a_higher_number(
    database: Database, other: Database
) -> None:
    """Another job is another matter; whoever may wait gets it as soon as it is free."""
    one, two, waiting = Jobs(database), Jobs(other), SeenJobs(other)
    numbers: list[int] = []

    async def wait() -> None:
        async with waiting.run("tiers", wait_s=math.inf) as fence:
            assert fence is not None
            assert fence.has_waited
            numbers.append(fence.number)

    async with Background() as background:
        async with one.run("tiers") as fence, two.run("tiers") as refused, two.run("prune") as another:
            assert fence is not None
            assert refused is None
            assert another is not None
            numbers.append(fence.number)
            background.start(wait)
            await eventually(waiting.tried.is_set)
        await eventually(lambda: len(numbers) == 2)
    assert numbers == [1, 2]


async def take_over(database: Database, other: Database, clock: Clock) -> None:
    """Let another process get the jobs of this one: its connection is cut, or its time is over."""
    if isinstance(database, SqliteDatabase):
        clock.now += LEASE_S + 1
        return
    ended = (
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE query LIKE 'SELECT pg_try_advisory_lock%%' AND datname = current_database()"
    )
    await other.write_driver(lambda connection: connection.execute(ended).fetchall())


async def test_a_process_that_lost_its_job_cannot_write_any_more(database: Database, other: Database) -> None:
    """Neither by the catalog's store nor in a transaction of its own; the one that has the job can."""
    clock = Clock()
    one, two = Jobs(database, clock=clock), Jobs(other, clock=clock)
    stores = CatalogStore(database), CatalogStore(other)
    change = Change(tiers_at="2026-03-01", visible=True)

    async def write(store: CatalogStore, fence: Fence | None) -> int | None:
        return await store.write(change, planned_on=await store.generation(), fence=fence)

    async with one.run("tiers") as old:
        assert await write(stores[0], old) == 1
        await take_over(database, other, clock)
        async with two.run("tiers", wait_s=60) as new:
            assert old is not None
            assert new is not None
            assert new.number > old.number
            with pytest.raises(LostJobError, match="another process has taken it over"):
                await write(stores[0], old)
            with pytest.raises(LostJobError):
                await database.write_driver(old.check)
            assert await write(stores[1], new) == 2
        async with one.run("tiers", wait_s=60) as again:
            assert again is not None
            assert await write(stores[0], again) == 3
