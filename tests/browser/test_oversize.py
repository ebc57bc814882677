"""A message that is too large costs itself, and neither the connection nor memory."""

import json
from typing import Any

import anyio
import pytest
from tests.support.chromium import Hub, Running
from websockets.asyncio.server import ServerConnection, serve

from maitred.browser import cdp
from maitred.browser.cdp import CdpError, Params, connect
from maitred.browser.oversize import OVERSIZE, OversizeFilter

ANSWER = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


def frame(payload: bytes, opcode: int = 0x81) -> bytes:
    """A frame as a server sends it."""
    size = len(payload)
    if size < 126:
        return bytes([opcode, size]) + payload
    if size < 65_536:
        return bytes([opcode, 126]) + size.to_bytes(2, "big") + payload
    return bytes([opcode, 127]) + size.to_bytes(8, "big") + payload


def message(**more: Any) -> bytes:
    return json.dumps(more, separators=(",", ":")).encode()


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1_000, 10**9])
def test_only_what_is_too_large_is_replaced_however_the_bytes_come(chunk: int) -> None:
    """Small messages pass byte by byte; the replacement says which command or event it was."""
    text = "x" * 70_000
    log = {"args": [text], "sessionId": "S0"}
    sent = [
        frame(message(id=1, result={})),
        frame(message(id=2, result={"text": text}, sessionId="S2")),
        frame(message(method="Runtime.consoleAPICalled", params=log, sessionId="S1")),
        frame(message(id=3, result={"text": "y" * 300})),
        frame(b"", 0x89),
        frame(message(method="Target.targetCreated", params={"text": text})),
        frame(b"bye", 0x88),
    ]
    data, one = ANSWER + b"".join(sent), OversizeFilter(50_000)
    got = b"".join(one.feed(data[at : at + chunk]) for at in range(0, len(data), chunk))
    assert got.startswith(ANSWER + sent[0])
    assert sent[3] + sent[4] in got
    assert got.endswith(sent[-1])
    assert b'"id": 2, "error": {"code": 0, "message": "the answer is larger than 50,000 bytes"}' in got
    assert got.count(OVERSIZE.encode()) == 2
    assert b'"params": {"method": "Runtime.consoleAPICalled"}, "sessionId": "S1"}' in got
    assert b'"params": {"method": "Target.targetCreated"}}' in got
    assert len(got) < 2_000


@pytest.mark.anyio
async def test_a_connection_goes_on_after_a_message_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command whose answer it was fails with the reason; the next one is answered."""
    monkeypatch.setattr(cdp, "_MAX_MESSAGE", 1_000_000)
    heard: list[Params] = []

    async def talk(socket: ServerConnection) -> None:
        async for text in socket:
            command = json.loads(text)
            large = "x" * (2_000_000 if command["method"] == "Page.large" else 10)
            await socket.send(message(method="Page.said", params={"text": large}).decode())
            await socket.send(message(id=command["id"], result={"text": large}).decode())

    async with serve(talk, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with anyio.fail_after(60):
            async with connect(f"ws://127.0.0.1:{port}/devtools") as connection:
                connection.on("", OVERSIZE, heard.append)
                with pytest.raises(CdpError, match="the answer is larger than 1,000,000 bytes"):
                    await connection.send("Page.large")
                assert heard == [{"method": "Page.said"}]
                assert await connection.send("Page.small") == {"text": "x" * 10}


@pytest.mark.anyio
async def test_a_page_that_logs_or_throws_or_shows_a_huge_text_ends_no_connection(
    clients: Hub, running: Running, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text is larger than a message may be; the other client of the browser notices nothing."""
    monkeypatch.setattr(cdp, "_MAX_MESSAGE", 1_000_000)
    ann, bob = clients.client(), clients.client()
    for client in (ann, bob):
        await client.do("chrome_connect", port=running.port)
        await client.do("navigate", url=f"{shop}/index.html")
    page = await bob.toolbox._workspace.page()  # type: ignore[union-attr]
    await page.evaluate("console.log('x'.repeat(2e6))")
    assert "too large" in await bob.do("get_console_logs")
    await page.evaluate("alert('x'.repeat(2e6))")
    await bob.do("debugger_enable")
    await bob.do("debugger_set_pause_on_exceptions", state="all")
    await page.send("Runtime.evaluate", {"expression": "setTimeout(() => { throw 'x'.repeat(2e6) })"})
    assert "Opened" in await bob.do("navigate", url=f"{shop}/found.html")
    assert "Opened" in await ann.do("navigate", url=f"{shop}/found.html")
    assert [client.toolbox.state.connections for client in (ann, bob)] == [1, 1]
