"""Connections on which nothing comes for long are kept alive."""

import anyio
import pytest
from starlette.types import Message

from maitred.background import Background
from maitred.surfaces.mcp.http_answer import HttpAnswer
from maitred.surfaces.mcp.pings import Pings

pytestmark = pytest.mark.anyio

SOON_S = 60.0
OFTEN_S = 0.03


class Wire:
    """What is sent; `two` is set after the second part of a body."""

    def __init__(self) -> None:
        self.kinds: list[bytes] = []
        self.parts: list[bytes] = []
        self.two = anyio.Event()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.kinds += [value for name, value in message["headers"] if name == b"content-type"]
        elif message["body"]:
            self.parts.append(message["body"])
            if len(self.parts) == 2:
                self.two.set()


async def test_a_silent_answer_becomes_a_stream_with_comments() -> None:
    """A proxy cuts a silent connection, and clients ignore comments. Source: SSE, authoring notes."""
    wire, pings = Wire(), Pings(OFTEN_S)
    answer = HttpAnswer(wire.send)
    pings.add(answer)
    with anyio.fail_after(SOON_S):
        async with Background() as background:
            background.start(pings.run)
            await wire.two.wait()
    pings.discard(answer)
    await answer.finish(b"{}")

    assert wire.kinds == [b"text/event-stream"]
    assert set(wire.parts[:-1]) == {b": ping\r\n\r\n"}
    assert wire.parts[-1] == b"event: message\r\ndata: {}\r\n\r\n"


async def test_an_answer_that_is_over_is_left_alone() -> None:
    """Nothing follows the answer."""
    wire = Wire()
    answer = HttpAnswer(wire.send)
    await answer.finish(b"{}")
    await answer.ping()
    await answer.event(b"late")

    assert (wire.kinds, wire.parts) == ([b"application/json"], [b"{}"])
