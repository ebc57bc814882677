"""What a collector gets of requests, and what servers get of their trace."""

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from tests.support.collector import Collector, collector
from tests.support.gateway_http import over_http
from tests.support.waiting import eventually
from tests.telemetry.rig import ANSWER, SECRET, NoteServer, over_notes

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SERVER, CLIENT = 2, 3
CALL: dict[str, Any] = {"name": "notes__add", "arguments": {"text": SECRET}}

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_one_trace_leads_from_the_client_through_the_gateway_to_the_server(
    tmp_path: Path, era: str
) -> None:
    """The server gets the gateway's own span as its parent: in `_meta`, and in the headers of HTTP."""
    notes = NoteServer()
    with collector() as found:
        async with over_notes(tmp_path, notes, endpoint=found.url) as gateway, over_http(gateway) as url:
            meta: Any = {"traceparent": TRACEPARENT, "tracestate": "team=a", "baggage": "user=ann"}
            mode: Any = "legacy" if era == "handshake" else "2026-07-28"
            async with Client(url, mode=mode) as client:
                await client.call_tool("call_tool", CALL, meta=meta)
    request, tool, relay = (
        found.named("tools/call call_tool"),
        found.named("execute_tool notes__add"),
        found.named("tools/call add"),
    )
    assert {request.trace_id, tool.trace_id, relay.trace_id} == {TRACE}
    assert (request.parent_id, tool.parent_id, relay.parent_id) == (PARENT, request.span_id, tool.span_id)
    assert (request.kind, relay.kind) == (SERVER, CLIENT)
    sent = f"00-{TRACE}-{relay.span_id}-01"
    (carried,), (headers,) = notes.metas, notes.headers
    assert (carried["traceparent"], carried["tracestate"]) == (sent, "team=a")
    assert (headers["traceparent"], headers["tracestate"]) == (sent, "team=a")
    assert "baggage" not in carried
    assert "baggage" not in headers


async def test_spans_have_the_names_of_the_conventions_and_no_argument_answer_or_token(
    tmp_path: Path,
) -> None:
    with collector() as found:
        async with (
            over_notes(tmp_path, NoteServer(), endpoint=found.url) as gateway,
            over_http(gateway) as url,
            Client(url) as client,
        ):
            await client.call_tool("call_tool", CALL)
            await client.call_tool("search_tools", {"query": f"add a note {SECRET}"})
    request = found.named("tools/call call_tool").attributes
    assert request["mcp.method.name"] == "tools/call"
    assert request["gen_ai.tool.name"] == "call_tool"
    assert request["gen_ai.operation.name"] == "execute_tool"
    assert request["network.transport"] == "tcp"
    assert request["mcp.protocol.version"]
    relay = found.named("tools/call add").attributes
    assert (relay["gen_ai.tool.name"], relay["maitred.server"]) == ("add", "notes")
    assert found.named("search_tools").attributes["maitred.results"] == 1
    assert found.named("discover").attributes["maitred.server"] == "notes"
    assert found.resource["service.name"] == "maitred"
    everything = b"".join(found.bodies)
    assert SECRET.encode() not in everything
    assert ANSWER.encode() not in everything


async def test_a_trace_of_the_headers_of_http_counts_where_a_message_has_none(tmp_path: Path) -> None:
    with collector() as found:
        async with (
            over_notes(tmp_path, NoteServer(), endpoint=found.url) as gateway,
            over_http(gateway) as url,
            httpx2.AsyncClient(headers={"traceparent": TRACEPARENT}) as http,
        ):
            base = url.removesuffix("/mcp")
            body = {"arguments": {"text": SECRET}}
            answer = await http.post(f"{base}/api/v1/tools/notes/add/call", json=body)
    api = found.named("POST /api/v1/tools/{server}/{tool}/call")
    assert answer.status_code == httpx2.codes.OK
    assert (api.trace_id, api.parent_id) == (TRACE, PARENT)
    assert api.attributes["http.response.status_code"] == httpx2.codes.OK
    assert found.named("execute_tool notes__add").parent_id == api.span_id


async def test_a_tool_that_fails_and_a_call_that_is_refused_are_errors_of_their_kind(tmp_path: Path) -> None:
    notes = NoteServer(fails=True)
    with collector() as found:
        async with (
            over_notes(tmp_path, notes, endpoint=found.url) as gateway,
            over_http(gateway) as url,
            Client(url) as client,
        ):
            await client.call_tool("call_tool", CALL)
            await client.call_tool("call_tool", {"name": "notes__gone", "arguments": {}})
    relay = found.named("tools/call add")
    assert (relay.failed, relay.attributes["error.type"]) == (True, "tool_error")
    refused = found.named("execute_tool")
    assert (refused.failed, refused.attributes["error.type"]) == (True, "tool_not_found")
    assert "notes__gone" not in str(found.spans)


async def test_baggage_is_passed_on_where_the_operator_allows_it(tmp_path: Path) -> None:
    notes = NoteServer()
    with collector() as found:
        async with (
            over_notes(tmp_path, notes, endpoint=found.url, baggage=True) as gateway,
            over_http(gateway) as url,
            Client(url) as client,
        ):
            meta: Any = {"traceparent": TRACEPARENT, "baggage": "team=red"}
            await client.call_tool("call_tool", CALL, meta=meta)
    assert notes.metas[0]["baggage"] == notes.headers[0]["baggage"] == "team=red"


async def test_a_collector_that_is_away_delays_no_call_and_causes_one_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is reached again without a restart, and what was counted meanwhile is in the next message."""
    with collector() as found:
        found.status = 400
        telemetry = {"endpoint": found.url, "metrics_every_s": 1.0, "traces": False}
        async with (
            over_notes(tmp_path, NoteServer(), **telemetry) as gateway,
            over_http(gateway) as url,
            Client(url) as client,
        ):
            for _ in range(3):
                await client.call_tool("call_tool", CALL)
            await eventually(lambda: len(found.headers) > 1)
            found.status = 200
            await eventually(lambda: found.value("maitred.calls", server="notes") == 3)
    said = capsys.readouterr().out
    assert said.count("does not take telemetry") == 1
    assert said.count("takes telemetry again") == 1


async def test_metrics_are_those_of_prometheus_under_their_names_with_dots(tmp_path: Path) -> None:
    with collector() as found:
        async with (
            over_notes(tmp_path, NoteServer(), endpoint=found.url, metrics_every_s=1.0) as gateway,
            over_http(gateway) as url,
            Client(url, mode="legacy") as client,
        ):
            await client.call_tool("call_tool", CALL)
            await client.call_tool("search_tools", {"query": "add a note"})
            await eventually(lambda: _shows_all(found))
            async with httpx2.AsyncClient() as http:
                text = (await http.get(url.replace("/mcp", "/metrics"))).text
    assert found.units["mcp.server.operation.duration"] == "s"
    assert found.value("maitred.server.usable", server="notes") == 1
    assert 'maitred_call_outcomes_total{outcome="ok",server="notes"} 1.0' in text
    assert 'maitred_sessions{transport="http"} 1.0' in text
    assert "maitred_overhead_seconds_count 1.0" in text


async def test_a_call_is_open_until_it_has_ended(tmp_path: Path) -> None:
    """By this figure Kubernetes chooses how many gateways there are: docs/kubernetes.md."""
    notes, seen = NoteServer(), list[str]()

    async def look() -> None:
        async with httpx2.AsyncClient() as http:
            text = (await http.get(url.replace("/mcp", "/metrics"))).text
        seen.extend(line for line in text.splitlines() if line.startswith("maitred_open_calls "))

    async with over_notes(tmp_path, notes) as gateway, over_http(gateway) as url, Client(url) as client:
        notes.meanwhile = look
        await client.call_tool("call_tool", CALL)
        await look()

    assert seen == ["maitred_open_calls 1.0", "maitred_open_calls 0.0"]


def _shows_all(found: Collector) -> bool:
    """Whether the collector has the last thing that was counted."""
    ok = {"server": "notes", "outcome": "ok"}
    return bool(
        found.value("maitred.call.outcomes", **ok) == 1
        and found.value("maitred.searches", result="found") == 1
        and found.value("maitred.sessions", transport="http") == 1
        and found.value("maitred.overhead") == 1
        and found.value("maitred.call", server="notes") == 1
    )


async def test_spans_wait_in_a_bounded_queue_while_the_collector_does_not_answer(tmp_path: Path) -> None:
    """Ten times as many as fit: no call waits, and the gateway ends in time."""
    started = anyio.current_time()
    async with over_notes(tmp_path, NoteServer(), endpoint="http://127.0.0.1:9", metrics=False) as gateway:
        tracer = gateway.activity.tracer
        assert tracer is not None
        for _ in range(20_000):
            tracer.begin("span", "internal", {}, {}).end()
    assert anyio.current_time() - started < 60


async def test_what_was_counted_last_is_sent_when_the_gateway_ends(tmp_path: Path) -> None:
    with collector() as found:
        async with over_notes(tmp_path, NoteServer(), endpoint=found.url, metrics_every_s=3_600.0) as gateway:
            await eventually(lambda: bool(found.points))
            async with over_http(gateway) as url, Client(url) as client:
                await client.call_tool("call_tool", CALL)
    assert found.value("maitred.calls", server="notes") == 1
