"""The routes about calls that wait for a person."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from tests.held_calls.bank import OVER_100, Bank, calling, opened

from maitred.gateway import Gateway
from maitred.model.access import Role
from maitred.surfaces.http.app import application

pytestmark = pytest.mark.anyio

MUCH = {"amount": 150, "note": "to\u202e bob"}


@asynccontextmanager
async def asking(gateway: Gateway, role: Role = "admin") -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the API without a token, who has this role."""
    app = application(gateway, replace(gateway.settings.http, anonymous=role), PlainTextResponse("MCP"))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_a_held_call_is_listed_shown_and_approved(tmp_path: Path) -> None:
    async with opened(tmp_path, Bank(), OVER_100) as gateway, asking(gateway) as client:
        async with calling(gateway, MUCH) as (call, held):
            [listed] = (await client.get("/api/v1/calls")).json()["calls"]
            assert listed == (await client.get(f"/api/v1/calls/{held.id}")).json()
            assert (listed["principal"], listed["tool"], listed["state"]) == (
                "ann",
                "bank__refund",
                "waiting",
            )
            assert listed["arguments"] == MUCH
            assert listed["arguments_text"] == '{"amount": 150, "note": "to\\u202e bob"}'
            wrong = await client.post(f"/api/v1/calls/{held.id}/decision", json={"decision": "any"})
            assert (wrong.status_code, wrong.json()["error"]) == (409, "decision_forbidden")
            done = await client.post(f"/api/v1/calls/{held.id}/decision", json={"decision": "once"})
            assert (done.status_code, done.json()["decision"]) == (200, "once")
        assert call.text == "done refund"
        again = await client.post(f"/api/v1/calls/{held.id}/decision", json={"decision": "refuse"})
        assert (again.status_code, again.json()["error"]) == (409, "decision_forbidden")
        assert (await client.get("/api/v1/calls")).json() == {"calls": []}
        assert (await client.get("/api/v1/calls/nothing")).status_code == 404
        bad = await client.post(f"/api/v1/calls/{held.id}/decision", json={"decision": "yes"})
        assert bad.status_code == 422


async def test_who_may_not_approve_learns_nothing_of_held_calls(tmp_path: Path) -> None:
    async with opened(tmp_path, Bank(), OVER_100) as gateway, asking(gateway, "operator") as client:
        for address in ("/api/v1/calls", "/api/v1/calls/nothing"):
            answer = await client.get(address)
            assert (answer.status_code, answer.json()["error"]) == (403, "not_allowed")


async def test_a_call_over_the_api_that_is_not_decided_says_so(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100, wait_s=0.01) as gateway, asking(gateway, "agent") as client:
        answer = await client.post("/api/v1/tools/bank/refund/call", json={"arguments": {"amount": 150}})
    assert (answer.status_code, answer.json()["error"]) == (409, "call_not_approved")
    assert "no person decided" in answer.json()["reason"]
    assert bank.made == []
