"""How much a principal may call: refused calls say when to come back, on every surface, and take nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from tests.access.house import opened, settings_of
from tests.support.viewers import agent

from maitred.access.rate_limit import LimitReached, RateLimits, TeamLimits
from maitred.access.shared_limits import SharedLimiter
from maitred.backends.base import NOT_ASKED
from maitred.config.settings import AccessSettings
from maitred.errors import BusyError
from maitred.gateway import Gateway
from maitred.model.tools import ToolCall
from maitred.storage.shared_state import Allowance, MemoryState, Shortage
from maitred.surfaces.http.app import application
from maitred.surfaces.mcp.server import McpSurface

pytestmark = pytest.mark.anyio

READ = ToolCall(name="files__read_note", arguments={})
CHAIN = "import asyncio, files\nreturn await asyncio.gather(files.read_note(), files.read_note())"


async def over_mcp(gateway: Gateway, name: str) -> dict[str, Any]:
    surface = McpSurface(gateway, viewer=agent("ann"))
    arguments = {"name": READ.name}
    sent = {"name": name, "arguments": arguments if name == "call_tool" else {}}
    return await surface.call_tool(sent, "2025-11-25", NOT_ASKED, surface.viewers.stateless)


async def test_calls_over_the_rate_are_refused_everywhere_until_the_bucket_fills(tmp_path: Path) -> None:
    """Each principal has a bucket of its own, whichever way its calls come in."""
    async with opened(settings_of(tmp_path, access=AccessSettings(calls_per_minute=1, burst=2))) as gateway:
        await gateway.call(READ, viewer=agent("ann"))
        await gateway.call(READ, viewer=agent("ann"))
        with pytest.raises(BusyError, match="'ann' may call 1 times a minute; try again in 60 s"):
            await gateway.call(READ, viewer=agent("ann"))
        answers = [await over_mcp(gateway, name) for name in ("call_tool", READ.name)]
        chain = await gateway.run_chain("files.read_note()", viewer=agent("ann"))
        other = await gateway.call(READ, viewer=agent("bob"))

    for answer in answers:
        assert answer["isError"]
        assert "try again in" in answer["content"][0]["text"]
    assert not chain.ok
    assert "try again in" in chain.text
    assert other["content"][0]["text"] == "files/read_note"


async def test_over_http_a_refused_call_is_429_and_says_when_to_try_again(tmp_path: Path) -> None:
    path = "/api/v1/tools/files/read_note/call"
    async with opened(settings_of(tmp_path, access=AccessSettings(calls_per_minute=6))) as gateway:
        app = application(gateway, gateway.settings.http, PlainTextResponse("MCP"))
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first, second = [await client.post(path, json={}) for _ in range(2)]

    assert first.status_code == 200
    assert (second.status_code, second.json()["error"]) == (429, "busy")
    assert 1 <= int(second.headers["retry-after"]) <= 10


async def test_only_so_many_calls_run_at_once_those_inside_chains_included(tmp_path: Path) -> None:
    """One that has ended makes room; a saved chain takes none itself."""
    async with opened(settings_of(tmp_path, access=AccessSettings(calls_at_once=1))) as gateway:
        both = await gateway.run_chain(CHAIN, viewer=agent("ann"))
        after = [await gateway.call(READ, viewer=agent("ann")) for _ in range(3)]

    assert not both.ok
    assert "1 of 1 calls of 'ann' are running" in both.text
    assert [answer["content"][0]["text"] for answer in after] == 3 * ["files/read_note"]


class CountedState(MemoryState):
    """A state of several gateways that counts how often it is asked for a call."""

    is_shared = True
    asked = 0

    async def admit(self, allowances: Sequence[Allowance], holder: str) -> Shortage | None:
        """Count it."""
        self.asked += 1
        return await super().admit(allowances, holder)


async def test_a_caller_without_limits_costs_the_shared_store_nothing() -> None:
    """Though others have some."""
    state = CountedState()
    limiter = SharedLimiter(state, lambda: 2)
    team = TeamLimits(name="shop", limits=RateLimits(at_once=1))
    free = await limiter.enter("ann", RateLimits(), team=TeamLimits(name="desk", limits=RateLimits()))
    assert not isinstance(free, LimitReached)
    await limiter.leave(free)
    assert state.asked == 0
    held = await limiter.enter("ben", RateLimits(), team=team)
    assert not isinstance(held, LimitReached)
    assert isinstance(await limiter.enter("eve", RateLimits(), team=team), LimitReached)
    await limiter.leave(held)
    assert state.asked == 2
