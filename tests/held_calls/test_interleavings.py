"""A thousand random interleavings of calls, approvals, refusals, changes, expiries and restarts.

Two gateways share a database. Whatever happens in which order: no call is made that was not approved as it
is, and no approval is used twice.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from random import Random

import anyio
import pytest
from tests.catalog.databases import new_catalog
from tests.held_calls.processes import WAIT_S, Process, World

from maitred.errors import DecisionError
from maitred.model.access import LOCAL_USER
from maitred.model.held_calls import CallDecision

pytestmark = pytest.mark.anyio

WORLDS, LINES, MOVES = 20, 50, 5


async def line(world: World, number: int, random: Random) -> None:
    """One interleaving: moves around one tool, at the same time as all others."""
    name, version = f"t{number}", 1
    world.state.define(name, version)
    scopes: list[anyio.CancelScope] = []
    for move in ["call", *random.choices([*MIX], [*MIX.values()], k=MOVES)]:
        process = random.choice(world.processes)
        if move == "call":
            scopes.append(anyio.CancelScope())
            world.tasks.start_soon(process.call, name, random.choice((1, 1, 2)), scopes[-1])
        elif move == "change":
            version += 1
            world.state.define(name, random.choice((1, version)))
        elif move == "leave":
            random.choice(scopes).cancel()
        elif move == "expire":
            world.now += timedelta(seconds=random.choice((1, 31, WAIT_S)))
        elif move == "restart":
            process.end(killed=random.random() < 0.5)
            world.processes[world.processes.index(process)] = world.start()
        else:
            await decide(world, process, name, random)
        for _ in range(random.randrange(3)):
            await anyio.sleep(0.01)
    await anyio.sleep(0.1)
    for scope in scopes:
        scope.cancel()


MIX: Mapping[str, float] = {
    "call": 4, "once": 8, "change": 0.7, "leave": 0.7, "expire": 0.03, "restart": 0.03,
}  # fmt: skip


async def decide(world: World, process: Process, name: str, random: Random) -> None:
    """Decide on a call that waits; a person looks a few times before there is one."""
    for _ in range(5):
        if waiting := process.database.waiting(name):
            break
        await anyio.sleep(0.02)
    else:
        return
    held = await process.service.get(random.choice(waiting), LOCAL_USER)
    decision: CallDecision = random.choices(held.choices, [12, 1, 1, 4][-len(held.choices) :])[0]
    try:
        await process.service.decide(held.id, decision, LOCAL_USER)
    except DecisionError:
        return
    if decision == "once":
        world.approved[held.binding.digest] += 1
    elif decision != "refuse":
        world.lasting.add(held.binding.digest if decision == "session" else held.binding.tool_digest)


@pytest.mark.parametrize("seed", range(WORLDS))
async def test_no_call_is_made_that_was_not_approved_as_it_is_and_none_twice(
    tmp_path: Path, seed: int
) -> None:
    new_catalog(tmp_path)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            world = World(folder=tmp_path, tasks=tasks)
            world.processes = [world.start(), world.start()]
            async with anyio.create_task_group() as lines:
                for number in range(LINES):
                    lines.start_soon(line, world, number, Random(seed * LINES + number))
            for process in world.processes:
                process.end(killed=False)
    for database in world.databases:
        await database.close()
    made = Counter(digest for digest, of_tool in world.made if not {digest, of_tool} & world.lasting)
    assert made <= world.approved
    assert world.made
