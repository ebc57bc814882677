"""One replica asks another: as which viewer, what a client can do with the endpoint, and what an end says."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import httpx2
import pytest
from tests.replicas.conftest import OpenReplica, OwnReplica
from tests.support.waiting import eventually

from maitred.errors import CallTimeoutError, ReplicaError, ReplicaGoneError
from maitred.model.access import Grant, Scope, ScopePart, Viewer
from maitred.replicas.forwarding import HEADER, PATH, ReplicaRequest
from maitred.replicas.internal_token import InternalTokens

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("postgres")]

PART = ScopePart(group="g", role="agent", scope=Scope(categories=frozenset({"files"}), read_only=True))
ANN = Viewer(
    grant=Grant(principal="ann", role="agent", scope=Scope(servers=frozenset({"s"}), parts=(PART,))),
    connection="c1",
    era="handshake",
)


async def know_each_other(*replicas: OwnReplica) -> None:
    ids = {one.replicas.id for one in replicas}
    await eventually(lambda: all(one.replicas.membership.holds_lease for one in replicas))
    for one in replicas:
        await one.replicas.membership.look()
        assert {other.id for other in one.replicas.membership.live} == ids


async def test_a_request_arrives_with_its_viewer_and_errors_come_back(open_replica: OpenReplica) -> None:
    async with open_replica() as one, open_replica(replica={"role": "gateway"}) as two:
        await know_each_other(one, two)
        assert [other.runs_servers for other in two.replicas.membership.live].count(True) == 1

        async def echo(request: ReplicaRequest) -> Mapping[str, Any]:
            if request.body["fails"]:
                raise CallTimeoutError("s", "tools/call", 2.0)
            assert request.viewer == ANN
            return {"from": request.sender, "text": request.body["text"]}

        two.replicas.register("echo", echo)
        body = {"fails": False, "text": "é\ud83d\0"}
        answer = await one.replicas.forward(two.replicas.id, "echo", body, viewer=ANN)
        assert answer == {"from": one.replicas.id, "text": "é\ud83d\0"}
        with pytest.raises(CallTimeoutError, match="did not answer tools/call within 2 s") as failed:
            await one.replicas.forward(two.replicas.id, "echo", {"fails": True})
        assert (failed.value.server, failed.value.timeout_s) == ("s", 2.0)
        with pytest.raises(ReplicaError, match="knows no requests of the kind 'other'"):
            await one.replicas.forward(two.replicas.id, "other", {})


async def test_who_gives_up_a_request_cancels_it_on_the_other_replica(open_replica: OpenReplica) -> None:
    async with open_replica() as one, open_replica() as two:
        await know_each_other(one, two)
        begun, cancelled = anyio.Event(), anyio.Event()

        async def wait(_: ReplicaRequest) -> Mapping[str, Any]:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()
            raise AssertionError

        two.replicas.register("wait", wait)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.replicas.forward, two.replicas.id, "wait", {})
                await begun.wait()
                tasks.cancel_scope.cancel()
            await cancelled.wait()


async def test_the_endpoint_refuses_clients_and_tokens_that_came_before(open_replica: OpenReplica) -> None:
    """The token of the administrator does not open it; a good one opens it once."""
    admin = "a-token-of-the-operator"
    async with (
        open_replica(http={"token": admin}) as one,
        open_replica() as two,
        httpx2.AsyncClient() as client,
    ):
        await know_each_other(one, two)
        sent = json.dumps({"kind": "echo", "viewer": None, "body": {}}).encode()
        for headers in ({}, {"Authorization": f"Bearer {admin}"}, {HEADER: admin}):
            refused = await client.post(two.url + PATH, content=sent, headers=headers)
            assert (refused.status_code, refused.json()["error"]) == (401, "internal_token_refused")
        token = one.replicas._tokens.make(two.replicas.id, sent)
        answers = [
            await client.post(two.url + PATH, content=body, headers={HEADER: token}) for body in (sent, sent)
        ]
        assert [answer.status_code for answer in answers] == [200, 401]
        wrong = InternalTokens(one.replicas.id, lambda: b"another key").make(two.replicas.id, sent)
        assert (await client.post(two.url + PATH, content=sent, headers={HEADER: wrong})).status_code == 401
        assert (await client.get(two.url + PATH)).status_code == 405


async def test_a_replica_that_has_ended_is_gone_at_once(open_replica: OpenReplica) -> None:
    """It leaves the table itself, and a request to it certainly did not begin."""
    async with open_replica() as one:
        async with open_replica() as two:
            await know_each_other(one, two)
        with pytest.raises(ReplicaGoneError, match="cannot be reached") as gone:
            await one.replicas.forward(two.replicas.id, "echo", {})
        assert gone.value.unread
        await know_each_other(one)
        with pytest.raises(ReplicaGoneError, match="it has ended") as gone:
            await one.replicas.forward(two.replicas.id, "echo", {})
        assert gone.value.unread
