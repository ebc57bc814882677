"""Approved servers for an orchestrator: what it takes, when that is new, and who may."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.support.gateway_http import over_http
from tests.surfaces.http.rig import SOON_S, settings_of
from tests.surfaces.http.test_admission import CLOCK, Client, opened

from maitred.model.access import LOCAL_USER, Scope
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

PATH = "/servers/configurations"


async def approve(client: Client, name: str) -> None:
    case = await client.ask(200, "GET", f"/servers/{name}/approval")
    await client.decide(200, name, "approve", seen=case["digest"])


async def test_an_approved_server_is_there_and_a_suspended_one_is_not(tmp_path: Path) -> None:
    async with opened(tmp_path) as client:
        await client.ask(202, "POST", "/servers", content=CLOCK)
        waits = await client.ask(200, "GET", PATH)
        await approve(client, "clock")
        approved = await client.ask(200, "GET", PATH)
        await client.decide(200, "clock", "suspend")
        suspended = await client.ask(200, "GET", PATH)
        await client.decide(200, "clock", "resume")
        again = await client.ask(200, "GET", PATH)

    assert waits["servers"] == suspended["servers"] == []
    [clock] = approved["servers"]
    assert (clock["server"], clock["approved_by"]) == ("clock", "ada")
    assert clock["manifest"] == {"name": "clock", "transport": "stdio", "command": "clock-mcp"}
    assert waits["revision"] == suspended["revision"] != approved["revision"]
    assert again["revision"] == approved["revision"]


async def test_what_the_orchestrator_has_is_not_sent_again(tmp_path: Path) -> None:
    """By `If-None-Match`; another manifest waits, and is there with another revision once it is approved."""
    async with opened(tmp_path) as client:
        await client.ask(202, "POST", "/servers", content=CLOCK)
        await approve(client, "clock")
        first = await client.ask(200, "GET", PATH)
        tag = {"If-None-Match": f'"{first["revision"]}"'}
        assert await client.status("GET", PATH, headers=tag) == 304
        await client.ask(202, "POST", "/servers", content=CLOCK + "args: [--utc]\n")
        assert (await client.ask(200, "GET", PATH, headers=tag))["servers"] == []
        await approve(client, "clock")
        other = await client.ask(200, "GET", PATH, headers=tag)

    assert other["servers"][0]["manifest"]["args"] == ["--utc"]
    assert other["revision"] != first["revision"]


async def test_a_token_of_other_servers_gets_none_of_them(tmp_path: Path) -> None:
    async with opened(tmp_path, trusted_commands=("clock-mcp",)) as client:
        await client.ask(201, "POST", "/servers", content=CLOCK)
        client.act_as("operator", Scope(servers=frozenset({"other"})))
        refused = await client.ask(403, "GET", PATH)
        client.act_as("operator", Scope(servers=frozenset({"clock"})))
        seen = await client.ask(200, "GET", PATH)

    assert refused["error"] == "not_allowed"
    assert [one["server"] for one in seen["servers"]] == ["clock"]


async def revisions(stream: httpx2.Response) -> AsyncIterator[str]:
    async for line in stream.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


async def test_the_stream_names_each_new_state_also_one_that_another_process_made(tmp_path: Path) -> None:
    """Who was away says what it has, and hears at once if that is old."""
    settings = settings_of(tmp_path, {})
    with anyio.fail_after(SOON_S):
        async with (
            open_gateway(settings) as gateway,
            open_gateway(settings) as another,
            over_http(gateway) as url,
            httpx2.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=SOON_S) as http,
        ):
            async with http.stream("GET", f"/api/v1{PATH}/changes") as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
                heard = revisions(stream)
                empty = await anext(heard)
                await another.register_server(CLOCK, source="test", viewer=LOCAL_USER)
                case = await another.case("clock", viewer=LOCAL_USER)
                await another.decide("clock", "approve", viewer=LOCAL_USER, seen=case.digest)
                after = await anext(heard)
                now = (await http.get(f"/api/v1{PATH}")).json()
            async with http.stream(
                "GET", f"/api/v1{PATH}/changes", headers={"Last-Event-ID": empty}
            ) as stream:
                missed = await anext(revisions(stream))

    assert [one["server"] for one in now["servers"]] == ["clock"]
    assert after == now["revision"] == missed != empty
