"""A back-up of PostgreSQL as docs/scale.md has it: what a gateway has after it was restored elsewhere."""

from pathlib import Path

import pytest
from anyio import to_thread
from tests.faults.disk_rig import diary
from tests.faults.house import open_house
from tests.support.postgres import Postgres

from maitred.model.access import LOCAL_USER, Grant

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]


async def test_a_dump_of_a_running_gateway_is_a_whole_catalog_elsewhere(
    tmp_path: Path, postgres: Postgres
) -> None:
    """Tools without a start of their server, tokens, and a trail that is verified and goes on."""
    url, copy, dump = postgres.new_database(), postgres.new_database(), str(tmp_path / "maitred.dump")
    servers = {"diary": diary(tmp_path)}
    async with open_house(tmp_path, servers, catalog={"url": url}) as house:
        await house.known()
        await house.call("diary__write")
        token = (await house.gateway._credentials.grants.make("ann", "agent")).token
        head = (await house.gateway.verify_audit(LOCAL_USER)).head
        await to_thread.run_sync(postgres.run, "pg_dump", "--format=custom", f"--file={dump}", url)
        await house.call("diary__write")  # which the copy does not have
    await to_thread.run_sync(postgres.run, "pg_restore", "--no-owner", f"--dbname={copy}", dump)

    async with open_house(tmp_path, servers, catalog={"url": copy}) as house:
        assert {tool.key.name for tool in house.gateway.snapshot.tools} == {"read", "write"}
        assert isinstance(await house.gateway.grant_of(token), Grant)
        found = await house.gateway.verify_audit(LOCAL_USER, head)
        assert (found.faults, found.head) == ((), head)
        await house.call("diary__write")
        after = await house.gateway.verify_audit(LOCAL_USER, head)
        assert (after.faults, after.lines) == ((), found.lines + 2)
