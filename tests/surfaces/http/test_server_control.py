"""Servers are restarted, listed again and read by HTTP, by operators alone."""

from pathlib import Path

import pytest
from tests.surfaces.http.test_switches import shop

from maitred.model.access import Role

pytestmark = pytest.mark.anyio


async def test_a_server_is_restarted_listed_again_and_read(tmp_path: Path) -> None:
    async with shop(tmp_path) as (_, client):
        listed = await client.ask(200, "POST", "/servers/shop/refresh")
        restarted = await client.ask(200, "POST", "/servers/shop/restart")
        written = await client.ask(200, "GET", "/servers/shop/output")
        unknown = await client.ask(404, "POST", "/servers/shp/restart")
        await client.ask(200, "POST", "/servers/shop/disable")
        off = await client.ask(200, "POST", "/servers/shop/restart")
        trail = (await client.ask(200, "GET", "/audit"))["lines"]
    assert (listed["server"], listed["error"], listed["added"]) == ("shop", "", [])
    assert restarted == listed
    assert written["server"] == "shop"
    assert "shop" in unknown["message"]
    assert off["error"] == "it is disabled in the configuration"
    assert [line["server"] for line in trail if line["action"] == "server.restart"] == ["shop"]


@pytest.mark.parametrize("role", ["viewer", "agent"])
async def test_only_an_operator_restarts(tmp_path: Path, role: Role) -> None:
    async with shop(tmp_path) as (_, client):
        client.act_as(role)
        for method, what in (("POST", "restart"), ("POST", "refresh"), ("GET", "output")):
            assert (await client.ask(403, method, f"/servers/shop/{what}"))["error"] == "not_allowed"
