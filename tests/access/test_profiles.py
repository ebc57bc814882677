"""Profiles over HTTP: the address of a client names one, and a token may be bound to one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.access.house import SOON_S, House
from tests.access.test_scopes import MODES, WAYS, told
from tests.interaction.harness import Mode, over_http

from maitred.model.access import LOCAL_USER
from maitred.model.profiles import Profile

pytestmark = pytest.mark.anyio

PROFILES = {"notes": Profile(servers=("files",)), "desk": Profile(tools=("tickets/list_*",))}


@pytest.fixture(scope="module")
async def desk(house: House) -> AsyncIterator[House]:
    """The house with profiles."""
    settings = house.gateway.settings
    await house.gateway.configure(replace(settings, profiles=PROFILES), viewer=LOCAL_USER)
    yield house
    await house.gateway.configure(settings, viewer=LOCAL_USER)


@asynccontextmanager
async def client_of(house: House, name: str, profile: str, mode: Mode) -> AsyncIterator[Any]:
    token = house.tokens[name]
    async with over_http(f"{house.url}/mcp?profile={profile}", mode, token=token) as client:
        yield client


@pytest.mark.parametrize("mode", MODES)
async def test_two_clients_of_one_principal_have_what_their_addresses_name(desk: House, mode: Mode) -> None:
    """At one gateway, at the same time, and neither calls what is the other's."""
    async with (
        client_of(desk, "agent", "notes", mode) as notes,
        client_of(desk, "agent", "desk", mode) as tickets,
        desk.mcp("agent", mode) as free,
    ):
        lists = [{tool.name for tool in (await one.list_tools()).tools} for one in (notes, tickets, free)]
        own = await told(tickets.call_tool("tickets__list_tickets", {}))
        other = await told(notes.call_tool("tickets__list_tickets", {}))
        chain = {"code": "return await call_tool('files__read_note', {})"}
        inside = await told(tickets.call_tool("call_tool_chain", chain))
        resource = await told(notes.read_resource("tickets://all"))

    assert lists[0] == {"files__read_note", "files__write_note"}
    assert lists[1] == {"tickets__list_tickets"}
    assert lists[2] == lists[0] | lists[1] | {"tickets__close_ticket"}
    assert "tickets/list_tickets" in own
    assert "'tickets__list_tickets' is not in the profile 'notes'" in other
    assert "'files__read_note' is not in the profile 'desk'" in inside
    assert "there is no" in resource


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_not_in_a_profile_is_on_no_page(desk: House, mode: Mode) -> None:
    """In no list, page, completion, prompt or resource, nor among the nearest names."""
    async with client_of(desk, "agent", "notes", mode) as client:
        found = {what: await told(way(client)) for what, way in WAYS.items()}

    for what, answer in found.items():
        seen = answer.replace("close_tickt", "").replace("category/communication", "")
        assert "ticket" not in seen, (what, answer)
        assert "communication" not in seen, (what, answer)


@pytest.mark.parametrize("mode", MODES)
async def test_a_profile_in_the_address_opens_nothing_for_a_scope(desk: House, mode: Mode) -> None:
    """It narrows: the token decides what is there at all."""
    async with client_of(desk, "files", "desk", mode) as client:
        assert (await client.list_tools()).tools == []
        refused = await told(client.call_tool("tickets__list_tickets", {}))

    assert "no access to the server 'tickets'" in refused


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("profile=nots", "There is no profile named 'nots'. Did you mean notes?"),
        ("profile=notes&profile=desk", "The address has several profiles"),
    ],
)
async def test_an_address_that_names_no_profile_is_refused(desk: House, query: str, why: str) -> None:
    """Before anything is answered: to go on without would be more than was asked for."""
    headers = {
        "Authorization": f"Bearer {desk.tokens['agent']}",
        "Accept": "application/json, text/event-stream",
    }
    async with httpx2.AsyncClient(timeout=SOON_S, headers=headers) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        answer = await client.post(f"{desk.url}/mcp?{query}", json=body)

    assert answer.status_code == 400
    assert why in answer.text


@pytest.mark.parametrize("mode", MODES)
async def test_a_token_is_bound_to_a_profile_wherever_it_is_sent(
    desk: House, mode: Mode, tmp_path: Path
) -> None:
    """To the MCP endpoint with any address, and to the API."""
    async with desk.http("admin") as http:
        wanted = {"name": f"ci-{mode}", "role": "agent", "profile": "notes"}
        made = (await http.post("/api/v1/tokens", json=wanted)).json()
        wrong = await http.post("/api/v1/tokens", json={**wanted, "profile": "nots"})
    tokens = {**desk.tokens, "ci": made["token"]}
    bound = replace(desk, tokens=tokens)
    async with bound.mcp("ci", mode) as client, client_of(bound, "ci", "desk", mode) as both:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        nothing = (await both.list_tools()).tools
    async with bound.http("ci") as http:
        found = (await http.get("/api/v1/tools/search", params={"q": "list tickets"})).json()
        call = await http.post("/api/v1/tools/tickets/list_tickets/call", json={"arguments": {}})

    assert made["profile"] == "notes"
    assert wrong.status_code == 422
    assert "did you mean 'notes'" in wrong.text
    assert listed == {"files__read_note", "files__write_note"}
    assert nothing == []
    assert {one["server"] for one in found["results"]} <= {"files"}
    assert call.status_code == 403
    assert "not in the profile 'notes'" in call.json()["message"]
