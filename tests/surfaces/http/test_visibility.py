"""The API tells which tools make sense now, and refuses calls of the others."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from tests.gateway.debugging import DECLARED, call, gateway_of, settings_with
from tests.support.debugger_server import DebuggerServer

from maitred.gateway import Gateway
from maitred.surfaces.http.app import application

pytestmark = pytest.mark.anyio

STEP = "/api/v1/tools/debugger/debugger_step_over"
WHY = "it needs a paused debugger; call debugger__chrome_connect, then debugger__debugger_enable, then"
STEPS = ("chrome_connect", "debugger_enable", "debugger_pause")


@asynccontextmanager
async def served(
    folder: Path, server: DebuggerServer, declared: Mapping[str, Any] = DECLARED
) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    settings = settings_with(folder, declared)
    async with gateway_of(settings, server) as gateway:
        transport = httpx2.ASGITransport(app=application(gateway, settings.http, PlainTextResponse("MCP")))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield gateway, client


async def test_a_call_of_a_hidden_tool_is_a_conflict_with_the_reason(tmp_path: Path) -> None:
    """409, and its server hears nothing; after the calls that the reason names it is made."""
    server = DebuggerServer()
    async with served(tmp_path, server) as (gateway, client):
        refused = await client.post(f"{STEP}/call", json={"arguments": {}})
        for tool in STEPS:
            await call(gateway, tool)
        made = await client.post(f"{STEP}/call", json={"arguments": {}})

    assert refused.status_code == 409
    assert refused.json()["error"] == "tool_withheld"
    assert WHY in refused.json()["message"]
    assert made.status_code == 200
    assert made.json()["isError"] is False
    assert server.made == [*STEPS, "debugger_step_over"]


async def test_a_call_that_makes_tools_available_names_them(tmp_path: Path) -> None:
    """As it does for agents."""
    async with served(tmp_path, DebuggerServer()) as (_, client):
        answer = await client.post("/api/v1/tools/debugger/chrome_connect/call", json={"arguments": {}})

    assert "debugger__navigate" in answer.json()["_meta"]["maitred/available"]


async def test_search_and_the_page_of_a_tool_say_why_not(tmp_path: Path) -> None:
    """Until it is available."""
    async with served(tmp_path, DebuggerServer()) as (gateway, client):
        told = []
        for tool in ("", *STEPS):
            if tool:
                await call(gateway, tool)
            found = await client.get("/api/v1/tools/search", params={"q": "step over to the next line"})
            hits = {hit["name"]: hit["why_not"] for hit in found.json()["results"]}
            page = (await client.get(STEP)).json()["withheld"]
            assert hits["debugger__debugger_step_over"] == page
            told.append(page.partition(";")[0])

    assert told == ["needs a paused debugger"] * 3 + [""]


async def test_a_page_that_was_kept_is_not_sent_when_other_tools_make_sense(tmp_path: Path) -> None:
    """Pages are kept as bytes; those that tell of the state last as long as the state."""
    async with served(tmp_path, DebuggerServer()) as (gateway, client):
        for tool in STEPS:
            await call(gateway, tool)
        before = await client.get(STEP)
        hot = await client.get("/api/v1/tools/hot")
        assert (await client.get(STEP)).headers["etag"] == before.headers["etag"]
        await call(gateway, "debugger_resume")
        after = await client.get(STEP, headers={"If-None-Match": before.headers["etag"]})
        hot_after = await client.get("/api/v1/tools/hot")

    assert before.json()["withheld"] == ""
    assert after.status_code == 200
    assert "needs a paused debugger" in after.json()["withheld"]
    assert "debugger__debugger_step_over" in names(hot) - names(hot_after)


def names(answer: httpx2.Response) -> set[str]:
    return {tool["name"] for tool in answer.json()["tools"]}


async def test_a_page_tells_the_reason_of_now_even_if_it_shows_as_much_as_before(tmp_path: Path) -> None:
    """The reason names the facts, and these changed."""
    declared = {
        "facts": {"looks": 0},
        "on_success": {"chrome_list_connections": {"looks": {"add": 1}}},
        "visible_when": {"debugger_step_over": "looks > 5"},
    }
    async with served(tmp_path, DebuggerServer(), declared) as (gateway, client):
        told = []
        for _ in range(3):
            told.append((await client.get(STEP)).json()["withheld"].partition(";")[0])
            await call(gateway, "chrome_list_connections")

    assert told == [f"needs `looks > 5` (looks is {count})" for count in (0, 1, 2)]
