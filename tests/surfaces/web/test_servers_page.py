"""The figures of the Servers page agree with each other and with the gateway, also for servers that stand."""

import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.surfaces.web.rig import House, opened, tool
from tests.surfaces.web.test_tools import page, rows_of, words_of

from maitred.config.settings import Isolation, Supervision
from maitred.gateway import ServerStatus
from maitred.model.access import LOCAL_USER, Grant
from maitred.model.servers import Health, ServerFacts, ServerSpec, State
from maitred.model.sharing import Instance, Sharer
from maitred.model.tools import ToolCall
from maitred.surfaces.web.servers.trouble import isolation_text

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateway outlives tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """A server that runs with a part withheld, and one whose program ends at once."""
    folder: Path = tmp_path_factory.mktemp("servers")
    async with opened(folder, {"shop": [tool("look")]}, supervision=Supervision(restarts=0)) as made:
        ends = ServerSpec(name="ends", command=sys.executable, args=("-c", "raise SystemExit(3)"))
        known = made.gateway.settings
        await made.gateway.configure(
            replace(known, servers={**known.servers, "ends": ends}), viewer=LOCAL_USER
        )
        await made.gateway.call(ToolCall(name="shop__look", arguments={}), viewer=LOCAL_USER)
        await made.change("shop", tool("look"), tool("lo\u200bok"))
        yield made


async def test_a_server_that_runs_counts_as_running_though_a_part_is_withheld(house: House) -> None:
    """The figure above the table said 0 beside a server whose state was "running"."""
    read = words_of(await page(await house.person(), "/ui/servers"))
    rows = {row.split()[0]: row for row in rows_of(await page(await house.person(), "/ui/servers"))}
    assert "shop running 1 withheld until approved" in rows["shop"]
    assert "running now 1" in read


def test_a_server_that_runs_for_single_clients_is_running() -> None:
    """Each client has a copy of it; the default one never starts."""
    spec = ServerSpec(name="browser", command="x")
    one = Instance(sharer=Sharer(principal="ann"), health=Health(state=State.READY))
    status = ServerStatus(spec=spec, health=Health(), facts=ServerFacts(), tools=1, cost_tokens=1)
    assert not status.is_running
    assert replace(status, instances=[one]).is_running


async def test_the_starts_have_all_starts_after_a_fault(house: House) -> None:
    """The page said "0, 2 of them after a fault" of a server that never became ready."""
    for _ in range(3):
        [report] = await house.gateway.sync(["ends"], viewer=LOCAL_USER)
        assert report.error
    health = house.gateway.watched_server("ends", LOCAL_USER).health
    assert health.starts >= health.restarts + 1 > 1
    read = words_of(await page(await house.person(), "/ui/servers/ends"))
    said = f"Starts {health.starts}, {health.restarts} of them after a fault in the last 5 minutes"
    assert said in read
    known = (await house.stranger().get("/api/v1/servers/ends")).json()
    assert (known["starts"], known["restarts"]) == (health.starts, health.restarts)


@pytest.mark.parametrize(
    ("spec", "jail", "expected"),
    [
        (ServerSpec(name="new", command="x", registered=True), "auto", "jail"),
        (ServerSpec(name="new", command="x", registered=True), "none", "none"),
        (ServerSpec(name="new", command="x"), "auto", "none"),
        (ServerSpec(name="new", image="ghcr.io/acme/x:1", transport="container"), "auto", "container"),
        (ServerSpec(name="new", url="https://x.example/mcp", transport="http"), "auto", "runs elsewhere"),
    ],
    ids=["registered", "registered without jails", "configured", "image", "address"],
)
async def test_the_isolation_of_a_server_that_stands_is_what_it_gets_when_it_starts(
    tmp_path: Path, spec: ServerSpec, jail: str, expected: str
) -> None:
    """It read "none" until the server ran. The table, the page of the server and the API say the same."""
    spec = replace(spec, enabled=False)
    async with opened(tmp_path, {}, isolation=Isolation(jail=jail)) as house:  # type: ignore[arg-type]
        known = house.gateway.settings
        await house.gateway.configure(replace(known, servers={"new": spec}), viewer=LOCAL_USER)
        status = house.gateway.watched_server("new", LOCAL_USER)
        assert status.health.cage == ""
        assert isolation_text(status) == expected
        me = await house.person()
        [row] = rows_of(await page(me, "/ui/servers"))
        assert row.endswith(f"{expected} all clients")
        later = ", when it starts" if status.isolation else ""
        assert f"Isolation {expected}{later}" in words_of(await page(me, "/ui/servers/new"))
        told = (await house.stranger().get("/api/v1/servers/new")).json()
        assert told["cage"] == (expected if status.isolation else "")


async def test_the_columns_are_named_by_what_they_show(house: House) -> None:
    read = words_of(await page(await house.person(), "/ui/servers"))
    assert (
        "Server State Used by, last day Last calls Tools Tokens Calls, 30 days p95, ms Isolation Shared by"
        in read
    )
    other = await house.person(Grant(principal="op", role="operator"))
    assert "Server State Tools Tokens Calls, 30 days p95, ms Isolation Shared by" in words_of(
        await page(other, "/ui/servers")
    )
