"""The answer to one HTTP request: one JSON body, or a stream of server-sent events.

A request is answered by JSON if nothing is sent before its answer. The first message before it makes the
answer a stream, and so does a long silence, because proxies cut a connection on which nothing comes.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from mcp.server.runner import modern_error_data
from starlette.types import Message

from maitred.surfaces.encoding import encode

JSON_TYPE: Final = (b"content-type", b"application/json")
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)
_PING: Final = b": ping\r\n\r\n"
_OK: Final = 200

Send = Callable[[Message], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]


class HttpAnswer:
    """The answer to one request, which may be sent by several tasks; `headers` are added to ours."""

    __slots__ = ("_headers", "_send", "is_over", "is_stream", "sent_at")

    def __init__(self, send: Send, headers: Headers = ()) -> None:
        self._send = send
        self._headers = headers
        self.is_stream = False
        self.is_over = False
        self.sent_at = time.monotonic()

    async def begin(self, first: bytes = b"") -> None:
        """Make the answer a stream, which begins with these bytes."""
        if self.is_stream or self.is_over:
            return
        self.is_stream = True
        await self._send(
            {"type": "http.response.start", "status": _OK, "headers": [*_STREAM, *self._headers]}
        )
        await self._write(first)

    async def event(self, text: bytes, event_id: str = "") -> None:
        """Send a message before the answer."""
        if not self.is_over:
            await self.begin()
            await self._write(frame(text, event_id))

    async def finish(self, text: bytes, event_id: str = "", *, status: int = _OK) -> None:
        """Send the last message; a stream has begun with status 200, whatever the status is."""
        if self.is_over:
            return
        self.is_over = True
        if self.is_stream:
            await self._write(frame(text, event_id), more=False)
        else:
            await send_body(self._send, status, text, (JSON_TYPE, *self._headers))

    async def end(self) -> None:
        """End the stream without a last message."""
        if self.is_stream and not self.is_over:
            self.is_over = True
            await self._write(b"", more=False)

    async def ping(self) -> None:
        """Send something, because the connection was silent for long."""
        if not self.is_over:
            await self.begin()
            await self._write(_PING)

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        self.sent_at = time.monotonic()
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


def frame(text: bytes, event_id: str = "") -> bytes:
    """A JSON message as a server-sent event."""
    if event_id:
        return b"id: %b\r\nevent: message\r\ndata: %b\r\n\r\n" % (event_id.encode(), text)
    return b"event: message\r\ndata: %b\r\n\r\n" % text


async def send_body(send: Send, status: int, body: bytes = b"", headers: Headers = ()) -> None:
    """Answer with a whole body."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def send_text(send: Send, status: int, text: str, headers: Headers = ()) -> None:
    """Answer with a text, where no message could be read."""
    kind = (b"content-type", b"text/plain; charset=utf-8")
    await send_body(send, status, text.encode(), (kind, *headers))


def error_text(request_id: str | int | None, code: int, text: str, data: Any = None) -> bytes:
    """An error of JSON-RPC."""
    error: dict[str, Any] = {"code": code, "message": text}
    if data is not None:
        error["data"] = data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error})


def failure_text(request_id: str | int, error: Exception) -> tuple[bytes, int]:
    """The error of JSON-RPC for what a handler raised, and its code."""
    known = modern_error_data(error)
    return error_text(request_id, known.code, known.message, known.data), known.code
