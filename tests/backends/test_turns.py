"""Starts of a pool that stand in each other's way, are of no use, or come when it is not open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import anyio
import pytest
from tests.backends.rig import LONG_S, Heard, script, stdio
from tests.backends.test_keeping import NAME, SPEC, Ear, Program, honest, keeping, touch

from maitred.backends import server_task, supervision
from maitred.backends.base import Backend, Connection, ConnectOptions
from maitred.backends.pool import BackendPool
from maitred.backends.process import Warden
from maitred.backends.stdio import StdioBackend
from maitred.backends.turns import take_turn
from maitred.config.settings import Supervision
from maitred.errors import ServerUnavailableError
from maitred.model.servers import ServerSpec, State, Timeouts

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between starts are what other tests are about."""
    monkeypatch.setattr(supervision, "FIRST_DELAY_S", 0.01)


def nonsense(spec: ServerSpec, warden: Warden) -> StdioBackend:
    answer = '{"jsonrpc":"2.0","id":m["id"],"result":{"nonsense":1}}'
    loop = f"for m in map(json.loads, sys.stdin): 'id' in m and print(json.dumps({answer}), flush=True)"
    told = replace(script(f"import sys, json\n{loop}\n", era="handshake"), name=spec.name)
    return stdio(told, warden)


async def test_a_program_that_does_not_speak_mcp_is_given_up_like_one_that_ends() -> None:
    """We end it, but it is to blame: it would else be started once a minute for ever."""
    warden = Warden()
    always = replace(SPEC, start="always")
    pool = BackendPool(
        lambda spec: nonsense(spec, warden),
        max_starting=1,
        on_close=warden.close,
        supervision=Supervision(restarts=1),
        keeps_running=True,
    )
    ear = Ear(pool)
    with anyio.fail_after(LONG_S):
        async with pool:
            await pool.configure({NAME: always}, {})
            await ear.heard.until("suspend")
            assert pool.health()[NAME].ended == "protocol"
            assert [event.kind for event in ear.events] == ["restart", "suspend"]


class Slow(Backend):
    """One that never gets ready."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        del options
        await anyio.sleep_forever()
        raise AssertionError
        yield


@pytest.mark.parametrize(
    ("spec", "starting"), [(SPEC, 4), (replace(SPEC, start="always"), 9)], ids=["for a call", "by itself"]
)
async def test_servers_that_never_get_ready_do_not_keep_a_call_to_another_one_waiting(
    spec: ServerSpec, starting: int
) -> None:
    """Those that run always are started by themselves, again and again: that is nobody's turn.

    Nor does a call wait if the other one is to start by itself as well, and so is behind them in one row.
    """
    program = Program(honest())
    slow = {f"slow{n}": replace(SPEC, name=f"slow{n}", start="always") for n in range(8)}
    pool = BackendPool(
        lambda spec: program if spec.name == NAME else Slow(spec),
        max_starting=1,
        on_close=lambda: None,
        keeps_running=True,
    )
    ear = Ear(pool)
    with anyio.fail_after(LONG_S):
        async with pool:
            await pool.configure({**slow, NAME: spec}, {})
            await ear.heard.until(State.STARTING, times=starting)
            await touch(pool)
            assert pool.health()[NAME].state is State.READY


async def test_only_one_turn_is_taken_and_none_by_who_stops_waiting() -> None:
    """Whichever is free first; else a server would keep the turn of another."""
    row, others, may = anyio.Semaphore(0), anyio.Semaphore(1), anyio.Event()
    with anyio.move_on_after(0.05):
        await take_turn(row, others, may)
        raise AssertionError("it may not use the others yet")
    assert (row.value, others.value) == (0, 1)
    may.set()
    assert await take_turn(row, others, may) is others
    row.release()
    assert await take_turn(row, others, may) is row
    assert (row.value, others.value) == (0, 0)


async def test_a_call_that_waits_too_long_for_the_starts_of_others_is_told_so() -> None:
    """It is given up after the time that a start may take."""
    pool = BackendPool(Slow, max_starting=1, on_close=lambda: None)
    ear = Ear(pool)
    with anyio.fail_after(LONG_S):
        async with pool, anyio.create_task_group() as tasks:
            hasty = replace(SPEC, timeouts=Timeouts(start_s=0.05))
            await pool.configure({"first": replace(SPEC, name="first"), NAME: hasty}, {})
            tasks.start_soon(pool.connection("first").__aenter__)
            await ear.heard.until(State.STARTING)
            with pytest.raises(ServerUnavailableError, match="it waits for other servers to start"):
                await touch(pool)
            tasks.cancel_scope.cancel()


async def test_a_discovery_waits_for_its_turn_however_long_others_take() -> None:
    """Its time to start begins with its turn: of hundreds that wait for each other none has failed."""
    program = Program(honest())
    pool = BackendPool(
        lambda spec: program if spec.name == NAME else Slow(spec), max_starting=1, on_close=lambda: None
    )
    ear = Ear(pool)
    discovered = anyio.Event()

    async def begin_first() -> None:
        with suppress(ServerUnavailableError):  # it never gets ready
            await touch(pool, "first")

    async def discover() -> None:
        async with pool.connection(NAME, patient=True):
            discovered.set()

    with anyio.fail_after(LONG_S):
        async with pool, anyio.create_task_group() as tasks:
            hasty = replace(SPEC, timeouts=Timeouts(start_s=0.5))
            await pool.configure({"first": replace(SPEC, name="first"), NAME: hasty}, {})
            tasks.start_soon(begin_first)
            await ear.heard.until(State.STARTING)
            tasks.start_soon(discover)
            with pytest.raises(ServerUnavailableError, match="it waits for other servers to start"):
                await touch(pool)  # so long has the discovery waited, too
            assert not discovered.is_set()
            assert pool.health()[NAME].state is not State.FAILED
            await pool.configure({NAME: hasty}, {})  # the first is ended
            await discovered.wait()
            tasks.cancel_scope.cancel()


async def test_a_call_to_a_pool_that_is_not_open_fails_and_leaves_it_as_it_was() -> None:
    """One that came as the gateway ended would else keep it from ending."""
    program = Program(honest())
    pool = BackendPool(lambda _: program, max_starting=1, on_close=lambda: None)
    with anyio.fail_after(LONG_S):
        await pool.configure({NAME: SPEC}, {})
        with pytest.raises(ServerUnavailableError):
            await touch(pool)
        async with pool:
            await touch(pool)


async def test_a_pool_whose_task_is_cancelled_starts_nothing_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is closed before the pool may take its time; servers would be begun all the while."""
    begun, begin = Heard(), server_task.ServerTask.begin

    def counted(self: server_task.ServerTask, slots: anyio.Semaphore) -> None:
        begun("begin")
        begin(self, slots)

    monkeypatch.setattr(server_task.ServerTask, "begin", counted)
    with anyio.fail_after(LONG_S), anyio.CancelScope() as scope:
        async with keeping(Program(honest()), Supervision(), replace(SPEC, start="always")) as (_, ear):
            await ear.heard.until("started")
            scope.cancel()
            with anyio.CancelScope(shield=True):
                for _ in range(50):
                    await anyio.lowlevel.checkpoint()
    assert len(begun.all) == 1


class Stumbling(Ear):
    """A listener that fails at some states of a server."""

    def health_changed(self, server: str, key: str) -> None:
        super().health_changed(server, key)
        if self.heard.all[-1] in (State.READY, State.FAILED):
            raise ValueError(server)


async def test_a_listener_that_fails_does_not_take_the_pool_down() -> None:
    """The call that it fails in is told so, and the next one is answered."""
    program = Program(honest())
    pool = BackendPool(lambda _: program, max_starting=1, on_close=lambda: None)
    stumbling = Stumbling(pool)
    with anyio.fail_after(LONG_S):
        async with pool:
            await pool.configure({NAME: SPEC}, {})
            with pytest.raises(ServerUnavailableError):
                await touch(pool)
            assert State.FAILED in stumbling.heard.all
            Ear(pool)
            await touch(pool)
