"""A pool that keeps its servers well: asked whether they answer, started again, kept running, given up."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from tests.backends.rig import LONG_S, SOON_S, Heard, call
from tests.backends.scripted import HANDSHAKE, Json, Script, refusal

from maitred.backends import server_task, supervision
from maitred.backends.base import NOT_ASKED, Backend, Connection, ConnectOptions, Ending, SupervisionEvent
from maitred.backends.pool import BackendPool
from maitred.backends.session import open_session
from maitred.config.settings import Limits, Supervision
from maitred.errors import CallTimeoutError, ConnectionLostError, ServerUnavailableError
from maitred.model.servers import ServerSpec, State, Timeouts

pytestmark = pytest.mark.anyio

NAME = "s"
QUICK = Supervision(check_every_s=0.02, check_timeout_s=0.02, failures=2)
HUNG = "it did not answer 2 health checks of 0.02 s each"
SPEC = ServerSpec(name=NAME, era="handshake")


class Program(Backend):
    """A backend whose every start is a script; `crash` ends the one that runs, as a process would end."""

    cage = "jail"

    def __init__(self, make: Callable[[], Script]) -> None:
        self.spec = SPEC
        self._make = make
        self.scripts: list[Script] = []
        self.running = 0
        self.most = 0
        self._crashed = ""

    def ending(self, reason: str) -> Ending:
        return Ending(kind="exit" if self._crashed else "lost", reason=self._crashed or reason)

    @property
    def script(self) -> Script:
        """The present one."""
        return self.scripts[-1]

    def crash(self) -> None:
        self._crashed = "it exited with code 3"
        self.script.channel.close(self._crashed)

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        self._crashed = ""
        self.scripts.append(script := self._make())
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            async with open_session(
                self.spec, script.channel, script.channel, options, Limits()
            ) as connection:
                yield connection
        finally:
            await anyio.lowlevel.cancel_shielded_checkpoint()
            self.running -= 1


class Ear:
    """A listener that keeps states and what supervision did."""

    def __init__(self, pool: BackendPool) -> None:
        self.heard = Heard()
        self.events: list[SupervisionEvent] = []
        self._pool = pool
        pool.listener = self

    def facts_changed(self, server: str, facts: Mapping[str, Any], key: str) -> None:
        raise AssertionError("these servers report no facts")

    def health_changed(self, server: str, key: str) -> None:
        self.heard(self._pool.health()[server].state)

    def supervised(self, server: str, event: SupervisionEvent) -> None:
        self.events.append(event)
        self.heard(event.kind)

    def started(self, server: str, key: str) -> None:
        self.heard("started")

    def tools_changed(self, server: str, key: str) -> None: ...

    def offers_changed(self, server: str, key: str) -> None: ...

    def updated(self, server: str, uri: str, key: str) -> None: ...

    def task_changed(self, server: str, task: Mapping[str, Any], key: str) -> None: ...


@asynccontextmanager
async def keeping(
    program: Program, plan: Supervision, spec: ServerSpec = SPEC
) -> AsyncIterator[tuple[BackendPool, Ear]]:
    pool = BackendPool(
        lambda _: program, max_starting=1, on_close=lambda: None, supervision=plan, keeps_running=True
    )
    ear = Ear(pool)
    with anyio.fail_after(LONG_S):
        async with pool:
            await pool.configure({spec.name: spec}, {})
            yield pool, ear


def honest(**answers: Json | None) -> Callable[[], Script]:
    """Scripts of a server of the handshake era; a method with `None` is never answered."""
    told = {name: (lambda _: None) if answer is None else answer for name, answer in answers.items()}
    return lambda: Script(**({"initialize": HANDSHAKE, "ping": {}} | told))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between starts are what other tests are about."""
    monkeypatch.setattr(supervision, "FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(server_task, "_CHECK_IDLE_S", 0.05)


async def touch(pool: BackendPool, server: str = NAME) -> None:
    async with pool.connection(server):
        pass


# --- health checks ----------------------------------------------------------------------------------------


async def test_a_server_that_answers_no_check_is_ended_and_started_again_for_the_next_call() -> None:
    """Its state says that it hung, and for how long it was asked."""
    program = Program(honest(ping=None, tools_list=None))
    async with keeping(program, QUICK) as (pool, ear):
        await touch(pool)
        await ear.heard.until(State.FAILED)
        health = pool.health()[NAME]
        assert (health.ended, health.error) == ("hang", HUNG)
        await touch(pool)
        assert pool.health()[NAME].state is State.READY
        assert pool.health()[NAME].last_error == HUNG
        assert (len(program.scripts), program.most) == (2, 1)


async def test_calls_in_flight_to_a_server_that_hangs_are_told_why_they_failed() -> None:
    """Here the call is beyond the time that one may take: nothing else keeps its server from being ended."""
    slow = replace(SPEC, timeouts=Timeouts(call_s=0.01))
    program = Program(honest(ping=None, tools_list=None, tools_call=None))
    async with keeping(program, QUICK, slow) as (pool, _):
        with pytest.raises(ConnectionLostError, match=HUNG):
            async with pool.connection(NAME) as connection:
                await connection.call_tool("t", call("t"), timeout_s=SOON_S, caller=NOT_ASKED)


async def test_a_server_is_not_ended_for_being_silent_while_it_is_busy_with_a_call() -> None:
    """It may do one thing at a time: it is not even asked, however many checks come to pass."""
    program = Program(honest(tools_call=None))
    async with keeping(program, QUICK) as (pool, ear):
        with anyio.move_on_after(20 * QUICK.check_every_s):
            async with pool.connection(NAME) as connection:
                await connection.call_tool("t", call("t"), timeout_s=SOON_S, caller=NOT_ASKED)
        assert "ping" not in program.script.methods
        assert State.FAILED not in ear.heard.all
        await program.script.asked.until("ping")


async def test_a_server_that_hangs_under_constant_load_is_found_out() -> None:
    """There is always a call in flight, but for longer than a call may take none was answered."""
    slow = replace(SPEC, timeouts=Timeouts(call_s=0.1))
    program = Program(honest(ping=None, tools_list=None, tools_call=None))
    async with keeping(program, QUICK, slow) as (pool, ear), anyio.create_task_group() as tasks:

        async def load(pause_s: float) -> None:
            await anyio.sleep(pause_s)
            while True:
                with pytest.raises((CallTimeoutError, ConnectionLostError, ServerUnavailableError)):
                    async with pool.connection(NAME) as connection:
                        await connection.call_tool("t", call("t"), timeout_s=0.1, caller=NOT_ASKED)

        tasks.start_soon(load, 0.0)
        tasks.start_soon(load, 0.05)
        await ear.heard.until(State.FAILED)
        assert pool.health()[NAME].ended == "hang"
        tasks.cancel_scope.cancel()


async def test_a_server_that_is_used_is_not_asked_besides() -> None:
    """Any answer says that it is well."""
    program = Program(honest())
    async with keeping(program, replace(QUICK, check_every_s=0.1)) as (pool, _), pool.connection(NAME) as c:
        with anyio.move_on_after(0.5):
            while True:
                await c.call_tool("t", call("t"), timeout_s=SOON_S, caller=NOT_ASKED)
                await anyio.lowlevel.checkpoint()
        assert "ping" not in program.script.methods


@pytest.mark.parametrize("answers", [{"ping": refusal(-32601)}, {"ping": None, "tools_list": {"tools": []}}])
async def test_a_server_that_does_not_know_pings_is_no_worse_for_it(answers: dict[str, Json | None]) -> None:
    """An error is an answer; one that leaves the answer out is asked for its tools instead."""
    program = Program(honest(**answers))
    last = "ping" if answers["ping"] else "tools/list"
    async with keeping(program, QUICK) as (pool, ear):
        await touch(pool)
        with anyio.fail_after(LONG_S):
            while program.script.methods.count(last) < 4:
                await program.script.asked.until(last, times=program.script.methods.count(last) + 1)
        assert State.FAILED not in ear.heard.all


class Clinging(Program):
    """One whose connection is never done with being left, as HTTP to a server that hangs."""

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        async with super().connect(options) as connection:
            yield connection
            await anyio.sleep_forever()


async def test_a_server_that_hangs_keeps_neither_calls_nor_edits_nor_the_end_of_the_gateway_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over HTTP a session is ended by a request, which it answers as little as any other."""
    monkeypatch.setattr(server_task, "_LEAVE_S", 0.05)
    program = Clinging(honest(ping=None, tools_list=None))
    async with keeping(program, QUICK) as (pool, ear):
        await touch(pool)
        await ear.heard.until(State.FAILED)
        assert pool.health()[NAME].ended == "hang"
        await touch(pool)
        await pool.configure({NAME: replace(SPEC, args=("--other",))}, {})
        await touch(pool)
        await pool.configure({NAME: replace(SPEC, args=("--another",))}, {}, Supervision())
        await touch(pool)
    assert program.running == 0


async def test_a_call_that_its_caller_gave_up_says_nothing_of_how_long_the_next_one_takes() -> None:
    """The server may be at work on it still; the next one has all of its own time."""
    program = Program(honest(tools_call=None))
    async with keeping(program, Supervision()) as (pool, _), pool.connection(NAME) as connection:
        asked = partial(connection.call_tool, "t", call("t"), timeout_s=SOON_S, caller=NOT_ASKED)
        with anyio.move_on_after(0.01):
            await asked()
        given_up = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked)
            await program.script.asked.until("tools/call", times=2)
            assert connection.waiting_since is not None
            assert connection.waiting_since >= given_up
            tasks.cancel_scope.cancel()


# --- restarts ---------------------------------------------------------------------------------------------


async def test_a_server_that_runs_always_is_started_with_the_pool_and_whenever_it_ends() -> None:
    """Nobody has to call; it is never stopped for idleness, and never runs twice."""
    always = replace(SPEC, start="always", timeouts=Timeouts(idle_stop_s=0.01))
    program = Program(honest())
    async with keeping(program, Supervision(), always) as (pool, ear):
        await ear.heard.until("started")
        for times in (2, 3):
            program.crash()
            await ear.heard.until("started", times=times)
        assert [event.kind for event in ear.events] == ["restart", "restart"]
        assert ear.events[0].why == "exit: it exited with code 3; start 1 of that kind within 300 s"
        health = pool.health()[NAME]
        assert (health.restarts, health.ended, health.cage, health.starts) == (2, "exit", "jail", 3)
        await pool.configure({NAME: replace(always, start="on_demand")}, {})
        await ear.heard.until(State.IDLE)
    assert program.most == 1


async def test_a_server_that_is_started_on_demand_stays_down_until_the_next_call() -> None:
    program = Program(honest())
    async with keeping(program, Supervision()) as (pool, ear):
        await touch(pool)
        program.crash()
        await ear.heard.until(State.FAILED)
        assert ear.events == []
        await touch(pool)
        assert [event.kind for event in ear.events] == ["restart"]
        assert len(program.scripts) == 2


async def test_a_server_that_ended_too_often_is_given_up_until_it_is_configured_anew() -> None:
    """Calls are answered at once with the reason; nothing starts it, whatever it is."""
    always = replace(SPEC, start="always")
    program = Program(honest())
    async with keeping(program, Supervision(restarts=2), always) as (pool, ear):
        for times in (1, 2, 3):
            await ear.heard.until("started", times=times)
            program.crash()
        await ear.heard.until("suspend")
        why = "it had to be started again 2 times within 300 s and ended once more: it exited with code 3"
        assert ear.events[-1] == SupervisionEvent(kind="suspend", why=why)
        assert pool.refused()[NAME].state is State.SUSPENDED
        with pytest.raises(ServerUnavailableError, match=why):
            await touch(pool)
        assert len(program.scripts) == 3
        await pool.configure({}, {})
        assert pool.health()[NAME].last_error == "it exited with code 3", (
            "what it was suspended for is still told"
        )
        await pool.configure({NAME: always}, {})
        await ear.heard.until("started", times=4)
        assert pool.health()[NAME].restarts == 0


async def test_a_server_that_was_refused_is_said_to_have_recovered_once_it_has_run_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is started and ends again and again has not, however often it was started."""
    monkeypatch.setattr(supervision, "STABLE_S", 0.4)
    program = Program(honest())
    always = replace(SPEC, start="always")
    async with keeping(program, Supervision(), always) as (_, ear):
        for times in (1, 2, 3, 4):
            await ear.heard.until("started", times=times)
            program.crash()
        await ear.heard.until("recover")
    recovered = [event.why for event in ear.events if event.kind == "recover"]
    assert recovered == ["it runs well again after 4 failures in a row"]


async def test_no_server_is_started_before_the_pool_is_ready_for_it() -> None:
    """What a killed gateway left is ended first, or a server would run twice."""
    ready, program = anyio.Event(), Program(honest())
    pool = BackendPool(lambda _: program, max_starting=1, on_close=lambda: None, prepare=ready.wait)
    async with pool:
        await pool.configure({NAME: SPEC}, {})
        with anyio.move_on_after(0.05) as scope:
            await touch(pool)
        assert scope.cancelled_caught
        assert program.scripts == []
        ready.set()
        await touch(pool)
    assert program.most == 1
