"""Servers and tools are switched off and on by HTTP: in the file, at once, and by an admin alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.gateway.test_tool_choices import REFUND, configuration
from tests.surfaces.http.rig import SOON_S
from tests.surfaces.http.seen_as import As
from tests.surfaces.http.test_admission import CLOCK, Client

from maitred.config.load import load
from maitred.model.access import Role
from maitred.surfaces.http.app import api
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

CALL = "/tools/shop/refund/call"
BODY: dict[str, Any] = {"json": {"arguments": {}}}


@asynccontextmanager
async def shop(folder: Path) -> AsyncIterator[tuple[Path, Client]]:
    """The API of a gateway over a configuration with remarks, and the file."""
    path = configuration(folder)
    with anyio.fail_after(SOON_S):
        async with open_gateway(load(path)) as gateway:
            assert await gateway.settled(SOON_S)
            seen_as = As(api(gateway))
            transport = httpx2.ASGITransport(app=seen_as)
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                yield path, Client(gateway, http, seen_as)


async def test_a_tool_and_a_server_are_switched_off_and_on(tmp_path: Path) -> None:
    """Calls are refused with the reason; the file comes back as it was, and the audit trail has all of it."""
    async with shop(tmp_path) as (path, client):
        before = path.read_text()
        tool = await client.ask(200, "POST", "/tools/shop/refund/disable")
        written = load(path).tools[REFUND].enabled
        refused = await client.ask(409, "POST", CALL, **BODY)
        back = await client.ask(200, "POST", "/tools/shop/shop__refund/enable")
        works = await client.status("POST", CALL, **BODY)

        server = await client.ask(200, "POST", "/servers/shop/disable")
        stopped = load(path).servers["shop"].enabled
        gone = await client.ask(409, "POST", CALL, **BODY)
        seen = await client.ask(200, "GET", "/servers/shop")
        await client.ask(200, "POST", "/servers/shop/enable")
        again = await client.status("POST", CALL, **BODY)
        after = path.read_text()
        trail = (await client.ask(200, "GET", "/audit"))["lines"]

    assert tool == {"server": "shop", "tool": "refund", "enabled": False}
    assert back == {**tool, "enabled": True}
    assert not written
    assert "switched off by the operator" in refused["message"]
    assert server == {"server": "shop", "tool": "", "enabled": False}
    assert not stopped
    assert "disabled in the configuration" in gone["message"]
    assert seen["enabled"] is False
    assert (works, again) == (200, 200)
    assert after == before
    done = [line["action"] for line in trail if line["action"] in ("tool.change", "server.switch")]
    assert sorted(done) == ["server.switch"] * 2 + ["tool.change"] * 2


@pytest.mark.parametrize("role", ["viewer", "agent", "operator"])
async def test_only_an_admin_switches(tmp_path: Path, role: Role) -> None:
    async with shop(tmp_path) as (path, client):
        before = path.read_bytes()
        client.act_as(role)
        for what in ("servers/shop/disable", "servers/shop/enable", "tools/shop/refund/disable"):
            assert (await client.ask(403, "POST", f"/{what}"))["error"] == "not_allowed"
        assert path.read_bytes() == before


async def test_what_is_not_there_or_not_in_the_file_is_refused(tmp_path: Path) -> None:
    """With the nearest names; a registered server is suspended instead."""
    async with shop(tmp_path) as (path, client):
        before = path.read_bytes()
        server = await client.ask(404, "POST", "/servers/shup/disable")
        tool = await client.ask(404, "POST", "/tools/shop/refnd/disable")
        await client.ask(202, "POST", "/servers", content=CLOCK)
        registered = await client.ask(422, "POST", "/servers/clock/disable")
        assert path.read_bytes() == before

    assert server["nearest"] == ["server/shop"]
    assert tool["nearest"] == ["shop__refund"]
    assert "`maitred suspend` takes it out of use" in registered["message"]
