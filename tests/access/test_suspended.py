"""The kill switch for one principal: all it has ends within a second, on every process with this store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.server import Server
from tests.access.house import SOON_S, House
from tests.support.waiting import eventually

from maitred.config.settings import AccessSettings, Catalog, GroupEntry, HeldCallSettings, HoldRule, Settings
from maitred.errors import CallNotApprovedError, NotAllowedError, PrincipalError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Grant, RefusedAccess, Viewer
from maitred.model.servers import ServerSpec
from maitred.model.sign_in import SignedIn
from maitred.model.tools import ToolCall
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

WITHIN_S = 1.0
"""What the documentation promises; a busy machine is given more, but not without end."""
ANN = Viewer(grant=Grant(principal="ann", role="agent"))
BOB = Viewer(grant=Grant(principal="bob", role="agent"))
API = "/api/v1"


@pytest.fixture(scope="module")
async def other(house: House) -> AsyncIterator[Gateway]:
    """Another gateway on the same catalog, as another process has it."""
    async with open_gateway(replace(house.gateway.settings, servers={}), discovers=False) as gateway:
        yield gateway


async def answered(client: httpx2.AsyncClient, status: int) -> httpx2.Response:
    """The first answer with a status."""
    with anyio.fail_after(SOON_S):
        while True:
            answer = await client.get(f"{API}/tools/hot")
            if answer.status_code == status:
                return answer
            await anyio.sleep(0.05)


async def test_tokens_are_refused_on_every_process_until_the_principal_is_resumed(
    house: House, other: Gateway
) -> None:
    """With the reason; tokens of others go on. The trail has both acts."""
    async with house.http("agent") as client, house.http("operator") as else_:
        assert (await client.get(f"{API}/tools/hot")).status_code == 200
        await other.suspend_principal("agent", LOCAL_USER, why="its token leaked")
        started = anyio.current_time()
        answer = await answered(client, 401)
        took_s = anyio.current_time() - started
        fine = await else_.get(f"{API}/tools/hot")
        listed = await house.gateway.suspended_principals(LOCAL_USER)
        await other.resume_principal("agent", LOCAL_USER)
        await answered(client, 200)

    assert answer.status_code == 401
    assert "'agent' is suspended since" in answer.json()["message"]
    assert "its token leaked" in answer.json()["message"]
    assert took_s < WITHIN_S * 20
    assert fine.status_code == 200
    assert [(one.principal, one.who, one.why) for one in listed] == [("agent", "local", "its token leaked")]
    lines = (await other.audit_lines(LOCAL_USER)).lines
    acts = [
        (line["action"], line["detail"]) for line in lines if str(line["action"]).startswith("principal.")
    ]
    assert acts[:2] == [("principal.resume", "agent"), ("principal.suspend", "agent: its token leaked")]


async def test_an_open_stream_ends(house: House, other: Gateway) -> None:
    """That of a session over MCP, whichever process suspended its principal."""
    accept = {"Accept": "application/json, text/event-stream"}
    start = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        },
    }
    async with house.http("viewer") as client:
        opened = await client.post("/mcp", json=start, headers=accept)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Accept": "text/event-stream"}
        async with client.stream("GET", "/mcp", headers=session) as stream:
            assert stream.status_code == 200
            await other.suspend_principal("viewer", LOCAL_USER)
            with anyio.fail_after(SOON_S):
                async for _ in stream.aiter_bytes():
                    pass
        again = await client.post("/mcp", json={**start, "method": "ping", "params": {}}, headers=session)
    await other.resume_principal("viewer", LOCAL_USER)
    assert again.status_code == 401


def slow(began: anyio.Event) -> Server[Any]:
    """A server whose tool takes for ever, and whose other tool waits for a person."""

    async def tools(_: Any, __: object) -> types.ListToolsResult:
        listed = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("wait", "pay")]
        return types.ListToolsResult(tools=listed)

    async def call(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        began.set()
        await anyio.sleep_forever()
        raise AssertionError(params.name)

    return Server("slow", on_list_tools=tools, on_call_tool=call)


@asynccontextmanager
async def two_gateways(folder: Path, began: anyio.Event) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two gateways on one catalog, the first with the slow server."""
    settings = Settings(
        source=folder / "maitred.yaml",
        servers={"slow": ServerSpec(name="slow", transport="memory")},
        catalog=Catalog(path=str(folder / "c.db")),
        held_calls=HeldCallSettings(rules=(HoldRule(when='tool == "pay"'),)),
    )
    async with open_gateway(settings, in_process={"slow": slow(began)}) as one:
        assert await one.settled(SOON_S)
        async with open_gateway(replace(settings, servers={}), discovers=False) as two:
            yield one, two


async def test_calls_that_run_or_wait_end_with_their_principal(tmp_path: Path) -> None:
    """They are answered with the reason; the next one is not made. Another principal's goes on."""
    began, ended = anyio.Event(), dict[str, Exception]()

    async def make(gateway: Gateway, tool: str, viewer: Viewer) -> None:
        try:
            await gateway.call(ToolCall(name=f"slow__{tool}", arguments={}), viewer=viewer)
        except (NotAllowedError, CallNotApprovedError) as error:
            ended[f"{viewer.principal} {tool}"] = error

    async with two_gateways(tmp_path, began) as (one, two), anyio.create_task_group() as tasks:
        held = anyio.Event()
        one.watch_held_calls(held.set)
        tasks.start_soon(make, one, "wait", ANN)
        with anyio.fail_after(SOON_S):
            await began.wait()
            for tool, viewer in (("pay", ANN), ("wait", BOB)):
                tasks.start_soon(make, one, tool, viewer)
            await held.wait()
        done = await two.suspend_principal("ann", LOCAL_USER)
        await eventually(lambda: len(ended) == 2)
        waiting = await one.held_calls(LOCAL_USER)
        with pytest.raises(NotAllowedError, match="'ann' is suspended"):
            await one.call(ToolCall(name="slow__wait", arguments={}), viewer=ANN)
        lines = (await one.audit_lines(LOCAL_USER, who="ann")).lines
        tasks.cancel_scope.cancel()

    assert done.refused_calls == 1
    assert not waiting
    assert set(ended) == {"ann wait", "ann pay"}
    assert "the call was ended while it ran" in str(ended["ann wait"])
    assert {line["outcome"] for line in lines if line["action"] == "call"} >= {"not_allowed"}


async def test_a_person_who_signed_in_is_refused_too(house: House) -> None:
    """By the name that the trail has."""
    before = house.gateway.settings
    access = AccessSettings(groups={"*": GroupEntry(role="viewer")})
    await house.gateway.configure(replace(before, access=access), viewer=LOCAL_USER)
    person = SignedIn(claims={"sub": "ann"}, expires_at=0.0)
    first = await house.gateway.grant_of_person(person)
    await house.gateway.suspend_principal("oauth:ann", LOCAL_USER)
    second = await house.gateway.grant_of_person(person)
    await house.gateway.resume_principal("oauth:ann", LOCAL_USER)
    await house.gateway.configure(before, viewer=LOCAL_USER)

    assert isinstance(first, Grant)
    assert isinstance(second, RefusedAccess)


@pytest.mark.parametrize("name", ["local", "http", "", " ", "x" * 501])
async def test_who_could_not_be_suspended_is_refused(house: House, name: str) -> None:
    """The text says why."""
    with pytest.raises(PrincipalError):
        await house.gateway.suspend_principal(name, LOCAL_USER)


async def test_an_admin_does_not_suspend_itself_nor_twice(house: House) -> None:
    """It could not resume itself."""
    admin = Viewer(grant=Grant(principal="root", role="admin"))
    with pytest.raises(PrincipalError, match="could not resume itself"):
        await house.gateway.suspend_principal("root", admin)
    with pytest.raises(PrincipalError, match="is not suspended"):
        await house.gateway.resume_principal("root", admin)
    with pytest.raises(NotAllowedError):
        await house.gateway.suspend_principal("root", ANN)
    await house.gateway.suspend_principal("carl", admin)
    with pytest.raises(PrincipalError, match="is suspended already"):
        await house.gateway.suspend_principal("carl", admin)
    await house.gateway.resume_principal("carl", admin)


async def test_over_http_an_admin_has_the_switch(house: House) -> None:
    """Names are percent-encoded."""
    async with house.http("admin") as client, house.http("operator") as operator:
        path = f"{API}/principals/oauth%3Aeve%2F1"
        done = await client.post(f"{path}/suspend", json={"why": "gone"})
        again = await client.post(f"{path}/suspend", json={})
        listed = await client.get(f"{API}/principals/suspended")
        back = await client.post(f"{path}/resume", json={})
        refused = await operator.post(f"{path}/suspend", json={})

    assert done.json() == {"principal": "oauth:eve/1", "suspended": True, "refused_calls": 0}
    assert (again.status_code, again.json()["error"]) == (409, "principal_refused")
    [one] = listed.json()["suspended"]
    assert (one["principal"], one["by"], one["why"]) == ("oauth:eve/1", "admin", "gone")
    assert back.json()["suspended"] is False
    assert refused.status_code == 403
