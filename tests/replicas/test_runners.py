"""Servers of several replicas: one process for all, wherever a client is connected."""

import json
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.interaction.harness import over_http, sdk_server, text_of
from tests.interaction.listening import listening
from tests.interaction.test_asking import EXPECTED, Person
from tests.replicas.conftest import OpenReplica, OwnReplica
from tests.support.waiting import eventually

from maitred.backends import placement
from maitred.errors import ConnectionLostError, ServerUnavailableError
from maitred.model.access import LOCAL_USER, Grant, Viewer
from maitred.model.tools import ToolCall
from maitred.storage.database import DriverConnection

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

TESTS = Path(__file__).resolve().parents[1]
SHARED = {
    "command": sys.executable,
    "args": ["-I", "-S", str(TESTS / "support" / "share_server.py"), "shared"],
    "era": "handshake",
}
ASKING = TESTS / "interaction" / "asking_server.py"
ROLES = ("gateway", "runner", "both")


def viewer(principal: str) -> Viewer:
    return Viewer(grant=Grant(principal=principal, role="agent"))


async def call(replica: OwnReplica, name: str, who: Viewer = LOCAL_USER, /, **arguments: Any) -> str:
    result = await replica.gateway.call(ToolCall(name=name, arguments=arguments), viewer=who)
    return str(result["content"][0]["text"])


async def where(replica: OwnReplica, server: str = "s", who: Viewer = LOCAL_USER) -> int:
    """The process that a call at a replica reaches."""
    return int(json.loads(await call(replica, f"{server}__where", who))["pid"])


async def run_sql(replica: OwnReplica, statement: str) -> list[Any]:
    """Run a statement in the database of a replica; returns the rows."""

    def run(connection: DriverConnection) -> list[Any]:
        done = connection.execute(statement)
        return done.fetchall() if statement.startswith("SELECT") else []

    return await replica.replicas.membership._database.write_driver(run)


async def owners(replica: OwnReplica) -> Mapping[str, str]:
    """The replica of each instance."""
    return dict(await run_sql(replica, "SELECT name, replica FROM server_owners WHERE name <> ''"))


async def test_all_replicas_reach_one_process_and_a_gateway_starts_none(open_replica: OpenReplica) -> None:
    """Counting goes on over replicas; each principal has a process of its own, on one of the runners."""
    servers = {"s": SHARED, "t": SHARED | {"share": "principal"}}
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(open_replica(servers=servers, replica={"role": role}))
            for role in ROLES
        ]
        counted = [(await call(one, "s__count")).split() for one in replicas]
        assert len({pid for pid, _ in counted}) == 1
        assert [number for _, number in counted] == ["1", "2", "3"]
        people = [viewer(f"p{number}") for number in range(6)]
        of_people = [{await where(one, "t", who) for one in replicas} for who in people]
        assert all(len(pids) == 1 for pids in of_people), of_people
        assert len(set[int]().union(*of_people)) == len(people)
        assert set((await owners(replicas[0])).values()) == {one.replicas.id for one in replicas[1:]}


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_server_on_another_replica_asks_the_client(
    open_replica: OpenReplica, tmp_path: Path, era: str
) -> None:
    """Forms, URLs, models and roots reach the client; its log messages and cancelled calls the right side."""
    cancelled = tmp_path / "cancelled.txt"
    servers = {"s": {**sdk_server(ASKING, str(cancelled)), "era": era}}
    person = Person()
    async with (
        open_replica(servers=servers, replica={"role": "gateway"}) as front,
        open_replica(servers=servers, replica={"role": "runner"}),
        over_http(f"{front.url}/mcp", "legacy", **person.options()) as client,
    ):
        assert await front.gateway.settled(120)
        for kind, expected in EXPECTED.items():
            result = await client.call_tool("s__ask", {"kinds": [kind]})
            assert not result.is_error, text_of(result)
            answer = json.loads(text_of(result).partition("\n")[0])[kind]
            assert expected.items() <= answer.items(), answer
        if era == "stateless":
            return  # between two rounds, no call is under way at the server
        person.waits, person.called = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "s__ask", {"kinds": ["form"]})
            await person.called.wait()
            tasks.cancel_scope.cancel()
        await eventually(cancelled.exists)


async def test_what_a_server_says_of_its_resources_reaches_subscribers_of_all_replicas(
    open_replica: OpenReplica,
) -> None:
    async with AsyncExitStack() as stack:
        fronts = [
            await stack.enter_async_context(open_replica(servers={"s": SHARED}, replica={"role": "gateway"}))
            for _ in range(2)
        ]
        await stack.enter_async_context(open_replica(servers={"s": SHARED}, replica={"role": "runner"}))
        await call(fronts[0], "s__touch")
        heard = []
        for front in fronts:
            connect = partial(over_http, f"{front.url}/mcp", "legacy")
            listener = await stack.enter_async_context(listening(connect, "legacy"))
            heard.append(listener)
            offered = (await listener.client.list_resources()).resources
            uri = next(str(one.uri) for one in offered if "shared" in str(one.uri))
            await listener.client.subscribe_resource(uri)
        await call(fronts[0], "s__touch")
        for listener in heard:
            await listener.hears(uri)


async def test_a_runner_that_ends_leaves_its_servers_to_another(open_replica: OpenReplica) -> None:
    """The next call starts the server there, without an error."""
    async with (
        open_replica(servers={"s": SHARED}, replica={"role": "gateway"}) as front,
        AsyncExitStack() as first,
        open_replica(servers={"s": SHARED}, replica={"role": "runner"}) as second,
    ):
        one = await first.enter_async_context(open_replica(servers={"s": SHARED}, replica={"role": "runner"}))
        before = await where(front)
        runs = one if (await owners(front))["s"] == one.replicas.id else second
        if runs is one:
            await first.aclose()
            assert await where(front) != before
            assert (await owners(front))["s"] == second.replicas.id
        else:
            await first.aclose()
            assert await where(front) == before


async def test_a_runner_that_lost_a_server_refuses_and_ends_it(open_replica: OpenReplica) -> None:
    """Whatever it believes: the number in the row decides, and the call that was at it ends with an error."""
    async with (
        open_replica(servers={"s": SHARED}, replica={"role": "gateway"}) as front,
        open_replica(servers={"s": SHARED}, replica={"role": "runner"}) as runner,
    ):
        before = await where(front)
        lost = pytest.raises(ConnectionLostError, match="another replica runs it now")
        async with anyio.create_task_group() as tasks:

            async def rest() -> None:
                with lost:
                    await call(front, "s__rest", seconds=60)

            tasks.start_soon(rest)
            await eventually(lambda: front.gateway.servers(LOCAL_USER)[0].health.in_flight == 1)
            await run_sql(front, "UPDATE server_owners SET replica = 'gone', number = 1000 WHERE name = 's'")
            await runner.replicas.membership.renew(runner.replicas.own)
        assert await where(front) != before
        assert (await owners(front))["s"] == runner.replicas.id


async def test_a_restart_at_one_replica_starts_the_server_again_on_another(open_replica: OpenReplica) -> None:
    async with (
        open_replica(servers={"s": SHARED}, replica={"role": "gateway"}) as front,
        open_replica(servers={"s": SHARED}, replica={"role": "runner"}),
    ):
        before = await where(front)
        await front.gateway.restart(["s"], LOCAL_USER)
        assert await where(front) != before
        assert "runs on replica" in front.gateway.last_output("s", LOCAL_USER)[-1]


async def test_a_runner_takes_no_clients_and_a_gateway_needs_one(
    open_replica: OpenReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "_NO_RUNNER_S", 0.1)
    async with httpx2.AsyncClient() as client:
        async with open_replica(servers={"s": SHARED}, replica={"role": "runner"}) as runner:
            assert await where(runner)
            refused = await client.post(f"{runner.url}/mcp", json={})
            assert (refused.status_code, refused.json()["error"]) == (503, "runner")
            assert (await client.get(f"{runner.url}/healthz")).status_code == 200
        async with open_replica(servers={"s": SHARED}, replica={"role": "gateway"}) as front:
            with pytest.raises(ServerUnavailableError, match="no replica is alive that may run it"):
                await where(front)
