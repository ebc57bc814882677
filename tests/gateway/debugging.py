"""A gateway before the debugging server of 23 tools, and what is to be seen by the server's real state."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from ruamel.yaml import YAML
from tests.disclosure.test_visibility import MANIFEST, expected_in
from tests.gateway.rig import SOON_S, settings_of
from tests.support.debugger_server import DebuggerServer
from tests.support.viewers import agent

from maitred.config.settings import Settings
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

DECLARED: Mapping[str, Any] = YAML(typ="safe").load(MANIFEST.read_text())["visibility"]
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "chrome_connect": {"connection_id": "auto"},
    "chrome_switch_connection": {"connection_id": "auto-0"},
    "chrome_disconnect": {"connection_id": "auto-0"},
    "query_elements": {"selector": "a"},
    "click_element": {"selector": "a"},
    "fill_element": {"selector": "a", "text": "b"},
    "navigate": {"url": "http://x.test"},
    "debugger_set_breakpoint": {"url": "x.js", "line_number": 1},
    "debugger_remove_breakpoint": {"breakpoint_id": "b0"},
    "debugger_evaluate_on_call_frame": {"call_frame_id": "0", "expression": "1"},
    "debugger_set_pause_on_exceptions": {"state": "all"},
}
ANN = agent("ann")


def settings_with(
    folder: Path, declared: Mapping[str, Any], name: str = "debugger", **fields: Any
) -> Settings:
    settings = settings_of(folder, name, **fields)
    return replace(settings, servers={name: replace(settings.servers[name], visibility=declared)})


def debugging(folder: Path, **fields: Any) -> Settings:
    return settings_with(folder, DECLARED, **fields)


@asynccontextmanager
async def gateway_of(settings: Settings, server: DebuggerServer, **more: Any) -> AsyncIterator[Gateway]:
    with anyio.fail_after(4 * SOON_S):
        async with open_gateway(settings, in_process={server.name: server.sdk()}, **more) as gateway:
            assert await gateway.settled(SOON_S)
            yield gateway


async def call(gateway: Gateway, tool: str, viewer: Viewer = LOCAL_USER) -> dict[str, Any]:
    request = ToolCall(name=f"debugger__{tool}", arguments=ARGUMENTS.get(tool, {}))
    return await gateway.call(request, viewer=viewer)


def sensible(server: DebuggerServer) -> frozenset[str]:
    """What makes sense in the state that the server is really in."""
    state = server.state
    return expected_in(
        state["connections"],
        active=state["active"],
        enabled=state["debugger"]["enabled"],
        paused=state["debugger"]["paused"],
    )


def hidden(gateway: Gateway, viewer: Viewer = LOCAL_USER) -> set[str]:
    return {key.name for key in gateway._visibility.hidden(viewer)}
