"""What lists say of tools that need a state, where no call may change the list: what the tool needs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types.version import LATEST_MODERN_VERSION
from tests.gateway.debugging import DECLARED, call, gateway_of, settings_with
from tests.support.debugger_server import DebuggerServer
from tests.support.gateway_http import in_process

from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Disclosure, Settings, VisibilitySettings
from maitred.gateway import Gateway

pytestmark = pytest.mark.anyio

WHEN = {"debugger_step_over": "era != 'x' && debugger.paused", "navigate": "connections > 0"}
BECAUSE = {"debugger_pause": {"when": "connections > 0", "because": "needs a connection"}}


def listing_all(folder: Path, **fields: Any) -> Settings:
    declared = {**DECLARED, "visible_when": {**WHEN, **BECAUSE}}
    return settings_with(folder, declared, disclosure=Disclosure(mode="all"), **fields)


async def descriptions(gateway: Gateway, era: str) -> dict[str, str]:
    """What a client's list says of each tool, by the server's own name."""
    async with in_process(gateway) as server, Client(server, mode=era) as client:
        tools = (await client.list_tools()).tools
    return {tool.name.removeprefix("debugger__"): tool.description or "" for tool in tools}


async def test_a_list_that_no_call_changes_says_what_a_tool_needs(tmp_path: Path) -> None:
    """The operator's words, or else the conditions about the state; the same whatever was called."""
    async with gateway_of(listing_all(tmp_path), DebuggerServer()) as gateway:
        plain = {tool.key.name: tool.description for tool in gateway.snapshot.tools}
        before = await descriptions(gateway, LATEST_MODERN_VERSION)
        await call(gateway, "chrome_connect")
        after = await descriptions(gateway, LATEST_MODERN_VERSION)

    assert before == after
    assert before["debugger_step_over"] == f"{plain['debugger_step_over']} (needs debugger.paused)"
    assert before["navigate"] == f"{plain['navigate']} (needs connections > 0)"
    assert before["debugger_pause"] == f"{plain['debugger_pause']} (needs a connection)"
    assert before["chrome_connect"] == plain["chrome_connect"]
    added = [before[name].removeprefix(plain[name]) for name in before if before[name] != plain[name]]
    assert max(count_tokens(added)) <= 8


async def test_a_list_that_changes_with_the_state_says_nothing_more(tmp_path: Path) -> None:
    """A client of the handshake era sees a tool only while it makes sense."""
    async with gateway_of(listing_all(tmp_path), DebuggerServer()) as gateway:
        shown = await descriptions(gateway, "legacy")

    assert "navigate" not in shown
    assert not [text for text in shown.values() if "(needs" in text]


async def test_a_list_that_shows_every_tool_says_it_to_every_client(tmp_path: Path) -> None:
    """With `visibility: all`, in both eras."""
    settings = replace(listing_all(tmp_path), visibility=VisibilitySettings(mode="all"))
    async with gateway_of(settings, DebuggerServer()) as gateway:
        shown = await descriptions(gateway, "legacy")

    assert shown["navigate"].endswith("(needs connections > 0)")
