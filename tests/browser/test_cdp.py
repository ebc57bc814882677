"""The client of the DevTools Protocol against a peer that sends what browsers send, in any order."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from websockets.asyncio.server import ServerConnection, serve

from maitred.browser.cdp import CdpClosedError, CdpConnection, CdpError, CdpTimeoutError, connect

pytestmark = pytest.mark.anyio

Answer = Callable[[ServerConnection, dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def peer(answer: Answer) -> AsyncIterator[CdpConnection]:
    """A connection to a peer that answers each command by a function."""

    async def talk(socket: ServerConnection) -> None:
        async for text in socket:
            await answer(socket, json.loads(text))

    async with serve(talk, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with anyio.fail_after(60):
            async with connect(f"ws://127.0.0.1:{port}/devtools") as connection:
                yield connection


async def test_events_reach_every_handler_before_the_answer_that_follows_them() -> None:
    """Two consumers of one event both hear of it; one that left does not; a faulty one harms no other."""
    heard: list[str] = []

    async def answer(socket: ServerConnection, command: dict[str, Any]) -> None:
        event = {"method": "Page.loaded", "params": {"n": command["id"]}, "sessionId": "s1"}
        await socket.send(json.dumps(event))
        await socket.send(json.dumps({"id": command["id"], "result": {"done": True}, "sessionId": "s1"}))

    async with peer(answer) as connection:

        def fail(_: object) -> None:
            raise ValueError("a fault of one consumer")

        connection.on("s1", "Page.loaded", fail)
        leave = connection.on("s1", "Page.loaded", lambda params: heard.append(f"one {params['n']}"))
        connection.on("s1", "Page.loaded", lambda params: heard.append(f"two {params['n']}"))
        connection.on("s2", "Page.loaded", lambda _: heard.append("another session"))
        assert await connection.send("Page.open", {}, "s1") == {"done": True}
        assert heard == ["one 1", "two 1"]
        leave()
        await connection.send("Page.open", {}, "s1")
        assert heard == ["one 1", "two 1", "two 2"]


async def test_a_refused_command_says_which_and_why() -> None:
    async def answer(socket: ServerConnection, command: dict[str, Any]) -> None:
        error = {"code": -32_000, "message": "Cannot find context"}
        await socket.send(json.dumps({"id": command["id"], "error": error}))

    async with peer(answer) as connection:
        with pytest.raises(CdpError, match=r"Runtime\.evaluate: Cannot find context") as caught:
            await connection.send("Runtime.evaluate")
    assert caught.value.code == -32_000


async def test_a_command_without_answer_ends_in_time() -> None:
    async def answer(socket: ServerConnection, command: dict[str, Any]) -> None:
        """Say nothing."""

    async with peer(answer) as connection:
        with pytest.raises(CdpTimeoutError, match=r"did not answer Page\.wait within 0\.05 s"):
            await connection.send("Page.wait", timeout_s=0.05)


async def test_a_session_that_ends_fails_its_commands_and_no_others() -> None:
    async def answer(socket: ServerConnection, command: dict[str, Any]) -> None:
        if command["method"] == "Page.wait":
            gone = {"method": "Target.detachedFromTarget", "params": {"sessionId": "s1"}}
            await socket.send(json.dumps(gone))
        else:
            await socket.send(json.dumps({"id": command["id"], "result": {}}))

    async with peer(answer) as connection:
        with pytest.raises(CdpClosedError, match="the tab was closed"):
            await connection.send("Page.wait", {}, "s1")
        assert await connection.send("Browser.getVersion") == {}


async def test_a_connection_that_ends_fails_all_commands_with_its_reason() -> None:
    """Those in flight and those after it; whoever listens hears of it before they fail."""
    heard: list[str] = []

    async def answer(socket: ServerConnection, command: dict[str, Any]) -> None:
        await socket.close(1001, "the browser is shut down")

    async with peer(answer) as connection:
        connection.on_end.append(heard.append)
        with pytest.raises(CdpClosedError, match="the browser is shut down"):
            await connection.send("Page.wait", {}, "s1")
        assert heard == [connection.closed]
        with pytest.raises(CdpClosedError, match="the browser is shut down"):
            await connection.send("Page.wait")
        assert await connection.wait_closed() == connection.closed


async def test_a_listener_that_fails_leaves_no_command_waiting() -> None:
    heard: list[str] = []

    def fail(_: str) -> None:
        raise ValueError("a fault of one consumer")

    async def answer(socket: ServerConnection, command: dict[str, Any]) -> None:
        await socket.close(1001, "the browser is shut down")

    async with peer(answer) as connection:
        connection.on_end += [fail, heard.append]
        with pytest.raises(CdpClosedError, match="the browser is shut down"):
            await connection.send("Page.wait")
        assert heard == [await connection.wait_closed()]


async def test_no_command_that_a_handler_sends_is_lost() -> None:
    """However many wait: a page waits for ever for its `Runtime.runIfWaitingForDebugger`."""
    many, sent, everything = 2_000, list[int](), anyio.Event()

    async def answer(socket: ServerConnection, command: dict[str, Any]) -> None:
        if command["method"] == "Page.open":
            await socket.send(json.dumps({"method": "Page.opened", "params": {}}))
            return
        sent.append(command["params"]["n"])
        if len(sent) == many:
            everything.set()

    def post_many(_: object) -> None:
        for number in range(many):
            connection.post("Page.run", {"n": number})

    async with peer(answer) as connection:
        connection.on("", "Page.opened", post_many)
        connection.post("Page.open", {})
        await everything.wait()
    assert sent == list(range(many))


async def test_a_handler_can_send_a_command_of_which_it_needs_no_answer() -> None:
    sent: list[str] = []
    posted = anyio.Event()

    async def answer(socket: ServerConnection, command: dict[str, Any]) -> None:
        sent.append(command["method"])
        if command["method"] == "Page.handle":
            posted.set()
        event = {"method": "Page.dialog", "params": {}}
        await socket.send(json.dumps(event if command["method"] == "Page.open" else {"id": command["id"]}))

    async with peer(answer) as connection:
        connection.on("", "Page.dialog", lambda _: connection.post("Page.handle", {}))
        with pytest.raises(CdpTimeoutError):
            await connection.send("Page.open", timeout_s=0.5)
        await posted.wait()
    assert sent == ["Page.open", "Page.handle"]
