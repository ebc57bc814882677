"""How long facts last, and to whom they are shown: they go with the server's state and the connection."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import anyio
import pytest
from tests.gateway.debugging import call, debugging, gateway_of, hidden, settings_with
from tests.gateway.rig import SOON_S, Upstream
from tests.gateway.test_visibility_lists import Rider, riding, surface_of
from tests.support.debugger_server import TOOLS, DebuggerServer

from maitred.config.settings import VisibilitySettings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.servers import Timeouts
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

PAUSED = ("chrome_connect", "debugger_enable", "debugger_pause")


async def told(gateway: Gateway, true: Callable[[], bool]) -> None:
    """Wait until something is true; it is looked at whenever other tools may make sense."""
    news = anyio.Event()

    def heard() -> None:
        news.set()

    gateway.listen(lists=heard, resource=lambda *_: None, visibility=heard)
    with anyio.fail_after(SOON_S):
        while not true():
            await news.wait()
            news = anyio.Event()


async def test_a_server_that_stopped_has_forgotten_its_state_before_it_is_started_again(
    tmp_path: Path,
) -> None:
    """Else a call that made sense to the process that is gone would be made to the next one."""
    settings = debugging(tmp_path)
    brief = replace(settings.servers["debugger"], timeouts=Timeouts(idle_stop_s=0.3))
    async with gateway_of(replace(settings, servers={"debugger": brief}), DebuggerServer()) as gateway:
        await call(gateway, "chrome_connect")
        assert len(TOOLS) - len(hidden(gateway)) == 12
        await told(gateway, lambda: len(TOOLS) - len(hidden(gateway)) == 3)


async def test_changed_rules_neither_restart_a_server_nor_forget_its_state(tmp_path: Path) -> None:
    """Whoever corrects a rule while the debugger has paused finds it paused. Other facts begin anew."""
    settings = debugging(tmp_path)
    spec = settings.servers["debugger"]
    rules = {**spec.visibility["visible_when"], "navigate": "true"}
    facts = {**spec.visibility["facts"], "more": 0}
    async with gateway_of(settings, DebuggerServer()) as gateway:
        for tool in PAUSED:
            await call(gateway, tool)
        before = hidden(gateway)
        changed = replace(spec, visibility={**spec.visibility, "visible_when": rules})
        await gateway.configure(replace(settings, servers={"debugger": changed}), viewer=LOCAL_USER)
        assert hidden(gateway) == before - {"navigate"}
        assert gateway.servers(LOCAL_USER)[0].health.starts == 1
        await call(gateway, "debugger_step_over")
        changed = replace(spec, visibility={**spec.visibility, "facts": facts})
        await gateway.configure(replace(settings, servers={"debugger": changed}), viewer=LOCAL_USER)
        assert len(TOOLS) - len(hidden(gateway)) == 3


async def test_a_server_that_is_configured_otherwise_has_forgotten_its_state(tmp_path: Path) -> None:
    """At once, not only when it is next started."""
    settings = debugging(tmp_path)
    spec = settings.servers["debugger"]
    async with gateway_of(settings, DebuggerServer()) as gateway:
        await call(gateway, "chrome_connect")
        other = replace(spec, timeouts=Timeouts(call_s=77))
        await gateway.configure(replace(settings, servers={"debugger": other}), viewer=LOCAL_USER)
        assert len(TOOLS) - len(hidden(gateway)) == 3


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_resources_and_prompts_tell_a_client_of_its_own_state(tmp_path: Path, era: str) -> None:
    """A page read as a resource marks the tools as `list_tools_meta` does for the same client."""
    server = DebuggerServer()
    async with (
        surface_of(tmp_path, server, VisibilitySettings(debounce_ms=0)) as (_, surface),
        riding(surface, era) as one,
        riding(surface, "legacy") as other,
    ):
        await one.call("chrome_connect")
        marks = [(await page(rider)).count("[not available now]") for rider in (one, other)]
        asked = [
            await rider.client.get_prompt("find_tool", {"task": "open an address"}) for rider in (one, other)
        ]

    assert marks == [23 - 12, 23 - 3]
    lines = [re.findall(r"debugger__navigate\(.*?\\n", prompt.model_dump_json())[0] for prompt in asked]
    assert ["not available now" in line for line in lines] == [False, True]


async def page(rider: Rider) -> str:
    result = await rider.client.read_resource("maitred://server/debugger/tools")
    return result.contents[0].model_dump_json()


async def test_a_full_hour_is_told_where_a_rule_in_python_may_read_it(tmp_path: Path) -> None:
    """The clock stands just before the hour; a gateway without such rules is left alone."""
    news = anyio.Event()
    settings = settings_with(tmp_path, {"visible_when": {"deploy": {"rule": "at_ten"}}}, "s")
    rules = {"at_ten": lambda _, facts: facts["time.hour"] == 10}
    with anyio.fail_after(2 * SOON_S):
        async with open_gateway(
            settings, in_process={"s": Upstream("s", {"deploy": "Deploy it."}).sdk()}, rules=rules
        ) as gateway:
            assert await gateway.settled(SOON_S)
            clock = iter([datetime(2026, 1, 5, 9, 59, 59, 990_000).astimezone()])
            visibility = gateway._visibility
            visibility._now = lambda: next(clock, datetime(2026, 1, 5, 10).astimezone())
            gateway.listen(lists=lambda: None, resource=lambda *_: None, visibility=news.set)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(visibility.keep_time)
                await news.wait()
                tasks.cancel_scope.cancel()
            assert not visibility.hidden(LOCAL_USER)
