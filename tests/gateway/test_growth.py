"""A gateway that serves for long keeps no more than one that has just begun."""

import asyncio
import gc
import sys
from collections import Counter
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.support import growing_server

from maitred.config.settings import Catalog, Disclosure, Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.servers import ServerSpec
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SETTLE_S = 120.0
ROUND = 10
"""Operations of one round: four searches, three calls, a chain, a call that is cancelled, a changed list."""
ROUNDS = 24
TIMERS = 2_000
CACHED = ("Score", "SentenceFeatures")
"""What the scan caches of each text, up to a limit of its own."""
UNDER_WAY = 40
"""Objects that calls and discoveries hold which have not ended; their number is not the same each time."""


async def use(gateway: Gateway, first: int, rounds: int) -> None:
    """Mixed operations, none of which is the same as another."""

    def call(name: str, number: int) -> ToolCall:
        return ToolCall(name=f"s__{name}", arguments={"text": f"{name} {number}"})

    for number in range(first * ROUND, (first + rounds) * ROUND, ROUND):
        for place in range(4):
            await gateway.search([f"report number {number + place}"], viewer=LOCAL_USER)
        for place in range(3):
            await gateway.call(call("echo", number + place), viewer=LOCAL_USER)
        await gateway.run_chain(f's__echo(text="chain {number}")', viewer=LOCAL_USER)
        with anyio.move_on_after(0.01):
            await gateway.call(call("wait", number), viewer=LOCAL_USER)
        await gateway.call(call("change", number), viewer=LOCAL_USER)


async def held() -> Counter[str]:
    """How many objects of the gateway's classes there are, by class.

    The event loop keeps the timers of ended calls until most of its timers were cancelled, so it gets more.
    """
    loop = asyncio.get_running_loop()
    for _ in range(TIMERS):
        loop.call_later(SETTLE_S, loop.time).cancel()
    await anyio.lowlevel.checkpoint()
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    return Counter(
        kind.__name__ for kind in kinds if str(getattr(kind, "__module__", "")).startswith("maitred.")
    )


@pytest.mark.usefixtures("earlier_objects_kept")
async def test_searches_chains_cancelled_calls_and_changed_lists_leave_nothing_behind(tmp_path: Path) -> None:
    """Over a real server on stdio. Source: issue "Lean", Memory."""
    spec = ServerSpec(name="s", command=sys.executable, args=("-I", "-S", str(growing_server.__file__)))
    settings = Settings(
        source=tmp_path / "maitred.yaml",
        servers={"s": spec},
        catalog=Catalog(path=str(tmp_path / "catalog.db")),
        disclosure=Disclosure(mode="menu"),
    )
    async with open_gateway(settings) as gateway:
        assert await gateway.settled(SETTLE_S)
        await use(gateway, 0, ROUNDS)
        before = await held()
        await use(gateway, ROUNDS, ROUNDS)
        after = await held()

    growth = {kind: count - before[kind] for kind, count in after.items() if count > before[kind]}
    assert all(growth.pop(kind, 0) <= ROUNDS for kind in CACHED), growth
    assert sum(growth.values()) <= UNDER_WAY, growth
