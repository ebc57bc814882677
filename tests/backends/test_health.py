"""What the pool tells of how its backends fare."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from tests.backends import honest_server
from tests.backends.rig import LONG_S, Heard

from maitred.backends import supervision
from maitred.backends.base import ConnectError, Connection, ConnectOptions, LoginNeededError, SupervisionEvent
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
    error = ConnectError("it is in a mood")

    def __init__(self, spec: ServerSpec = SPEC) -> None:
        super().__init__(spec, honest_server.make_server())

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        if not self.well:
            raise self.error
        async with super().connect(options) as connection:
            yield connection


class Ear:
    """A listener that notes state and refusal at each change of health."""

    def __init__(self, watched: BackendPool) -> None:
        self.heard = Heard()
        self._pool = watched
        watched.listener = self

    def facts_changed(self, server: str, facts: Mapping[str, Any], key: str) -> None:
        raise AssertionError("these servers report no facts")

    def health_changed(self, server: str, key: str) -> None:
        self.heard((self._pool.health()[server].state, server in self._pool.refused()))

    def started(self, server: str, key: str) -> None:
        self.heard(f"{server} started")

    def tools_changed(self, server: str, key: str) -> None:
        self.heard("tools")

    def offers_changed(self, server: str, key: str) -> None:
        self.heard("offers")

    def updated(self, server: str, uri: str, key: str) -> None:
        self.heard(uri)

    def task_changed(self, server: str, task: Mapping[str, Any], key: str) -> None:
        self.heard(task["taskId"])

    def supervised(self, server: str, event: SupervisionEvent) -> None:
        self.heard(event)


@asynccontextmanager
async def watched(backend: Moody, *, keeps_running: bool = False) -> AsyncIterator[tuple[BackendPool, Ear]]:
    made = BackendPool(lambda _: backend, max_starting=1, on_close=lambda: None, keeps_running=keeps_running)
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
    monkeypatch.setattr(supervision, "FIRST_DELAY_S", 0.05)
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


async def test_a_server_that_runs_always_and_is_down_is_refused_until_a_start_of_it_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of the attempts would else be a change of the lists, twice a minute for as long as it is down."""
    monkeypatch.setattr(supervision, "FIRST_DELAY_S", 0.01)
    backend = Moody(replace(SPEC, start="always"))
    backend.well = False
    async with watched(backend, keeps_running=True) as (_, ear):
        await ear.heard.until((State.FAILED, True), times=3)
        backend.well = True
        await ear.heard.until((State.READY, False))
    refused = ear.heard.all[
        ear.heard.all.index((State.FAILED, True)) : ear.heard.all.index((State.READY, False))
    ]
    assert set(refused) == {(State.FAILED, True), (State.STARTING, True)}


async def test_a_server_that_waits_for_a_login_is_tried_once_in_a_while_however_many_calls_there_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call is an attempt of its own, since somebody may have logged in; it is followed by no others."""
    monkeypatch.setattr(supervision, "MAX_DELAY_S", 0.2)
    backend = Moody(replace(SPEC, start="always"))
    backend.well, backend.error = False, LoginNeededError("nobody has logged in")
    async with watched(backend, keeps_running=True) as (backends, ear):
        for _ in range(12):
            with pytest.raises(ServerUnavailableError):
                async with backends.connection(NAME):
                    pass
        tried = ear.heard.all.count((State.STARTING, False))
        await ear.heard.until((State.FAILED, False), times=tried + 2)
        with anyio.move_on_after(0.1):
            await ear.heard.until((State.FAILED, False), times=tried + 4)
        assert ear.heard.all.count((State.STARTING, False)) <= tried + 3
