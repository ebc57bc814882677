"""The MCP endpoint over HTTP in both eras: what is a stream, what ends a call, what is refused."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.surfaces.mcp.http_rig import Rig, events_of, listening

pytestmark = pytest.mark.anyio

CALL = {"name": "s__slow", "arguments": {"size": 3}}
WATCHED = {"progressToken": "p"}
CANCELLED, UNSUPPORTED, MISMATCH, PARSE, INVALID = -32800, -32022, -32020, -32700, -32600


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module, in which the gateway outlives tests."""
    return "asyncio"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A gateway whose server answers at once."""
    async with listening(tmp_path_factory.mktemp("http")) as rig:
        rig.upstream.gate.set()
        yield rig


# --- what an answer looks like ----------------------------------------------------------------------------


async def test_a_stateless_answer_without_anything_before_it_is_json(rig: Rig) -> None:
    """No stream, whose first byte a proxy might hold back. Source: 2026-07-28, streamable HTTP."""
    async with rig.stateless() as client:
        answered = await client.post(client.body("tools/call", CALL))

    assert answered.headers["content-type"] == "application/json"
    assert answered.json()["result"]["content"][0]["text"] == "xxx"
    assert answered.json()["id"] == 5
    assert "mcp-session-id" not in answered.headers


async def test_a_stateless_answer_with_progress_before_it_is_a_stream(rig: Rig) -> None:
    """The notification first, the answer last."""
    async with rig.stateless() as client:
        body = client.body("tools/call", CALL, meta=WATCHED)
        async with client.http.stream("POST", "/mcp", json=body, headers=client.headers(body)) as response:
            messages = [json.loads(event["data"]) async for event in events_of(response)]

    assert response.headers["content-type"] == "text/event-stream"
    assert [one.get("method", one.get("id")) for one in messages] == ["notifications/progress", 5]
    assert messages[0]["params"]["progressToken"] == "p"
    assert messages[1]["result"]["content"][0]["text"] == "xxx"


async def test_a_session_gets_json_for_what_the_gateway_knows_and_a_stream_for_a_call(rig: Rig) -> None:
    """A call is what a client comes back for, so its answer begins with an event id."""
    async with rig.session() as session:
        listed = await session.post("tools/list", {}, number=1)
        called = await session.post("tools/call", {**CALL, "_meta": WATCHED}, number=2)

    assert listed.headers["content-type"] == "application/json"
    assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["s__slow"]
    assert called.headers["content-type"] == "text/event-stream"
    first, progress, answer = called.text.strip().split("\r\n\r\n")
    assert first.endswith("data: ")
    assert '"method":"notifications/progress"' in progress
    assert '"id":2' in answer
    assert {one.headers["mcp-session-id"] for one in (listed, called)} == {session.headers["Mcp-Session-Id"]}


async def test_an_old_client_gets_no_event_without_data(rig: Rig) -> None:
    """Clients up to 2025-06-18 cannot read one. Source: SEP-1699."""
    async with rig.session() as session:
        session.headers["MCP-Protocol-Version"] = "2025-06-18"
        called = await session.post("tools/call", CALL, number=2)
        watched = await session.post("tools/call", {**CALL, "_meta": WATCHED}, number=3)

    assert called.json()["result"]["content"][0]["text"] == "xxx"
    assert "data: \r\n" not in watched.text
    assert watched.text.count("data: {") == 2


async def test_an_error_of_a_stateless_request_has_the_status_of_its_code(rig: Rig) -> None:
    """404 for an unknown method, 400 for a tool that does not exist. Source: 2026-07-28, streamable HTTP."""
    async with rig.stateless() as client:
        unknown = await client.post(client.body("no/such"))
        missing = await client.post(client.body("tools/call", {"name": "nothing"}))

    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, -32601)
    assert (missing.status_code, missing.json()["error"]["code"]) == (400, -32602)
    assert unknown.json()["id"] == missing.json()["id"] == 5


# --- what ends a call -------------------------------------------------------------------------------------


async def test_a_stateless_call_ends_when_its_client_leaves(tmp_path: Path) -> None:
    """Closing the connection is how such a client cancels. Source: 2026-07-28, cancellation."""
    async with listening(tmp_path) as rig, rig.stateless() as client:
        body = client.body("tools/call", CALL, meta=WATCHED)
        async with client.http.stream("POST", "/mcp", json=body, headers=client.headers(body)) as response:
            await anext(events_of(response))
        await rig.upstream.cancelled.wait()


async def test_a_stateless_call_ends_when_its_client_leaves_before_it_has_heard_anything(
    tmp_path: Path,
) -> None:
    """Nothing was sent yet that could fail to be delivered."""
    async with listening(tmp_path) as rig, rig.stateless() as client:
        with anyio.CancelScope() as leaving:
            async with anyio.create_task_group() as tasks:

                async def call() -> None:
                    await client.post(client.body("tools/call", CALL))

                tasks.start_soon(call)
                await rig.upstream.reached.wait()
                leaving.cancel()
        await rig.upstream.cancelled.wait()


async def test_a_call_of_a_session_is_cancelled_by_a_notification_and_answered_so(tmp_path: Path) -> None:
    """A stream of this era ends with a response, for a client that comes back too."""
    async with listening(tmp_path) as rig, rig.session() as session, session.call(1) as events:
        begin = (await anext(events))["id"]
        await rig.upstream.reached.wait()
        taken = await session.post("notifications/cancelled", {"requestId": 7})
        answer = json.loads((await anext(events))["data"])
        again = await session.get(begin)
        await rig.upstream.cancelled.wait()

    assert taken.status_code == 202
    assert (answer["id"], answer["error"]["code"]) == (7, CANCELLED)
    assert again.text.count('"id":7') == 1


async def test_a_call_under_way_is_answered_when_its_session_is_ended(tmp_path: Path) -> None:
    """Its client is not left to wait, and its server is not left to work."""
    async with listening(tmp_path) as rig, rig.session() as session, session.call(1) as events:
        await anext(events)
        await rig.upstream.reached.wait()
        ended = await session.delete()
        answer = json.loads((await anext(events))["data"])
        await rig.upstream.cancelled.wait()
        after = await session.post("ping", {}, number=8)

    assert ended.status_code == 200
    assert "session was ended" in answer["error"]["message"]
    assert after.status_code == 404


async def test_a_stream_has_one_connection_the_one_that_was_opened_last(tmp_path: Path) -> None:
    """The answer goes to the client where it is now; the connection that it left ends."""
    async with listening(tmp_path) as rig, rig.session() as session, rig.session() as second:
        second.headers = session.headers
        async with session.call(3) as left:
            begin = (await anext(left))["id"]
            await rig.upstream.reached.wait()
            async with second.stream(begin) as resumed:
                on_the_left = [event async for event in left]
                rig.upstream.gate.set()
                on_the_resumed = [json.loads(event["data"])["id"] async for event in resumed]

    assert on_the_left == []
    assert on_the_resumed == [7]


async def test_a_second_stream_of_notices_is_refused(rig: Rig) -> None:
    """A session has one; that which a client came back to gives way."""
    async with rig.session() as session, session.stream() as events:
        begin = (await anext(events))["id"]
        async with rig.session() as other:
            other.headers = session.headers
            refused = await other.get("")
            async with other.stream(begin):
                left = [event async for event in events]

    assert refused.status_code == 409
    assert left == []


async def test_streams_end_in_good_order_when_the_gateway_does(tmp_path: Path) -> None:
    """The gateway need not wait for clients that wait for it."""
    async with listening(tmp_path) as rig, rig.session() as session, session.stream() as events:
        await anext(events)
        rig.surface.close()
        left = [event async for event in events]

    assert left == []


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"content_type": "application/jsonish"}, 415, INVALID),
        ({"accept": "application/json"}, 406, INVALID),
        ({"accept": "text/html"}, 406, INVALID),
        ({"mcp_method": "tools/call"}, 400, MISMATCH),
        ({"mcp_method": None}, 400, MISMATCH),
        ({"mcp_protocol_version": "2027-01-01"}, 400, MISMATCH),
    ],
    ids=str,
)
async def test_a_stateless_request_with_a_wrong_header_is_refused(
    rig: Rig, headers: dict[str, str | None], status: int, code: int
) -> None:
    async with rig.stateless() as client:
        refused = await client.post(client.body("tools/list"), **headers)

    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)


async def test_a_routing_header_that_came_twice_is_refused(rig: Rig) -> None:
    """Whoever reads the first copy and whoever reads the last would differ. Source: SEP-2243."""
    async with rig.stateless() as client:
        body = client.body("tools/list")
        twice = [*client.headers(body).items(), ("mcp-method", "tools/list")]
        refused = await client.http.post("/mcp", json=body, headers=twice)

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, MISMATCH)
    assert "mcp-method header appears more than once" in refused.json()["error"]["message"]


async def test_a_notification_of_a_stateless_client_is_accepted_in_a_version_that_is_served(rig: Rig) -> None:
    """It is dropped, since this revision has none. Source: 2026-07-28, streamable HTTP."""
    async with rig.stateless() as client:
        body = {"jsonrpc": "2.0", "method": "notifications/whatever"}
        taken = await client.post(body)
        other = await client.post(body, mcp_protocol_version="2027-01-01")

    assert (taken.status_code, taken.content) == (202, b"")
    assert (other.status_code, other.json()["error"]["code"]) == (400, UNSUPPORTED)


BODIES = {
    "no JSON": (b"{", PARSE),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID),
    "an id that is none": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID),
    "params that are none": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', INVALID),
    "no version": (b'{"id":1,"method":"ping"}', INVALID),
    "a notification that is none": (b'{"jsonrpc":"2.0","method":5}', INVALID),
}


@pytest.mark.parametrize("kind", BODIES)
async def test_a_body_that_is_no_message_is_refused_in_both_eras(rig: Rig, kind: str) -> None:
    """400 and the code of JSON-RPC."""
    content, code = BODIES[kind]
    async with rig.stateless() as client, rig.session() as session:
        sent = client.headers({}, mcp_method="ping")
        refused = [
            await client.http.post("/mcp", content=content, headers=headers)
            for headers in (sent, {**session.headers, "content-type": "application/json"})
        ]

    assert [(one.status_code, one.json()["error"]["code"]) for one in refused] == [(400, code)] * 2


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_a_body_that_is_too_large_is_refused_in_both_eras(rig: Rig, era: str) -> None:
    """Whether its size was declared or not."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * 1024 * 1024

    large: list[Any] = [b" " * 5 * 1024 * 1024, endless()]
    async with rig.stateless() as client:
        headers = client.headers({}, mcp_protocol_version=era)
        refused = [await client.http.post("/mcp", content=one, headers=headers) for one in large]

    assert [one.status_code for one in refused] == [413, 413]


async def test_other_methods_are_refused_with_those_that_there_are(rig: Rig) -> None:
    """A stateless client has POST alone. Source: 2026-07-28, streamable HTTP."""
    async with rig.stateless() as client, rig.session() as session:
        stateless = await client.http.get("/mcp", headers={"mcp-protocol-version": "2026-07-28"})
        put = await client.http.put("/mcp", json={}, headers=session.headers)

    assert (stateless.status_code, stateless.headers["allow"]) == (405, "POST")
    assert (put.status_code, put.headers["allow"]) == (405, "GET, POST, DELETE")


async def test_without_a_session_only_a_handshake_is_answered(rig: Rig) -> None:
    """400 says that a session is missing, 404 that it has ended or never was."""
    async with rig.session() as session:
        own = session.headers.pop("Mcp-Session-Id")
        without = [
            await session.post("tools/list", {}, number=1),
            await session.get(""),
            await session.delete(),
        ]
        session.headers["Mcp-Session-Id"] = "0" * 32
        unknown = [await session.post("tools/list", {}, number=1), await session.delete()]
        session.headers["Mcp-Session-Id"] = own

    assert [one.status_code for one in without] == [400] * 3
    assert [one.status_code for one in unknown] == [404] * 2


async def test_a_session_that_ends_while_a_request_comes_does_not_carry_it_out(rig: Rig) -> None:
    """It is refused like every later one."""
    async with rig.session() as session, rig.session() as other:
        other.headers = session.headers

        async def slowly() -> AsyncIterator[bytes]:
            yield b'{"jsonrpc":"2.0","id":1,'
            await other.delete()
            yield b'"method":"tools/list"}'

        headers = {**session.headers, "content-type": "application/json"}
        async with rig.stateless() as client:
            refused = await client.http.post("/mcp", content=slowly(), headers=headers)

    assert refused.status_code == 404


async def test_a_handshake_that_fails_opens_no_session(rig: Rig) -> None:
    """The error names no session, and the next request without one is refused."""
    async with rig.session() as session:
        del session.headers["Mcp-Session-Id"]
        failed = await session.post("initialize", {"protocolVersion": 5}, number=1)

    assert failed.json()["error"]["code"] == -32602
    assert "mcp-session-id" not in failed.headers
