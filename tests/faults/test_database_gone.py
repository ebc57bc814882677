"""A PostgreSQL catalog that cannot be reached: what is known is served, and nothing is lost afterwards."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from tests.faults.disk_rig import diary
from tests.faults.house import House, open_house
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

from maitred.background import Background
from maitred.errors import MaitredError, StoreError
from maitred.model.access import LOCAL_USER, Grant

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

OUTAGE_S = 2.0


async def test_a_running_gateway_serves_what_it_knows_and_goes_on_once_the_database_is_back(
    tmp_path: Path, postgres: Postgres
) -> None:
    """Reading tools answer, changing ones are refused with the reason, and with the code of the store."""
    url = postgres.new_database()
    async with open_house(tmp_path, {"diary": diary(tmp_path)}, catalog={"url": url}) as house:
        await house.call("diary__write")
        with postgres.refusing(url):
            assert await house.text("diary__read") == "1 entries"
            with pytest.raises(MaitredError, match="its server refuses") as refused:
                await house.call("diary__write")
            status = await house.gateway.catalog_status(LOCAL_USER)
            assert "its server refuses" in status["fault"]
        await house.call("diary__write")

        assert refused.value.code == "store_failed"
        assert "The call was not made" in str(refused.value)
        assert await house.text("diary__read") == "2 entries"
        assert (await house.gateway.catalog_status(LOCAL_USER))["fault"] == ""


async def test_no_gateway_starts_without_its_database(tmp_path: Path, postgres: Postgres) -> None:
    """Without it, no decision on a server is known."""
    url = postgres.new_database()
    servers = {"diary": diary(tmp_path)}
    async with open_house(tmp_path, servers, catalog={"url": url}):
        pass
    with (
        postgres.refusing(url),
        pytest.raises(StoreError, match=r"its server refuses .*Correct `catalog\.url`"),
    ):
        async with open_house(tmp_path, servers, catalog={"url": url}):
            pass


class Load:
    """Callers that read, and others that write, one call after the other until they are stopped."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.reads = self.searches = self.writes = 0
        self.refusals: list[MaitredError] = []

    async def read(self) -> None:
        while True:
            assert "entries" in await self._house.text("diary__read")
            self.reads += 1

    async def search(self) -> None:
        while True:
            assert await self._house.gateway.search(["read the diary"], viewer=LOCAL_USER)
            self.searches += 1
            await anyio.lowlevel.checkpoint()

    async def write(self) -> None:
        while True:
            try:
                await self._house.call("diary__write")
                self.writes += 1
            except MaitredError as error:
                self.refusals.append(error)

    def goes_on(self) -> Callable[[], bool]:
        """Whether all who read got answers since now, and all who write were refused."""
        reads, searches, refusals = self.reads, self.searches, len(self.refusals)
        until = anyio.current_time() + OUTAGE_S
        return lambda: (
            self.reads > reads + 20
            and self.searches > searches + 5
            and len(self.refusals) > refusals + 20
            and anyio.current_time() > until
        )


async def test_a_server_that_is_stopped_for_some_seconds_under_load_loses_no_change(
    tmp_path: Path, postgres: Postgres
) -> None:
    """Reads and searches go on, changes are refused and not made, and all is well at once when it is back."""
    url = postgres.new_database()
    async with open_house(tmp_path, {"diary": diary(tmp_path)}, catalog={"url": url}) as house:
        await house.known()
        await house.call("diary__write")
        load, credentials = Load(house), house.gateway._credentials.grants
        token = (await credentials.make("ann", "agent")).token
        assert isinstance(await credentials.grant_of(token), Grant)
        async with Background() as background:
            for one in (load.read, load.search, load.write, load.write):
                background.start(one)
            await eventually(lambda: load.writes > 5 and load.reads > 5)
            await to_thread.run_sync(postgres.stop)
            try:
                await eventually(load.goes_on())
                assert isinstance(await credentials.grant_of(token), Grant)
                with pytest.raises(StoreError, match="does not answer"):
                    await credentials.make("ben", "agent")
            finally:
                await to_thread.run_sync(postgres.start)
            await house.call("diary__write")

        assert {error.code for error in load.refusals} == {"store_failed"}
        written = (tmp_path / "diary.txt").read_text("utf-8").count("entry")
        assert load.writes + 2 <= written <= load.writes + 4  # at the end two may have been under way
        assert (await house.gateway.verify_audit(LOCAL_USER)).faults == ()
