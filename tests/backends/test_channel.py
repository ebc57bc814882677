"""The line channel: what servers write to standard output, and what becomes of it."""

import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT
from tests.backends.rig import SOON_S

from maitred.jsonrpc import LineChannel

pytestmark = pytest.mark.anyio

MAX_BYTES = 100_000


class Peer:
    """The other end of a channel: what it was sent, and what reached the handlers on our side."""

    def __init__(self, **options: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.requests: list[tuple[str, Mapping[str, Any] | None]] = []
        self.notices: list[tuple[str, Mapping[str, Any] | None]] = []
        self.gate = anyio.Event()
        self.channel = LineChannel(self._write, **{"max_message_bytes": MAX_BYTES} | options)
        self.writes = 0
        self._came = anyio.Event()

    def _write(self, data: bytes) -> None:
        assert data.endswith(b"\n")
        self.writes += 1
        self.sent += [json.loads(line) for line in data.splitlines()]
        self._happened()

    def _happened(self) -> None:
        self._came.set()
        self._came = anyio.Event()

    async def on_request(self, context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        self.requests.append((method, params))
        self._happened()
        if method == "wait":
            await self.gate.wait()
        if method == "fail":
            raise ZeroDivisionError("a secret of ours")
        if method == "report":
            await context.progress(1, 2, "half")
        return {"method": method}

    async def on_notify(self, _: Any, method: str, params: Mapping[str, Any] | None) -> None:
        self.notices.append((method, params))
        self._happened()

    def says(self, *messages: object) -> None:
        """Write messages: a mapping as JSON-RPC, text as it is."""
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.channel.feed(line + b"\n")

    async def heard(self, count: int) -> Sequence[dict[str, Any]]:
        """Wait until the peer was sent so many messages."""
        with anyio.fail_after(SOON_S):
            while len(self.sent) < count:
                await self._came.wait()
        return self.sent

    async def noticed(self, count: int) -> Sequence[tuple[str, Mapping[str, Any] | None]]:
        """Wait until so many notices reached our side."""
        with anyio.fail_after(SOON_S):
            while len(self.notices) < count:
                await self._came.wait()
        return self.notices

    def answers(self, request: Mapping[str, Any], **result: Any) -> None:
        self.says({"jsonrpc": "2.0", "id": request["id"], "result": result})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LineChannel]:
        async with anyio.create_task_group() as tasks:
            await tasks.start(self.channel.run, self.on_request, self.on_notify)
            with anyio.fail_after(SOON_S):
                yield self.channel
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def asking(peer: Peer, method: str = "ask", **options: Any) -> AsyncIterator[dict[str, Any]]:
    """Send a request; the mapping that is yielded gets its outcome when the context is left."""
    outcome: dict[str, Any] = {}

    async def ask() -> None:
        try:
            outcome["result"] = await peer.channel.send_raw_request(method, {}, options or None)  # type: ignore[arg-type]
        except MCPError as error:
            outcome["error"] = (error.code, error.message, error.error.data)

    before = len(peer.sent)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await peer.heard(before + 1)
        yield outcome


@pytest.fixture
def small_burst(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a flood be a few hundred messages, so that the tests of floods are quick."""
    monkeypatch.setattr("maitred.jsonrpc.channel._NOISE_BURST", 200.0)
    monkeypatch.setattr("maitred.jsonrpc.channel._NOISE_PER_S", 20.0)
    return 200


def request(request_id: object, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notice(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def test_answers_find_their_requests_in_any_order_and_in_pieces_of_any_size() -> None:
    peer = Peer()
    async with peer.running():
        async with asking(peer) as first, asking(peer) as second:
            one, two = peer.sent
            text = b"".join(
                json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"for": message["id"]}}).encode()
                + b"\r\n"
                for message in (two, one)
            )
            for position in range(0, len(text), 7):
                peer.channel.feed(text[position : position + 7])
        assert (first["result"]["for"], second["result"]["for"]) == (one["id"], two["id"])


async def test_an_answer_is_known_by_its_id_also_when_the_id_comes_back_as_text() -> None:
    """Some servers turn numbers into text. Source: the SDKs of TypeScript and Python do the same."""
    peer = Peer()
    async with peer.running():
        async with asking(peer) as outcome:
            peer.says({"jsonrpc": "2.0", "id": str(peer.sent[0]["id"]), "result": {"ok": True}})
        assert outcome == {"result": {"ok": True}}


@pytest.mark.parametrize(
    "noise",
    [
        b"Starting server ...",
        b"",
        b"\x1b[1;32m\xe2\x9c\x94 ready\x1b[0m",
        b"\xff\xfe\x80",
        b'{"jsonrpc": "2.0", "id": ',
        b"42",
        b"[]",
        b'{"level": "info"}',
        b'{"jsonrpc": "2.0", "id": "never-asked", "result": {}}',
        b'{"jsonrpc": "2.0", "id": true, "result": {"wrong": true}}',
        b'{"jsonrpc": "2.0", "id": null, "result": {"wrong": true}}',
        b'{"jsonrpc": "2.0", "id": [1], "result": {"wrong": true}}',
        b'{"jsonrpc": "2.0", "method": 42}',
        b'{"jsonrpc": "2.0", "method": "x", "params": [1]}',
        b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": {}}}',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}}',
        b"[" * 100_000,
        b'{"a":' * 15_000,
    ],
    ids=lambda noise: repr(noise[:40]),
)
async def test_noise_on_standard_output_disturbs_no_call(
    noise: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Source: notes/real-servers.md, ten servers write what is not JSON-RPC."""
    peer = Peer()
    async with peer.running():
        async with asking(peer) as outcome:
            peer.says(noise, noise)
            peer.answers(peer.sent[0], ok=1)
            peer.says(noise)
        assert outcome == {"result": {"ok": 1}}
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_invalid_utf_8_inside_a_message_is_replaced_and_the_message_is_read() -> None:
    peer = Peer()
    async with peer.running():
        async with asking(peer) as outcome:
            head = json.dumps({"jsonrpc": "2.0", "id": peer.sent[0]["id"]}).encode()[:-1]
            peer.says(head + b', "result": {"text": "caf\xe9"}}')
        assert outcome == {"result": {"text": "caf\ufffd"}}


async def test_an_error_answer_keeps_its_code_its_message_and_its_data() -> None:
    peer = Peer()
    async with peer.running():
        async with asking(peer) as outcome:
            error = {"code": -32042, "message": "no", "data": {"why": 1}}
            peer.says({"jsonrpc": "2.0", "id": peer.sent[0]["id"], "error": error})
        assert outcome == {"error": (-32042, "no", {"why": 1})}


@pytest.mark.parametrize(
    "answer", [{}, {"result": 42}, {"result": None}, {"error": "text"}, {"error": {"code": "x"}}]
)
async def test_an_answer_without_a_meaning_ends_the_request_with_an_error(answer: dict[str, Any]) -> None:
    peer = Peer()
    async with peer.running():
        async with asking(peer) as outcome:
            peer.says({"jsonrpc": "2.0", "id": peer.sent[0]["id"], **answer})
        assert outcome["error"][0] == INTERNAL_ERROR


async def test_a_request_that_takes_too_long_is_cancelled_and_its_late_answer_is_ignored() -> None:
    peer = Peer()
    async with peer.running():
        async with asking(peer, timeout=0.01) as outcome:
            pass
        asked, cancelled = await peer.heard(2)
        peer.answers(asked, late=True)
        async with asking(peer) as after:
            peer.answers(peer.sent[2], ok=True)
        assert outcome["error"][0] == REQUEST_TIMEOUT
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == asked["id"]
        assert after == {"result": {"ok": True}}


async def test_the_end_of_the_server_ends_every_waiting_request_with_the_reason() -> None:
    peer = Peer()
    async with peer.running():
        async with asking(peer) as first, asking(peer) as second:
            peer.channel.close("it exited with code 3")
            peer.channel.close("a later reason")
        with pytest.raises(MCPError) as caught:
            await peer.channel.send_raw_request("ask", {})
        assert first == second == {"error": (CONNECTION_CLOSED, "it exited with code 3", None)}
        assert (caught.value.code, caught.value.message) == (CONNECTION_CLOSED, "it exited with code 3")
        assert await peer.channel.closed() == "it exited with code 3"
    assert len(peer.sent) == 2


async def test_what_a_server_says_after_its_channel_was_left_is_not_an_error() -> None:
    """Servers log their own end; asyncio would print a traceback for each line. Source: maitred."""
    peer = Peer()
    async with peer.running():
        pass
    peer.says(notice("notifications/message", level="info", data="bye"), request(1, "ping"), b"bye")
    assert peer.notices == []


async def test_progress_reaches_the_call_that_asked_for_it_in_order_and_before_its_answer() -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    peer = Peer()
    async with peer.running():
        async with asking(peer, on_progress=report) as outcome:
            token = peer.sent[0]["params"]["_meta"]["progressToken"]
            for step in range(1, 4):
                peer.says(notice("notifications/progress", progressToken=token, progress=step, total=3))
            peer.says(notice("notifications/progress", progressToken="other", progress=9))
            peer.answers(peer.sent[0], ok=True)
        assert outcome == {"result": {"ok": True}}
        assert seen == [(1, 3, None), (2, 3, None), (3, 3, None)]


async def test_a_request_of_the_server_is_answered_and_a_failing_handler_tells_no_secrets() -> None:
    peer = Peer()
    async with peer.running():
        peer.says(request("a", "ping"), request(2, "fail"))
        answers = {answer["id"]: answer for answer in await peer.heard(2)}
    assert answers["a"]["result"] == {"method": "ping"}
    assert answers[2]["error"] == {"code": INTERNAL_ERROR, "message": "Internal error"}


@pytest.mark.parametrize(("sent", "cancelled"), [(1, 1), ("1", 1), (1, "1"), ("abc", "abc")])
async def test_a_request_that_the_peer_cancels_is_stopped_and_not_answered(
    sent: object, cancelled: object
) -> None:
    peer = Peer()
    async with peer.running():
        peer.says(request(sent, "wait"), notice("notifications/cancelled", requestId=cancelled))
        await peer.noticed(1)
        peer.gate.set()
        peer.says(request("after", "ping"))
        [answer] = await peer.heard(1)
    assert answer["id"] == "after"


async def test_answered_requests_are_forgotten_whatever_their_ids_look_like() -> None:
    """A client that numbers its requests as text must not fill the gateway's memory. Source: maitred."""
    peer = Peer()
    async with peer.running():
        peer.says(*[request(str(number), "ping") for number in range(100)])
        await peer.heard(100)
        peer.says(request("one-more", "ping"))
        await peer.heard(101)
        assert len(peer.channel._inbound) <= 1


async def test_progress_is_reported_to_a_peer_that_asked_for_it() -> None:
    peer = Peer()
    async with peer.running():
        peer.says(request(7, "report", _meta={"progressToken": "t"}))
        progress, answer = await peer.heard(2)
    assert progress["params"] == {"progressToken": "t", "progress": 1, "total": 2, "message": "half"}
    assert answer["id"] == 7


async def test_what_comes_before_the_channel_runs_is_handled_when_it_does() -> None:
    peer = Peer()
    peer.says(notice("early"), b"Starting ...")
    async with peer.running():
        assert await peer.noticed(1) == [("early", {})]


async def test_the_message_after_an_inline_request_waits_until_that_is_answered() -> None:
    """Nothing may overtake `initialize`: a client may send its next request in the same packet."""
    peer = Peer(inline=frozenset({"wait"}))
    async with peer.running():
        peer.says(request(1, "wait"), request(2, "ping"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.heard, 2)
            await anyio.lowlevel.checkpoint()
            assert peer.requests == [("wait", {})]
            peer.gate.set()
        assert [answer["id"] for answer in peer.sent] == [1, 2]


async def test_a_message_beyond_the_limit_ends_the_channel_with_a_reason_that_names_the_setting() -> None:
    peer = Peer()
    async with peer.running():
        async with asking(peer) as outcome:
            for _ in range(11):
                peer.channel.feed(b"x" * (MAX_BYTES // 10))
        assert "more than 100,000 bytes" in outcome["error"][1]
        assert "limits.max_message_bytes" in outcome["error"][1]


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"",
        b'{"jsonrpc": "2.0", "id": "never-asked", "result": {}}',
        b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "roots/list"}',
    ],
    ids=lambda line: repr(line[:40]),
)
async def test_a_server_that_floods_is_cut_off_and_its_callers_are_told(
    line: bytes, small_burst: int
) -> None:
    """Whatever it floods with. Source: issue "Foundation", faults."""
    peer = Peer()
    async with peer.running():
        async with asking(peer) as outcome:
            for _ in range(small_burst * 20):
                peer.channel.feed((line + b"\n") * 10)
            reason = peer.channel.reason
            peer.channel.close("it was never cut off")
        assert "flooded" in reason
        assert "flooded" in outcome["error"][1]


async def test_a_flood_is_cut_off_on_a_machine_too_busy_to_read_it_fast(
    small_burst: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each read takes so long that any number of messages would be allowed in that time."""
    monkeypatch.setattr("maitred.jsonrpc.channel._NOISE_PER_S", 1e9)
    said = json.dumps(notice("notifications/message", level="info", data="x" * 200)).encode() + b"\n"
    peer = Peer()
    async with peer.running():
        for _ in range(small_burst):
            peer.channel.feed(said)  # one at a time: all that it said was read before
        assert peer.channel.alive
        for _ in range(small_burst):
            peer.channel.feed(said * 200)
        assert "flooded" in peer.channel.reason


async def test_a_server_that_logs_with_each_of_its_long_answers_is_no_flood(
    small_burst: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is idle between its calls, however much it says in one go. Source: maitred."""
    monkeypatch.setattr("maitred.jsonrpc.channel._NOISE_PER_S", 1e9)
    said = json.dumps(notice("notifications/message", level="info", data="x")).encode() + b"\n"
    peer = Peer()
    async with peer.running():
        for _ in range(small_burst):
            async with asking(peer) as outcome:
                answer = {"jsonrpc": "2.0", "id": peer.sent[-1]["id"], "result": {"text": "x" * 20_000}}
                peer.channel.feed(said * 5 + json.dumps(answer).encode() + b"\n")
            assert "result" in outcome
        assert peer.channel.alive


async def test_a_client_may_send_as_many_requests_as_it_likes(small_burst: int) -> None:
    """Only servers are cut off: it is a client's part to ask."""
    peer = Peer(trusted=True)
    async with peer.running():
        peer.says(*[request(number, "ping") for number in range(small_burst * 2)])
        assert len(await peer.heard(small_burst * 2)) == small_burst * 2


async def test_answers_that_are_ready_together_go_out_in_one_write_and_a_single_one_at_once() -> None:
    peer = Peer(trusted=True)
    async with peer.running():
        peer.says(*(request(number, "wait") for number in range(20)))
        await anyio.wait_all_tasks_blocked()
        peer.gate.set()
        await peer.heard(20)
        assert peer.writes <= 2
        before = peer.writes
        peer.says(request("one", "ask"))
        await peer.heard(21)
        assert peer.writes == before + 1


async def test_requests_of_one_moment_go_out_together_and_each_gets_its_answer() -> None:
    peer = Peer()
    async with peer.running() as channel:
        outcomes: dict[int, Any] = {}

        async def ask(number: int) -> None:
            outcomes[number] = await channel.send_raw_request("ask", {"number": number})

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(ask, number)
            for sent in [*await peer.heard(20)]:
                peer.answers(sent, number=sent["params"]["number"])
        assert outcomes == {number: {"number": number} for number in range(20)}
        assert peer.writes <= 2
