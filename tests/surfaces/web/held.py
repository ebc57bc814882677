"""Calls that wait for a person while a test looks at them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from tests.surfaces.web.rig import SOON_S, House

from maitred.config.settings import HeldCallSettings, HoldRule
from maitred.errors import CallNotApprovedError
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.tools import ToolCall

HOLDS_BUYING = HeldCallSettings(rules=(HoldRule(when='tool == "buy"', session="any", because="It costs"),))


@dataclass(kw_only=True)
class HeldHere:
    """A call that waits; `text` is what its caller gets in the end."""

    id: str
    text: str = ""
    ended: anyio.Event = field(default_factory=anyio.Event)

    async def outcome(self) -> str:
        with anyio.fail_after(SOON_S):
            await self.ended.wait()
        return self.text


@asynccontextmanager
async def holding(house: House, call: ToolCall, viewer: Viewer = LOCAL_USER) -> AsyncIterator[HeldHere]:
    """A call that a rule holds, for as long as the context."""
    waits, before = anyio.Event(), {one.id for one in await house.gateway.held_calls(LOCAL_USER)}
    held = HeldHere(id="")

    async def make() -> None:
        try:
            result: dict[str, Any] = await house.gateway.call(call, viewer=viewer)
            held.text = result["content"][0]["text"]
        except CallNotApprovedError as error:
            held.text = str(error)
        held.ended.set()

    house.gateway.watch_held_calls(waits.set)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make)
        with anyio.fail_after(SOON_S):
            await waits.wait()
        [held.id] = {one.id for one in await house.gateway.held_calls(LOCAL_USER)} - before
        yield held
        tasks.cancel_scope.cancel()
