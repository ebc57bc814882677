"""What is at the address of another replica, or a client there, may be silent, odd or slow: others go on."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.abc
import pytest

from maitred.backends.base import Caller
from maitred.backends.runner_callers import CallerMessages, CallersHere
from maitred.background import Background
from maitred.errors import ReplicaError, ReplicaGoneError
from maitred.model.replicas import LiveReplica
from maitred.replicas import forwarding
from maitred.replicas.forwarding import Replicas
from maitred.storage.database import Database

pytestmark = pytest.mark.anyio

SOON_S = 5.0
FORGED = b'{"answer":{}}'


def make_replicas(key: bytes = b"k" * 32) -> Replicas:
    """A replica that needs no database, because no test lets it join."""
    database = cast("Database", SimpleNamespace(writes_together=True))
    return Replicas(database, LiveReplica(id="a", role="both", address="", version="1"), lambda: key)


async def beside(stack: AsyncExitStack, replicas: Replicas, answer: bytes) -> None:
    """Have a program at the address of the replica `b` answer each request so; empty for not at all."""

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            if not answer:
                await anyio.sleep_forever()
            await stream.send(answer)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    await stack.enter_async_context(listener)
    tasks = await stack.enter_async_context(Background())
    tasks.start(listener.serve, serve)
    there = LiveReplica(id="b", role="both", address=f"http://127.0.0.1:{port}", version="1")
    replicas.membership._live = {"b": there}


@pytest.mark.parametrize("body", [b"hello", b"", FORGED, b"0" * 64 + FORGED])
async def test_what_is_no_replica_is_refused_and_ends_nothing(body: bytes) -> None:
    """An address was taken over: also a notice that nothing waits for must not end this gateway."""
    async with AsyncExitStack() as stack:
        replicas = make_replicas()
        await stack.enter_async_context(replicas.serving())
        head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        await beside(stack, replicas, head + body)
        replicas.tell("b", "link.notice", {})
        with anyio.fail_after(SOON_S), pytest.raises(ReplicaError, match="its answer is refused"):
            await replicas.forward("b", "link.notice", {})


async def test_a_request_to_a_silent_replica_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease may be renewed all the same, for example where a network loses what is sent."""
    monkeypatch.setattr(forwarding, "_PING_S", 0.1)
    async with AsyncExitStack() as stack:
        replicas = make_replicas()
        await stack.enter_async_context(replicas.serving())
        await beside(stack, replicas, b"")
        with anyio.fail_after(SOON_S), pytest.raises(ReplicaGoneError, match="may or may not"):
            await replicas.forward("b", "server.call", {})


class Client:
    """A client that reads nothing if it is slow."""

    takes_rounds = True

    def __init__(self, key: str, *, is_slow: bool = False) -> None:
        self.key = key
        self.is_slow = is_slow
        self.heard: list[Mapping[str, Any]] = []

    async def log(self, params: Mapping[str, Any], *, late: bool = False) -> None:
        if self.is_slow:
            await anyio.sleep_forever()
        if params.get("fails"):
            raise KeyError(late)
        self.heard.append(params)


async def test_a_client_that_does_not_read_keeps_up_no_other() -> None:
    """Messages of others arrive in their order, before the answer; one that fails is passed over."""
    replicas = make_replicas()
    here, slow, quick = CallersHere(replicas), Client("1", is_slow=True), Client("2")
    async with replicas.serving(), Background() as background:
        with (
            here.calling(cast("Caller", slow), "a") as first,
            here.calling(cast("Caller", quick), "a") as second,
        ):
            messages = CallerMessages(replicas, background)
            for call, params in [
                (first, {}),
                (second, {"fails": True}),
                (second, {"n": 1}),
                (second, {"n": 2}),
            ]:
                said = {"call": call, "key": "", "what": "log", "params": params, "late": False}
                messages.send("a", said)
            with anyio.fail_after(SOON_S):
                await messages.delivered("a")
                await here.caught_up(second, "a")
            assert quick.heard == [{"n": 1}, {"n": 2}]


async def test_a_replica_speaks_only_to_clients_whose_calls_it_has() -> None:
    replicas = make_replicas()
    here, client = CallersHere(replicas), Client("1")
    async with replicas.serving(), Background() as background:
        with here.calling(cast("Caller", client), "b") as call:
            messages = CallerMessages(replicas, background)
            messages.send("a", {"call": call, "key": "1", "what": "log", "params": {}, "late": False})
            await messages.delivered("a")
            await here.caught_up(call, "a")
            assert client.heard == []
