"""The line channel and what JSON cannot hold: it is mended where it comes in, and no peer is kept waiting."""

import json
import sys
from collections.abc import Iterator

import anyio
import pytest
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from tests.backends.rig import SOON_S
from tests.backends.test_channel import Peer

from maitred.jsonrpc import UnreadableMessageError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b'"a\\ud800b"', "a\ufffdb"),
        (b"[" * 400 + b"]" * 400, None),
        (b'{"\\udc00": 1}', {"\ufffd": 1}),
    ],
    ids=["half a character", "too deep", "half a character as a key"],
)
async def test_what_cannot_be_sent_on_is_mended_where_it_comes_in(written: bytes, read: object) -> None:
    """A gateway relays results; one that it cannot write again would leave its client without an answer."""
    peer = Peer()
    results = []
    async with peer.running() as channel:

        async def ask() -> None:
            results.append(await channel.send_raw_request("tools/call", None))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            [request] = await peer.heard(1)
            number = json.dumps(request["id"]).encode()
            peer.says(b'{"jsonrpc": "2.0", "id": ' + number + b', "result": {"x": ' + written + b"}}")

    found = results[0]["x"]
    if read is None:
        assert json.dumps(found).count("[") < 250
    else:
        assert found == read


@pytest.mark.parametrize("field", ["progress", "total"])
async def test_a_number_that_is_no_float_does_not_lose_what_follows(field: str) -> None:
    """The answer in the same piece of output still comes, and so does the next line."""
    peer = Peer()
    results = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        """Drops it."""

    async with peer.running() as channel:

        async def ask() -> None:
            results.append(
                await channel.send_raw_request("tools/call", None, CallOptions(on_progress=report))
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            [request] = await peer.heard(1)
            number = request["id"]
            said = {"progressToken": number, "progress": 1, field: 10**400}
            notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": said}
            answer = {"jsonrpc": "2.0", "id": number, "result": {"x": 1}}
            peer.says(json.dumps(notice).encode() + b"\n" + json.dumps(answer).encode())
    assert results == [{"x": 1}]


class Odd(Peer):
    """Answers with what JSON has no way to write."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value

    async def on_request(self, *_: object) -> dict[str, object]:
        return {"x": self.value}


async def test_a_number_that_json_does_not_have_is_sent_as_null() -> None:
    """`NaN` on the line would make the whole message unreadable for clients that are strict."""
    peer = Odd(float("nan"))
    async with peer.running():
        peer.says({"jsonrpc": "2.0", "id": 1, "method": "any"})
        with anyio.fail_after(SOON_S):
            assert (await peer.heard(1))[0]["result"] == {"x": None}


async def test_an_answer_that_cannot_be_written_is_an_error_and_not_silence() -> None:
    """The peer is told, and the channel serves on."""
    peer = Odd("\ud800")
    async with peer.running():
        peer.says({"jsonrpc": "2.0", "id": 1, "method": "any"})
        assert "error" in (await peer.heard(1))[0]
        peer.value = "well"
        peer.says({"jsonrpc": "2.0", "id": 2, "method": "any"})
        assert (await peer.heard(2))[1]["result"] == {"x": "well"}


UNREADABLE = {
    "cut off": b'{"jsonrpc": "2.0", "id": %d, "result": {"x": "y"',
    "an id as text": b'{"jsonrpc": "2.0", "id": "%d", "result": {"x": ',
    "a bare word": b'{"jsonrpc": "2.0", "id": %d, "result": {"x": undefined}}',
    "two in one line": b'{"jsonrpc": "2.0", "id": %d, "result": {}}{"jsonrpc": "2.0", "method": "x"}',
    "single quotes": b"{'jsonrpc': '2.0', 'id': %d, 'result': {}}",
    "an error for nobody": b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse"}}',
    "a batch that is cut off": b'[{"jsonrpc": "2.0", "id": %d, "result": {}}',
    "an integer of 5,000 digits": b'{"jsonrpc": "2.0", "id": %d, "result": {"x": ' + b"9" * 5_000 + b"}}",
    "no version, and such an integer": b'{"id": %d, "result": {"x": ' + b"9" * 5_000 + b"}}",
    "10,000 levels": b'{"jsonrpc": "2.0", "id": %d, "result": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "10,000 levels before the id": b'{"jsonrpc": "2.0", "result": ' + b"[" * 10_000 + b'], "id": %d}',
    "no id at all": b'{"jsonrpc": "2.0", "result": {"x": ',
    "in UTF-16": '{"jsonrpc": "2.0", "id": %d, "result": {}}'.encode("utf-16"),
}


@pytest.fixture
def high_limit() -> Iterator[None]:
    """Libraries raise Python's limit of nesting for a while, as Hypothesis does."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(60_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("high_limit")
async def test_an_answer_with_many_levels_cannot_be_read_whatever_the_limit_of_python() -> None:
    await test_an_answer_that_cannot_be_read_ends_its_request_and_says_so("10,000 levels")


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_an_answer_that_cannot_be_read_ends_its_request_and_says_so(kind: str) -> None:
    """Nobody waits until the time is up. Source: issue "What broke", 14."""
    peer = Peer()
    async with peer.running() as channel:

        async def ask() -> None:
            with pytest.raises(MCPError, match="Parse" if kind == "an error for nobody" else None) as raised:
                await channel.send_raw_request("tools/call", None)
            assert isinstance(raised.value, UnreadableMessageError) is (kind != "an error for nobody")

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                [request] = await peer.heard(1)
                place = b"%\0d\0" if kind == "in UTF-16" else b"%d"
                number = str(request["id"]).encode("utf-16-le" if kind == "in UTF-16" else "ascii")
                peer.says(UNREADABLE[kind].replace(place, number))


READABLE = {
    "a byte order mark": b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": %d, "result": {"x": 1}}',
    "a batch": b'[{"jsonrpc": "2.0", "id": %d, "result": {"x": 1}}]',
    "an id as a fraction": b'{"jsonrpc": "2.0", "id": %d.0, "result": {"x": 1}}',
    "an id as text": b'{"jsonrpc": "2.0", "id": "%d", "result": {"x": 1}}',
}


@pytest.mark.parametrize("kind", READABLE)
async def test_an_answer_that_is_only_written_oddly_is_read(kind: str) -> None:
    """Its meaning is clear, though the protocol does not allow the form."""
    peer = Peer()
    results = []
    async with peer.running() as channel:

        async def ask() -> None:
            results.append(await channel.send_raw_request("tools/call", None))

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                [request] = await peer.heard(1)
                peer.says(READABLE[kind].replace(b"%d", b"%d" % request["id"]))
    assert results == [{"x": 1}]


async def test_a_log_line_in_json_ends_no_request() -> None:
    """Many servers write their log as JSON, on the wrong stream."""
    peer = Peer()
    results = []
    async with peer.running() as channel:

        async def ask() -> None:
            results.append(await channel.send_raw_request("tools/call", None))

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                [request] = await peer.heard(1)
                peer.says(b'{"level": "info", "error": "none", "result": 1}')
                peer.says(b'{"level": "info", "error": ')
                peer.says({"jsonrpc": "2.0", "id": request["id"], "result": {"x": 1}})
    assert results == [{"x": 1}]


async def test_of_several_requests_the_one_that_is_named_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """The others go on; text that is no message ends none, and is told in the log."""
    peer = Peer()
    ended: list[str] = []
    async with peer.running() as channel:

        async def ask(name: str) -> None:
            try:
                await channel.send_raw_request(name, None)
                ended.append(f"{name} well")
            except MCPError:
                ended.append(f"{name} failed")

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, "one")
                [one] = await peer.heard(1)
                tasks.start_soon(ask, "two")
                two = (await peer.heard(2))[1]
                peer.says(b"{starting with 'id': %d}" % two["id"])
                peer.says(b'{"jsonrpc": "2.0", "result": {"id": 77}, "id": %d' % one["id"])
                peer.says({"jsonrpc": "2.0", "id": two["id"], "result": {}})

    assert ended == ["one failed", "two well"]
    assert "cannot be read" in capsys.readouterr().out


async def test_several_answers_in_one_list_are_all_taken() -> None:
    """As one revision of the protocol has it."""
    peer = Peer()
    async with peer.running() as channel:
        found: list[object] = []

        async def ask() -> None:
            found.append(await channel.send_raw_request("any", None))

        with anyio.fail_after(SOON_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                tasks.start_soon(ask)
                asked = await peer.heard(2)
                answers = [{"jsonrpc": "2.0", "id": one["id"], "result": {"x": 1}} for one in asked]
                peer.says(json.dumps(answers).encode())

    assert found == [{"x": 1}, {"x": 1}]


async def test_what_is_no_message_is_told_once_and_cut_off_when_it_floods(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Objects that are neither question nor answer count like noise. Source: issue "What broke", 14."""
    peer = Peer()
    async with peer.running() as channel:
        for _ in range(100):
            peer.says(b"\n".join([b'{"jsonrpc": "2.0", "result": {}}'] * 1_000))

    assert not channel.alive
    assert "flooded" in channel.reason
    assert capsys.readouterr().out.count("cannot be read") == 1
