"""Registration and approval by HTTP: statuses, refusals with all faults, roles, nothing approved unseen."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.surfaces.http.rig import SOON_S, House, settings_of
from tests.surfaces.http.seen_as import As

from maitred.admission.review import CHECKS
from maitred.config.settings import Admission
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Role, Scope
from maitred.surfaces.http.app import api
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

API = "/api/v1"
CLOCK = "name: clock\ncommand: clock-mcp\n"
EVIL = "name: Clock\ncommand: bash\nmemroy: 1g\nenv: {API_TOKEN: hunter2hunter2}\n"


class Client:
    """A client of the API as somebody with a role, an administrator at first."""

    def __init__(self, gateway: Gateway, http: httpx2.AsyncClient, seen_as: As) -> None:
        self.gateway = gateway
        self.act_as = seen_as.take
        self._http = http

    async def ask(self, status: int, method: str, path: str, **body: Any) -> Any:
        """The JSON of an answer that must have a status."""
        answer = await self._http.request(method, f"{API}{path}", **body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def status(self, method: str, path: str, **body: Any) -> int:
        return (await self._http.request(method, f"{API}{path}", **body)).status_code

    async def allowed(self, path: str) -> str:
        answer = await self._http.request("PUT", f"{API}{path}")
        assert answer.status_code == 405
        return str(answer.headers["allow"])

    async def decide(self, status: int, server: str, verdict: str, **more: Any) -> Any:
        return await self.ask(
            status, "POST", f"/servers/{server}/approval", json={"verdict": verdict, **more}
        )


@asynccontextmanager
async def opened(
    folder: Path, *, houses: Mapping[str, House] | None = None, **policy: Any
) -> AsyncIterator[Client]:
    """A gateway over servers in this process, under a policy."""
    houses = houses or {}
    settings = replace(settings_of(folder, houses), admission=Admission(**policy))
    servers = {name: house.server for name, house in houses.items()}
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, in_process=servers) as gateway:
            assert await gateway.settled(SOON_S)
            seen_as = As(api(gateway))
            transport = httpx2.ASGITransport(app=seen_as)
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                yield Client(gateway, http, seen_as)


# --- registering ------------------------------------------------------------------------------------------


async def test_a_server_waits_and_is_approved_by_what_was_seen(tmp_path: Path) -> None:
    """202, then among the approvals, then approved with its digest; a second approval is refused as stale."""
    async with opened(tmp_path) as client:
        made = await client.ask(202, "POST", "/servers", content=CLOCK)
        [waiting] = (await client.ask(200, "GET", "/approvals"))["cases"]
        whole = await client.ask(200, "GET", "/servers/clock/approval")
        unseen = await client.decide(422, "clock", "approve")
        stale = await client.decide(409, "clock", "approve", seen="0" * 12)
        done = await client.decide(200, "clock", "approve", seen=waiting["digest"], why="read it")
        after = await client.ask(200, "GET", "/approvals")
        known = await client.ask(200, "GET", "/approvals", params={"all": True})

    assert (made["happened"], made["case"]["state"]) == ("registered", "pending")
    assert made["decision"]["outcome"] == "needs approval"
    assert (waiting["server"], waiting["source"]) == ("clock", "http")
    assert [layer["layer"] for layer in whole["record"]["layers"]] == [check.layer for check in CHECKS]
    assert whole["manifest"]["command"] == "clock-mcp"
    assert "seen" in unseen["message"]
    assert stale["error"] == "admission_forbidden"
    assert "look at it again" in stale["message"]
    assert done["state"] == "approved"
    last = done["log"][-1]
    assert (last["kind"], last["who"], last["why"]) == ("approved", "ada", "read it")
    assert after["cases"] == []
    assert [case["server"] for case in known["cases"]] == ["clock"]


async def test_the_status_tells_what_became_of_a_manifest(tmp_path: Path) -> None:
    """201 approved by policy, 200 the same again, 202 for another one that the policy does not know."""
    async with opened(tmp_path, trusted_commands=("clock-mcp",)) as client:
        first = await client.ask(201, "POST", "/servers", json={"name": "clock", "command": "clock-mcp"})
        again = await client.ask(200, "POST", "/servers", content=CLOCK)
        other = await client.ask(202, "POST", "/servers", content=CLOCK + "args: [--utc]\n")

    assert (first["happened"], first["case"]["state"]) == ("registered", "approved")
    assert again["happened"] == "unchanged"
    assert (other["happened"], other["case"]["state"]) == ("changed", "pending")


async def test_a_refused_manifest_is_answered_with_all_faults(tmp_path: Path) -> None:
    """With line, key, reason and fix; nothing is registered. A check of it says the same, as its answer."""
    async with opened(tmp_path) as client:
        refused = await client.ask(422, "POST", "/servers", content=EVIL)
        checked = await client.ask(200, "POST", "/servers/check", content=EVIL)
        fine = await client.ask(200, "POST", "/servers/check", content=CLOCK)
        after = await client.ask(200, "GET", "/approvals", params={"all": True})

    assert refused["error"] == "manifest_refused"
    assert {(one["key"], one["line"]) for one in refused["findings"] if one["severity"] == "refuse"} == {
        ("name", 1), ("command", 2), ("memroy", 3), ("env.API_TOKEN", 4),
    }  # fmt: skip
    assert "http:3: memroy: is not a known key (did you mean `memory`?)" in refused["faults"]
    assert "hunter2" not in str(refused)
    assert (checked["outcome"], fine["outcome"]) == ("refused", "needs approval")
    assert after["cases"] == []


NO_MANIFESTS = {
    b"": (400, "the body is empty"),
    b"\xff\xfe": (400, "UTF-8"),
    b"{}": (422, "name: is missing"),
    b"[1, 2]": (422, "the top level must be a mapping"),
    b"name: a\n" + b"#" * 40_000: (422, "longer than"),
    b"{" * 200: (422, "nested"),
}


async def test_what_is_no_manifest_is_refused_in_words(tmp_path: Path) -> None:
    """Whatever is sent."""
    async with opened(tmp_path) as client:
        for content, (status, says) in NO_MANIFESTS.items():
            assert says in (await client.ask(status, "POST", "/servers", content=content))["message"]


async def test_a_wrong_method_is_answered_with_all_right_ones(tmp_path: Path) -> None:
    """Also where an address takes several."""
    async with opened(tmp_path) as client:
        allowed = [await client.allowed(f"/servers{path}") for path in ("", "/a", "/check")]

    assert allowed == ["GET, POST", "DELETE, GET", "POST"]


async def test_json_is_read_as_json(tmp_path: Path) -> None:
    """With tabs and surrogate escapes, which YAML reads otherwise or not at all."""
    body = b'{\n\t"name": "clock",\n\t"command": "clock-mcp",\n\t"title": "\\ud83d\\udd52"\n}'
    async with opened(tmp_path) as client:
        headers = {"content-type": "application/json"}
        made = await client.ask(202, "POST", "/servers", content=body, headers=headers)

    assert made["case"]["manifest"]["title"] == "🕒"


# --- deciding ---------------------------------------------------------------------------------------------


async def test_every_verdict_has_its_effect(tmp_path: Path) -> None:
    """And what is not possible in a state is 409 with the reason."""
    async with opened(tmp_path) as client:
        await client.ask(202, "POST", "/servers", content=CLOCK)
        impossible = await client.decide(409, "clock", "suspend")
        rejected = await client.decide(200, "clock", "reject", why="no")
        unaware = await client.decide(409, "clock", "approve", seen=rejected["digest"])
        approved = await client.decide(200, "clock", "approve", seen=rejected["digest"], again=True)
        suspended = await client.decide(200, "clock", "suspend")
        resumed = await client.decide(200, "clock", "resume")
        withdrawn = await client.ask(200, "DELETE", "/servers/clock")
        gone = await client.ask(404, "GET", "/servers/clock/approval")

    states = [case["state"] for case in (rejected, approved, suspended, resumed, withdrawn)]
    assert states == ["rejected", "approved", "suspended", "approved", "withdrawn"]
    assert "only what is approved can be suspended" in impossible["message"]
    assert (rejected["refused"]["who"], rejected["refused"]["why"]) == ("ada", "no")
    assert "refused it on" in unaware["message"]
    assert approved["refused"] is None
    assert gone["error"] == "server_not_found"


async def test_unknown_names_are_answered_with_near_ones(tmp_path: Path) -> None:
    """For reading, deciding and withdrawing."""
    async with opened(tmp_path) as client:
        await client.ask(202, "POST", "/servers", content=CLOCK)
        answers = [
            await client.ask(404, "GET", "/servers/clok/approval"),
            await client.decide(404, "clok", "reject"),
            await client.ask(404, "DELETE", "/servers/clok"),
        ]

    assert [answer["nearest"] for answer in answers] == [["clock"]] * 3


async def test_servers_of_the_configuration_are_neither_replaced_nor_withdrawn(tmp_path: Path) -> None:
    """They are the operator's word."""
    async with opened(tmp_path, houses={"clock": House("clock", "tell")}) as client:
        refused = await client.ask(422, "POST", "/servers", content=CLOCK)
        kept = await client.ask(409, "DELETE", "/servers/clock")

    assert "configuration" in refused["faults"][0]
    assert "`maitred remove` takes it out" in kept["message"]


async def test_a_changed_tool_is_withheld_until_it_is_approved(tmp_path: Path) -> None:
    """The case tells the difference; the rest of the server goes on."""
    house = House("clock", "tell", "set")
    async with opened(tmp_path, houses={"clock": house}, pinning="quarantine") as client:
        house.tools.append("wind")
        await client.gateway.sync(["clock"], viewer=LOCAL_USER)
        [case] = (await client.ask(200, "GET", "/approvals"))["cases"]
        withheld = await client.ask(409, "POST", "/tools/clock/wind/call", json={})
        works = await client.ask(200, "POST", "/tools/clock/tell/call", json={})
        await client.decide(200, "clock", "approve", seen=case["digest"])
        await client.ask(200, "POST", "/tools/clock/wind/call", json={})

    assert [(part["kind"], part["name"]) for part in case["parts"]] == [("tool", "wind")]
    assert [change["change"] for change in case["changes"]] == ["added"]
    assert withheld["error"] == "tool_withheld"
    assert works["isError"] is False


# --- roles ------------------------------------------------------------------------------------------------

ALLOWED: Mapping[Role, set[str]] = {
    "viewer": set(),
    "agent": set(),
    "operator": {"check", "register", "list", "read", "withdraw"},
    "admin": {"check", "register", "list", "read", "withdraw", "approve"},
}


async def test_each_role_may_do_what_it_is_for(tmp_path: Path) -> None:
    """An operator registers and withdraws, an admin decides; the others do neither, and see nothing of it."""
    asked: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
        "check": ("POST", "/servers/check", {"content": CLOCK}),
        "register": ("POST", "/servers", {"content": CLOCK}),
        "list": ("GET", "/approvals", {}),
        "read": ("GET", "/servers/clock/approval", {}),
        "approve": ("POST", "/servers/clock/approval", {"json": {"verdict": "reject"}}),
        "withdraw": ("DELETE", "/servers/clock", {}),
    }
    async with opened(tmp_path) as client:
        for role, allowed in ALLOWED.items():
            client.act_as("admin")
            await client.ask(202, "POST", "/servers", content=CLOCK + f"title: {role}\n")
            client.act_as(role)
            for name, (method, path, body) in asked.items():
                status = await client.status(method, path, **body)
                assert status in ((200, 202) if name in allowed else (403,)), (role, name)


async def test_a_scope_of_servers_bounds_what_is_seen_and_done(tmp_path: Path) -> None:
    """Whoever has one server sees and decides on that one."""
    async with opened(tmp_path) as client:
        await client.ask(202, "POST", "/servers", content=CLOCK)
        await client.ask(202, "POST", "/servers", content=CLOCK.replace("name: clock", "name: watch"))
        client.act_as("admin", Scope(servers=frozenset({"watch"})))
        found = await client.ask(200, "GET", "/approvals")
        await client.ask(403, "GET", "/servers/clock/approval")
        await client.decide(403, "clock", "reject")
        await client.decide(200, "watch", "reject")

    assert [case["server"] for case in found["cases"]] == ["watch"]
