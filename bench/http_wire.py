"""The lean clients of `bench.wire` over HTTP: streamable in both eras, and the SSE transport of 2024-11-05.

A client keeps its connections open and has as many as it has requests at once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bench.values import LostError, PeerError
from bench.wire import META, Era, Json, Wire

_HOST: Final = "127.0.0.1"
_MAX_LINE: Final = 64 * 1024 * 1024
_REFUSED: Final = 400
_LEARN_S: Final = 10.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> "_Head":
        """Send a request and read the head of its answer.

        Raises:
            PeerError: The status is an error.
        """
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {path} HTTP/1.1\r\nHost: {_HOST}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        first, *rest = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in rest if line)
        status = int(first.split()[1])
        answer = _Head(status=status, headers={name.lower(): value.strip() for name, _, value in pairs})
        if status >= _REFUSED:
            text = b"".join([piece async for piece in self.pieces(answer)])
            raise PeerError(f"{method} {path} was answered with {status}: {text[:200].decode()}")
        return answer

    async def pieces(self, head: "_Head") -> AsyncIterator[bytes]:
        """The body, as it comes."""
        if head.headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                yield (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readuntil(b"\r\n")
        elif length := int(head.headers.get("content-length", 0)):
            yield await self.reader.readexactly(length)

    async def events(self, head: "_Head") -> AsyncIterator[bytes]:
        """The data of server-sent events that are not empty, as they come."""
        held = b""
        async for piece in self.pieces(head):
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data:") and (data := line[5:].strip()):
                    yield data


@dataclass(frozen=True, kw_only=True)
class _Head:
    status: int
    headers: Mapping[str, str]


class HttpWire(Wire):
    """Streamable HTTP. `url` is the path below a port of loopback."""

    def __init__(self, port: int, path: str, era: Era) -> None:
        super().__init__(era)
        self._port = port
        self._path = path
        self._session: dict[str, str] = {}
        self._idle: list[_Connection] = []
        self._has_ended = False

    async def notices(self) -> AsyncIterator[str]:
        """The methods of notifications, as they come; the first item is empty and says that all is ready."""
        if self.era == "handshake":
            method, body, headers = "GET", b"", {}
        else:
            filters = {"notifications": {"toolsListChanged": True}, "_meta": META}
            message = {"jsonrpc": "2.0", "id": 0, "method": "subscriptions/listen", "params": filters}
            method, body, headers = "POST", json.dumps(message).encode(), _about(message)
        connection = await self._connection()
        try:
            head = await connection.ask(method, self._path, self._headers() | headers, body)
            yield ""
            async for data in connection.events(head):
                yield json.loads(data).get("method", "")
        finally:
            connection.writer.close()

    async def _exchange(self, number: int, message: Json) -> Json:
        head, bodies = await self._post(message)
        if session := head.headers.get("mcp-session-id"):
            self._session = {"Mcp-Session-Id": session}
        answers = [one for one in map(json.loads, bodies) if one.get("id") == number and "method" not in one]
        if not answers:
            why = f"{message['method']} was answered with {head.status} and no message"
            raise LostError(why, was_sent=True)
        answer: Json = answers[0]
        return answer

    async def _notify(self, method: str) -> None:
        await self._post({"jsonrpc": "2.0", "method": method})

    async def _post(self, message: Json) -> tuple[_Head, list[bytes]]:
        connection = await self._connection()
        try:
            body = json.dumps(message).encode()
            head = await connection.ask("POST", self._path, self._headers() | _about(message), body)
            if head.headers.get("content-type", "").startswith("text/event-stream"):
                bodies = [data async for data in connection.events(head)]
            else:
                bodies = [piece async for piece in connection.pieces(head)]
        except BaseException:
            connection.writer.close()
            raise
        if self._has_ended:
            connection.writer.close()
        else:
            self._idle.append(connection)
        return head, bodies

    def _headers(self) -> dict[str, str]:
        return {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Mcp-Protocol-Version": self.protocol_version,
            **self._session,
        }

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.reader.at_eof():  # a server closes what was idle for long
                return connection
            connection.writer.close()
        return await _dial(self._port)

    async def end(self) -> None:
        """Release the session and close all connections, also of requests that are still answered."""
        self._has_ended = True
        try:
            if self._session and self._idle:
                await self._idle[0].ask("DELETE", self._path, self._headers(), b"")
        except (PeerError, EOFError, OSError):
            pass  # it has gone, or knows no end of a session
        finally:
            for connection in self._idle:
                connection.writer.close()


class SseWire(HttpWire):
    """SSE, before streamable HTTP: answers come on one stream, requests go to an address that it names."""

    async def listen(self, events: AsyncIterator[bytes]) -> None:
        """Take answers until the stream ends."""
        async for data in events:
            self._take(json.loads(data))
        self._give_up()

    async def _exchange(self, number: int, message: Json) -> Json:
        answer = self._expect(number)
        await self._post(message)
        return await answer


@asynccontextmanager
async def connect_http(port: int, path: str, era: Era) -> AsyncIterator[HttpWire]:
    """Open a connection to a program that listens."""
    wire = HttpWire(port, path, era)
    try:
        await wire.open()
        yield wire
    finally:
        await wire.end()


async def await_sse(port: int, path: str) -> None:
    """Wait for a gateway that refuses connections over SSE while it starts its servers."""
    async with asyncio.timeout(_LEARN_S):
        while True:
            stream = await _dial(port)
            try:
                await stream.ask("GET", path, {"Accept": "text/event-stream"}, b"")
            except PeerError:
                await asyncio.sleep(_POLL_S)
            else:
                return
            finally:
                stream.writer.close()


@asynccontextmanager
async def connect_sse(port: int, path: str) -> AsyncIterator[SseWire]:
    """Open a connection over SSE."""
    stream = await _dial(port)
    head = await stream.ask("GET", path, {"Accept": "text/event-stream"}, b"")
    events = stream.events(head)
    wire = SseWire(port, (await anext(events)).decode(), "handshake")
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(wire.listen(events))
        try:
            await wire.open()
            yield wire
        finally:
            listening.cancel()
            stream.writer.close()
            await wire.end()


async def _dial(port: int) -> _Connection:
    reader, writer = await asyncio.open_connection(_HOST, port, limit=_MAX_LINE)
    return _Connection(reader=reader, writer=writer)


def _about(message: Json) -> dict[str, str]:
    """The headers by which the stateless era routes a request; the others ignore them."""
    name = message.get("params", {}).get("name")
    return {"Mcp-Method": message["method"], **({"Mcp-Name": name} if name else {})}
