"""The line channel and what JSON cannot hold: it is mended where it comes in, and no peer is kept waiting."""

import json

import anyio
import pytest
from tests.backends.rig import SOON_S
from tests.backends.test_channel import Peer

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
