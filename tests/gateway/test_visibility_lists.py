"""Lists by state, over MCP, for clients of both eras: what they hold, and when clients are told.

What is to be seen is told by the server's real state (`tests.gateway.debugging`), not by the rules.
"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from mcp import Client
from tests.gateway.debugging import (
    ARGUMENTS,
    debugging,
    gateway_of,
    sensible,
    settings_with,
)
from tests.gateway.rig import SOON_S, Upstream, opened
from tests.support.debugger_server import TOOLS, DebuggerServer

from maitred.config.settings import VisibilitySettings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.surfaces.mcp.server import McpSurface

pytestmark = pytest.mark.anyio

WALKS = 1_000
STEPS = 4


@dataclass
class Rider:
    """A client over MCP, what it was told, and a way to wait for it."""

    client: Client
    told: int = 0
    news: anyio.Event = field(default_factory=anyio.Event)

    def ring(self) -> None:
        self.told += 1
        self.news.set()
        self.news = anyio.Event()

    async def until(self, true: Callable[[], bool]) -> None:
        with anyio.fail_after(SOON_S):
            while not true():
                await self.news.wait()

    async def listed(self) -> frozenset[str]:
        tools = (await self.client.list_tools()).tools
        return frozenset(tool.name.removeprefix("debugger__") for tool in tools)

    async def call(self, tool: str, connection: str = "") -> types.CallToolResult:
        """Call a tool; one that makes or chooses a connection has its name."""
        more = {"connection_id": connection} if connection and tool.startswith("chrome_") else {}
        result = await self.client.call_tool(f"debugger__{tool}", {**ARGUMENTS.get(tool, {}), **more})
        assert isinstance(result, types.CallToolResult)
        return result


@asynccontextmanager
async def riding(surface: McpSurface, era: str) -> AsyncIterator[Rider]:
    riders: list[Rider] = []

    async def heard(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            riders[0].ring()

    async with Client(surface.server, mode=era, message_handler=heard if era == "legacy" else None) as client:
        riders.append(Rider(client=client, news=anyio.Event()))
        if era == "legacy":
            yield riders[0]
            return
        async with anyio.create_task_group() as tasks:
            await tasks.start(_follow, riders[0])
            yield riders[0]
            tasks.cancel_scope.cancel()


async def _follow(rider: Rider, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    async with rider.client.listen(tools_list_changed=True) as stream:
        task_status.started()
        async for _ in stream:
            rider.ring()


@asynccontextmanager
async def surface_of(
    folder: Path, server: DebuggerServer, visibility: VisibilitySettings
) -> AsyncIterator[tuple[Gateway, McpSurface]]:
    settings = debugging(folder, visibility=visibility)
    settings = replace(settings, disclosure=replace(settings.disclosure, mode="all"))
    async with gateway_of(settings, server) as gateway, anyio.create_task_group() as tasks:
        surface = McpSurface(gateway)
        tasks.start_soon(surface.announce)
        yield gateway, surface
        tasks.cancel_scope.cancel()


async def stepped(
    rider: Rider, server: DebuggerServer, chance: random.Random, seen: frozenset[str]
) -> frozenset[str]:
    """One call of any tool, sensible or not; what is to be seen after it, which the client was told once."""
    tool, made, told = chance.choice(sorted(TOOLS)), len(server.made), rider.told
    result = await rider.call(tool, chance.choice("ab"))
    assert (tool in seen) == (len(server.made) > made), "a hidden tool was called, or a visible one was not"
    if tool not in seen:
        assert result.is_error
        assert "cannot be called now: it needs" in result.content[0].text  # type: ignore[union-attr]
    now = sensible(server)
    if now != seen:
        await rider.until(lambda: rider.told > told)
        assert await rider.listed() == now
    assert rider.told - told == (now != seen)
    return now


async def test_a_thousand_walks_lose_and_double_no_notice_in_the_handshake_era(tmp_path: Path) -> None:
    """Each step is told once if it changes what is to be seen, and not at all otherwise. Source: issue."""
    server = DebuggerServer()
    chance = random.Random(20_261_122)
    async with (
        surface_of(tmp_path, server, VisibilitySettings(debounce_ms=0)) as (_, surface),
        riding(surface, "legacy") as rider,
    ):
        seen = await rider.listed()
        assert seen == sensible(server)
        for _walk in range(WALKS):
            for _step in range(STEPS):
                seen = await stepped(rider, server, chance, seen)
        assert await rider.listed() == sensible(server)


async def test_many_changes_at_once_are_told_as_one(tmp_path: Path) -> None:
    """Within the pause of the setting; a change that is undone is not told at all."""
    server = DebuggerServer()
    async with (
        surface_of(tmp_path, server, VisibilitySettings(debounce_ms=300)) as (_, surface),
        riding(surface, "legacy") as rider,
    ):
        await rider.listed()
        for tool in ("chrome_connect", "debugger_enable", "debugger_pause"):
            await rider.call(tool)
        await rider.until(lambda: rider.told > 0)
        assert await rider.listed() == sensible(server)
        for tool in ("debugger_resume", "debugger_pause"):
            await rider.call(tool)
        await rider.call("debugger_resume")
        await rider.until(lambda: rider.told > 1)
        assert await rider.listed() == sensible(server)
        assert rider.told == 2


async def test_connections_of_the_handshake_era_do_not_see_each_others_state(tmp_path: Path) -> None:
    """Nor are they told of it."""
    server = DebuggerServer()
    async with (
        surface_of(tmp_path, server, VisibilitySettings(debounce_ms=0)) as (_, surface),
        riding(surface, "legacy") as one,
        riding(surface, "legacy") as other,
    ):
        before = await other.listed()
        await one.listed()
        await one.call("chrome_connect")
        await one.until(lambda: one.told > 0)
        assert len(await one.listed()) == 12
        assert await other.listed() == before
        assert other.told == 0


async def test_a_list_of_the_stateless_era_is_the_same_whatever_is_called(tmp_path: Path) -> None:
    """Its revision forbids that calls change lists; calls and search know the state. Source: protocol."""
    server = DebuggerServer()
    chance = random.Random(20_261_122)
    async with (
        surface_of(tmp_path, server, VisibilitySettings(debounce_ms=0)) as (_, surface),
        riding(surface, "auto") as rider,
    ):
        before = (await rider.client.list_tools()).model_dump_json()
        for _walk in range(WALKS):
            seen = sensible(server)
            tool, made = chance.choice(sorted(TOOLS)), len(server.made)
            await rider.call(tool, chance.choice("ab"))
            assert (tool in seen) == (len(server.made) > made)
        after = (await rider.client.list_tools()).model_dump_json()

    assert before == after
    assert len(TOOLS) == before.count("debugger__")
    assert rider.told == 0


async def test_with_mode_all_everything_is_listed_and_a_call_still_says_why(tmp_path: Path) -> None:
    server = DebuggerServer()
    async with (
        surface_of(tmp_path, server, VisibilitySettings(mode="all")) as (_, surface),
        riding(surface, "legacy") as rider,
    ):
        assert await rider.listed() == set(TOOLS)
        result = await rider.call("debugger_pause")

    assert result.is_error
    assert server.made == []


async def test_a_rule_on_roles_hides_a_tool_from_lists_of_the_stateless_era_too(tmp_path: Path) -> None:
    """It is the same whatever is called; what a rule adds of the state does not hide there."""
    rules = {
        "one": "'owner' in roles",
        "two": "'admin' in roles && server.state == 'stopping'",
        "three": "'admin' in roles",
    }
    settings = settings_with(tmp_path, {"visible_when": rules}, "s")
    settings = replace(settings, disclosure=replace(settings.disclosure, mode="all"))
    async with opened(settings, Upstream("s", dict.fromkeys(rules, "Do it."))) as gateway:
        assert [tool.key.name for tool in gateway.listed(LOCAL_USER)] == ["three", "two"]
