"""Held calls where a test chooses what happens between two steps of a call, and what time it is."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.catalog.databases import new_catalog
from tests.held_calls.processes import RULES, WAIT_S, Process, World
from tests.support.callers import Answering
from tests.support.waiting import eventually

from maitred.config.settings import HeldCallSettings, HoldRule
from maitred.errors import CallNotApprovedError, DecisionError
from maitred.model.access import LOCAL_USER

pytestmark = pytest.mark.anyio

NEW_TOOLS = HoldRule(when="!seen_before")
OVER_100 = HoldRule(when="args.amount > 100")


@asynccontextmanager
async def a_world(folder: Path, *rules: HoldRule) -> AsyncIterator[World]:
    """A world without a gateway, with a tool `pay` and these rules; its gateways end with it."""
    new_catalog(folder)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            world = World(folder=folder, tasks=tasks)
            world.state.define("pay", 1)
            ruled(world, *rules)
            yield world
            tasks.cancel_scope.cancel()
    for database in world.databases:
        await database.close()


def ruled(world: World, *rules: HoldRule) -> None:
    held_calls = HeldCallSettings(rules=rules, wait_s=RULES.wait_s, webhook="https://example.org/held")
    world.state.settings = replace(world.state.settings, held_calls=held_calls)


@asynccontextmanager
async def waiting(gateway: Process, amount: int) -> AsyncIterator[tuple[str, anyio.CancelScope]]:
    """A call that waits: its id, and the scope of its client; when the context is left, it has ended."""
    came, scope = anyio.Event(), anyio.CancelScope()
    before = set(gateway.database.waiting("pay"))
    gateway.service.listen(came.set)
    async with anyio.create_task_group() as calls:
        calls.start_soon(gateway.call, "pay", amount, scope)
        await came.wait()
        [held_id] = set(gateway.database.waiting("pay")) - before
        yield held_id, scope


@pytest.mark.parametrize("before", [(), (HoldRule(when="args.amount > 1000"),)])
async def test_rules_that_are_stricter_by_now_hold_a_call_whose_server_was_started(
    tmp_path: Path, before: tuple[HoldRule, ...]
) -> None:
    async with a_world(tmp_path, *before) as world:
        gateway = world.start()
        call = gateway.new_call("pay", 150)
        if before:
            await gateway.service.admit(call)
        await gateway.service.recheck(call)
        ruled(world, OVER_100)
        with pytest.raises(CallNotApprovedError, match="its tool or the rules changed"):
            await gateway.service.recheck(call)


async def test_other_rules_let_a_call_pass_of_a_tool_that_was_seen_before(tmp_path: Path) -> None:
    """It is judged again with what is known of its tool, as it is by now."""
    async with a_world(tmp_path, NEW_TOOLS) as world:
        gateway = world.start()
        async with waiting(gateway, 1) as (held_id, _):
            await gateway.service.decide(held_id, "once", LOCAL_USER)
        assert len(world.made) == 1
        call = gateway.new_call("pay", 2)
        await gateway.service.admit(call)
        ruled(world, NEW_TOOLS, OVER_100)
        await gateway.service.recheck(call)
        world.state.define("pay", 2)
        with pytest.raises(CallNotApprovedError, match="its tool or the rules changed"):
            await gateway.service.recheck(call)


class Late(Answering):
    """A client whose person answers after an operator has decided at another gateway."""

    def __init__(self, elsewhere: Process) -> None:
        super().__init__(capabilities={"elicitation": {}})
        self._elsewhere = elsewhere

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        [held_id] = self._elsewhere.database.waiting("pay")
        await self._elsewhere.service.decide(held_id, "refuse", LOCAL_USER)
        return {"action": "accept"}


async def test_a_call_that_was_decided_elsewhere_is_announced_to_no_operator(tmp_path: Path) -> None:
    async with a_world(tmp_path, OVER_100) as world:
        gateway, other = world.start(), world.start()
        await gateway.call("pay", 150, anyio.CancelScope(), Late(other))
        assert gateway.announced == []
    assert world.made == []


async def test_an_approval_in_the_last_moment_counts(tmp_path: Path) -> None:
    """The gateway that holds the call notices it a moment after the time of the call is up."""
    async with a_world(tmp_path, OVER_100) as world:
        gateway, other = world.start(), world.start()
        async with waiting(gateway, 150) as (held_id, _):
            world.now += timedelta(seconds=WAIT_S - 0.1)
            await gateway.store.keep_alive()
            await other.service.decide(held_id, "once", LOCAL_USER)
            world.now += timedelta(seconds=1)
        assert len(world.made) == 1


async def test_arguments_of_a_call_that_was_approved_and_never_made_are_dropped(tmp_path: Path) -> None:
    """Also if no other call is held after it."""
    async with a_world(tmp_path, OVER_100) as world:
        gateway, other = world.start(), world.start()
        async with waiting(gateway, 150) as (held_id, scope):
            scope.cancel()
        await other.service.decide(held_id, "once", LOCAL_USER)
        assert gateway.database.arguments(held_id) == '{"amount":150}'
        world.now += timedelta(seconds=WAIT_S + 60)
        await eventually(lambda: gateway.database.arguments(held_id) == "")
    assert world.made == []


async def test_an_approval_that_ended_is_not_called_a_missing_decision(tmp_path: Path) -> None:
    async with a_world(tmp_path, OVER_100) as world:
        gateway = world.start(look_s=60)
        async with waiting(gateway, 150) as (held_id, _):
            world.now += timedelta(seconds=WAIT_S - 0.1)
            await gateway.store.keep_alive()
            await gateway.store.decide(held_id, "once", "eve")
            world.now += timedelta(seconds=60)
            gateway.service._inbox.hint()
        assert world.made == []
        [reason] = world.refused
        assert "a person approved it, but too late: its approval ended at 2026-03-01 00:10:29 UTC" in reason


async def test_after_a_sleep_of_the_machine_calls_still_wait(tmp_path: Path) -> None:
    async with a_world(tmp_path, OVER_100) as world:
        gateway, other = world.start(look_s=60), world.start()
        async with waiting(gateway, 150) as (held_id, _):
            world.now += timedelta(seconds=120)
            await gateway.look()
            await other.service.decide(held_id, "once", LOCAL_USER)
            await gateway.look()
        assert len(world.made) == 1
        assert gateway.expiries == []


@pytest.mark.parametrize("leaves", [False, True])
async def test_each_call_whose_time_is_up_expires_once_with_a_line(tmp_path: Path, *, leaves: bool) -> None:
    """Also one whose client has left, and whoever notices it first."""
    async with a_world(tmp_path, OVER_100) as world:
        gateway = world.start()
        async with waiting(gateway, 150) as (held_id, scope):
            if leaves:
                scope.cancel()
            else:
                world.now += timedelta(seconds=RULES.wait_s + 1)
        world.now += timedelta(seconds=RULES.wait_s + 1)
        await gateway.look()
        await gateway.look()
        assert gateway.database.waiting("pay") == []
        assert gateway.expiries == [f"held call {held_id} of 'p-pay'"]


async def test_the_same_call_made_again_late_has_its_whole_time(tmp_path: Path) -> None:
    """Its client made it just before the first one's time was up; it expires once, at the later time."""
    async with a_world(tmp_path, OVER_100) as world:
        gateway, other = world.start(), world.start()
        async with waiting(gateway, 150) as (first, scope):
            scope.cancel()
        until = (await gateway.service.get(first, LOCAL_USER)).expires_at
        world.now += timedelta(seconds=RULES.wait_s - 1)
        joined, again = anyio.Event(), anyio.CancelScope()
        gateway.service.listen(joined.set)
        world.tasks.start_soon(gateway.call, "pay", 150, again)
        await joined.wait()
        world.now += timedelta(seconds=RULES.wait_s - 1)
        await gateway.look()
        assert gateway.expiries == []
        assert gateway.database.waiting("pay") == [first]
        assert (await other.service.get(first, LOCAL_USER)).expires_at > until
        world.now += timedelta(seconds=2)
        await gateway.look()
        assert gateway.expiries == [f"held call {first} of 'p-pay'"]


async def test_a_call_that_was_decided_after_its_client_left_is_not_joined(tmp_path: Path) -> None:
    """It was refused: the same call again waits on its own, and a person is asked again."""
    async with a_world(tmp_path, OVER_100) as world:
        gateway = world.start()
        async with waiting(gateway, 150) as (first, scope):
            scope.cancel()
        await gateway.service.decide(first, "refuse", LOCAL_USER)
        async with waiting(gateway, 150) as (second, scope):
            assert second != first
            scope.cancel()
        assert gateway.expiries == []


async def test_a_client_that_leaves_while_its_call_is_stored_leaves_it_in_the_inbox(tmp_path: Path) -> None:
    async with a_world(tmp_path, OVER_100) as world:
        gateway, scope = world.start(), anyio.CancelScope()
        gateway.store.on_added = scope.cancel
        await gateway.call("pay", 150, scope)
        [held_id] = gateway.database.waiting("pay")
        gateway.store.on_added = None
        await gateway.service.decide(held_id, "once", LOCAL_USER)
        assert world.made == []
        await gateway.call("pay", 150, anyio.CancelScope())
        assert len(world.made) == 1


async def test_a_call_without_arguments_to_look_at_cannot_be_approved(tmp_path: Path) -> None:
    """Another gateway took the sleeping one for dead, and dropped the arguments of its calls."""
    async with a_world(tmp_path, OVER_100) as world:
        gateway, other = world.start(look_s=60), world.start()
        async with waiting(gateway, 150) as (held_id, _):
            world.now += timedelta(seconds=120)
            await other.store.keep_alive()
            await gateway.look()
            with pytest.raises(DecisionError, match="it is expired"):
                await other.service.decide(held_id, "once", LOCAL_USER)
        assert world.made == []
        assert len(gateway.expiries) == 1
