"""A replica that ends gives its servers to others without a gap, and what starts is not given away."""

import sys
from typing import Any

import anyio
import pytest
from tests.replicas.conftest import OpenReplica, OwnReplica
from tests.replicas.test_forwarding import know_each_other
from tests.replicas.test_runners import SHARED, call, owners, where
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

MOST_S = 5.0
"""Much less than a lease: nobody waits for one to end."""
SLOW = {
    "command": sys.executable,
    "args": ["-I", "-S", "-c", f"import time, runpy, sys; time.sleep(1.5); sys.argv = {SHARED['args'][2:]!r};"
             "runpy.run_path(sys.argv[0], run_name='__main__')"],
    "era": "handshake",
}  # fmt: skip


async def test_servers_move_at_once_and_a_call_under_way_is_finished(open_replica: OpenReplica) -> None:
    servers: dict[str, Any] = {"a": SHARED, "b": SHARED}
    async with (
        open_replica(servers=servers, replica={"role": "gateway"}) as gateway,
        open_replica(servers=servers, replica={"role": "runner"}) as first,
    ):
        await know_each_other(gateway, first)
        before = {name: await where(gateway, name) for name in servers}
        async with open_replica(servers=servers, replica={"role": "runner"}) as second:
            await know_each_other(gateway, first, second)
            rested: list[str] = []

            async def rest() -> None:
                rested.append(await call(gateway, "a__rest", seconds=3))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(rest)
                await eventually(lambda: first.replicas._answering > 0)
                first.replicas.drain()
                with anyio.fail_after(MOST_S):
                    assert await where(gateway, "b") != before["b"]
                assert not first.replicas.is_drained
            assert rested == ["rested"]
            await eventually(lambda: first.replicas.is_drained)
            assert await where(gateway, "a") != before["a"]
            assert {*(await owners(gateway)).values()} == {second.replicas.id}


async def test_a_server_that_is_being_started_is_not_given_away(open_replica: OpenReplica) -> None:
    """Another replica goes meanwhile, so this one looks which servers nobody needs."""
    async with open_replica(servers={"s": SLOW}) as one:
        await know_each_other(one)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(where, one)
            while not await owners(one):  # noqa: ASYNC110  # a row of the database sets no event
                await anyio.sleep(0.02)
            gone_from(one)
        assert {*(await owners(one)).values()} == {one.replicas.id}


def gone_from(replica: OwnReplica) -> None:
    for heard in replica.replicas.membership.on_gone:
        heard(frozenset({"other"}))


async def test_without_another_replica_servers_go_on_until_the_end(open_replica: OpenReplica) -> None:
    """A single gateway answers its clients while a load balancer turns away from it."""
    async with open_replica(servers={"s": SHARED}) as one:
        await know_each_other(one)
        before = await where(one)
        one.replicas.drain()
        assert one.replicas.is_drained
        assert await where(one) == before
