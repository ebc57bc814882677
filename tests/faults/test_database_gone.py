"""A PostgreSQL catalog that cannot be reached: what is known is served, and nothing is lost afterwards."""

from pathlib import Path

import pytest
from tests.faults.disk_rig import diary
from tests.faults.house import open_house
from tests.support.postgres import Postgres

from maitred.errors import MaitredError, StoreError
from maitred.model.access import LOCAL_USER

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]


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
