"""What the pool tells of how its backends fare."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from tests.backends import honest_server
from tests.backends.rig import LONG_S, Heard

from maitred.backends import pool
from maitred.backends.base import ConnectError, Connection, ConnectOptions
from maitred.backends.memory import MemoryBackend
from maitred.backends.pool import BackendPool
from maitred.errors import ServerUnavailableError
from maitred.model.servers import ServerSpec, State, Timeouts

pytestmark = pytest.mark.anyio

NAME = "moody"
SPEC = ServerSpec(name=NAME, transport="memory")


class Moody(MemoryBackend):
    """A server that can be reached when it likes."""

    well = True

    def __init__(self, spec: ServerSpec = SPEC) -> None:
        super().__init__(spec, honest_server.make_server())

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        if not self.well:
            raise ConnectError("it is in a mood")
        async with super().connect(options) as connection:
            yield connection


class Ear:
    """A listener that notes state and refusal at each change of health."""

    def __init__(self, watched: BackendPool) -> None:
        self.heard = Heard()
        self._pool = watched
        watched.listener = self

    def health_changed(self, server: str) -> None:
        self.heard((self._pool.health()[server].state, server in self._pool.refused()))

    def started(self, server: str) -> None:
        self.heard(f"{server} started")

    def tools_changed(self, server: str) -> None:
        self.heard("tools")

    def offers_changed(self, server: str) -> None:
        self.heard("offers")

    def updated(self, server: str, uri: str) -> None:
        self.heard(uri)


@asynccontextmanager
async def watched(backend: Moody) -> AsyncIterator[tuple[BackendPool, Ear]]:
    made = BackendPool(lambda _: backend, max_starting=1, on_close=lambda: None)
    ear = Ear(made)
    with anyio.fail_after(LONG_S):
        async with made:
            await made.configure({NAME: backend.spec}, {NAME: "handshake"})
            yield made, ear


def fails(times: int) -> Sequence[object]:
    return [(State.STARTING, False), (State.FAILED, False)] * times


async def test_each_state_of_a_server_is_told_once() -> None:
    """How many calls there are is nobody's business."""
    quick = replace(SPEC, timeouts=Timeouts(idle_stop_s=0.1))
    async with watched(Moody(quick)) as (backends, ear):
        async with backends.connection(NAME), backends.connection(NAME):
            pass
        await ear.heard.until((State.IDLE, False))
    states = [State.STARTING, State.READY, State.STOPPING, State.IDLE]
    assert [what for what in ear.heard.all if what != f"{NAME} started"] == [(s, False) for s in states]


async def test_a_server_that_is_configured_no_more_is_not_heard_of() -> None:
    """Its name may belong to another one by now."""
    async with watched(Moody()) as (backends, ear):
        async with backends.connection(NAME):
            pass
        heard = list(ear.heard.all)
        await backends.configure({}, {})
        assert ear.heard.all == heard


async def test_a_refusal_is_told_when_it_begins_and_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that leave out a refused server change at both moments."""
    monkeypatch.setattr(pool, "_FIRST_DELAY_S", 0.05)
    backend = Moody()
    backend.well = False
    async with watched(backend) as (backends, ear):
        for _ in range(3):
            with pytest.raises(ServerUnavailableError):
                async with backends.connection(NAME):
                    pass
        await ear.heard.until((State.FAILED, False), times=3)
        assert ear.heard.all == [
            *fails(2),
            (State.STARTING, False),
            (State.FAILED, True),
            (State.FAILED, False),
        ]


async def test_a_server_that_is_forgiven_is_told_to_be_no_longer_refused() -> None:
    backend = Moody()
    backend.well = False
    async with watched(backend) as (backends, ear):
        for _ in range(3):
            with pytest.raises(ServerUnavailableError):
                async with backends.connection(NAME):
                    pass
        assert ear.heard.all[-1] == (State.FAILED, True)
        backends.forgive(NAME)
        assert ear.heard.all[-1] == (State.FAILED, False)
        backend.well = True
        async with backends.connection(NAME):
            assert ear.heard.all[-2:] == [(State.READY, False), f"{NAME} started"]
