"""A server over HTTP whose answer has no end: the gateway reads no more of it than one message may have."""

import json
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest
from tests.backends.rig import LONG_S, RESOLVE, call, options

from maitred.backends.base import NOT_ASKED
from maitred.backends.http import HttpBackend
from maitred.config.settings import Limits
from maitred.errors import ServerError
from maitred.model.servers import ServerSpec

pytestmark = pytest.mark.anyio

LIMIT = 1_000_000
PIECE = b" " * 65_536
PIECES = 4_000
"""Far more than the limit, and so few that a gateway which reads them all ends, too."""
OPENED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "endless", "version": "1"},
}


class Endless:
    """Opens a session and answers a call with a body that goes on."""

    def __init__(self, packed: bool, token: str = "") -> None:
        self.url = ""
        self.sent = 0
        self._packed = packed
        self._token = token
        self._head = ""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        self.url = f"http://127.0.0.1:{port}/mcp"
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield
            tasks.cancel_scope.cancel()

    async def _serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                while True:
                    await self._answer(stream, await self._request(stream))
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return

    async def _request(self, stream: anyio.abc.SocketStream) -> dict[str, object]:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        head, _, body = data.partition(b"\r\n\r\n")
        self._head = head.decode()
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while lengths and len(body) < int(lengths[0].partition(b":")[2]):
            body += await stream.receive()
        message: dict[str, object] = json.loads(body) if body else {}
        return message

    async def _answer(self, stream: anyio.abc.SocketStream, message: dict[str, object]) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        if self._token not in self._head:
            head = head.replace(b"200 OK", b"401 Unauthorized")
        if message.get("method") == "tools/call" or b"401" in head:
            packed = b"Content-Encoding: gzip\r\n" if self._packed else b""
            await stream.send(head + packed + b"Transfer-Encoding: chunked\r\n\r\n")
            packer = zlib.compressobj(wbits=31)
            for _ in range(PIECES):
                piece = packer.compress(PIECE) + packer.flush(zlib.Z_SYNC_FLUSH) if self._packed else PIECE
                await stream.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.sent += 1
            await stream.send(b"0\r\n\r\n")
            return
        if "id" not in message:
            await stream.send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            return
        answer: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"], "result": OPENED}
        if message["method"] != "initialize":
            answer = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}
        body = json.dumps(answer).encode()
        await stream.send(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


@pytest.mark.parametrize("packed", [False, True], ids=["as it is", "packed"])
async def test_an_answer_without_an_end_is_not_read_to_its_end(packed: bool) -> None:
    """The call fails with the limit, the session stays. Source: issue "What broke", 5, elsewhere."""
    server = Endless(packed)
    with anyio.fail_after(LONG_S):
        async with server.running():
            spec = ServerSpec(name="endless", transport="http", url=server.url, era="handshake")
            backend = HttpBackend(spec, resolve=RESOLVE, limits=Limits(max_message_bytes=LIMIT))
            async with backend.connect(options("handshake")) as connection:
                with pytest.raises(ServerError, match="more than 1,000,000 bytes"):
                    await connection.call_tool("any", call("any"), timeout_s=LONG_S, caller=NOT_ASKED)
    assert server.sent < PIECES / 2


class Renewing:
    """Tokens of which the first is refused."""

    scope = ""
    remedy = "run `maitred login`"

    async def token(self) -> str:
        return "old-token"

    async def renewed(self, refused: str) -> str:
        del refused
        return "new-token"


@pytest.mark.parametrize("packed", [False, True], ids=["as it is", "packed"])
async def test_a_refused_token_is_renewed_whatever_the_refusal_goes_on_to_say(packed: bool) -> None:
    """The refusal is not read: it may have no end. Source: issue "What broke", 5, elsewhere."""
    server = Endless(packed, token="new-token")
    with anyio.fail_after(LONG_S):
        async with server.running():
            spec = ServerSpec(name="endless", transport="http", url=server.url, era="handshake")
            backend = HttpBackend(
                spec, resolve=RESOLVE, limits=Limits(max_message_bytes=LIMIT), tokens_of=lambda _: Renewing()
            )
            async with backend.connect(options("handshake")) as connection:
                assert connection.facts.version == "1"
    assert server.sent < PIECES / 2
