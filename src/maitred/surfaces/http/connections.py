"""Connections with bounds on the bytes and time before a request's sender is known.

Names, tokens and bodies are checked once a request is complete. Until then a stranger could send headers
without end, or hold connections and send nothing. Answers have no time limit: streams of events live for
days. Head and body of an answer leave together by a private method of uvicorn, which a test pins.
"""

import asyncio
import sys
from typing import Any, Final

import structlog
from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from maitred.surfaces.disconnects import ON_DISCONNECT, Disconnection

if sys.platform != "win32":
    import resource

log = structlog.get_logger(__name__)

MOST_HEAD: Final = 64 * 1024
"""Bytes of a request's first line and headers, with trailers."""
MOST_HEADERS: Final = 100
HEAD_S: Final = 10.0
BODY_S: Final = 60.0
_LINGER_S: Final = 2.0
_FEWEST: Final = 16
_MOST_ON_WINDOWS: Final = 512
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_PER_HEADER: Final = 4  # a colon, a blank, the end of the line
_REFUSALS: Final = {
    408: ("Request Timeout", "request_timeout", "the request did not come in time"),
    431: (
        "Request Header Fields Too Large",
        "head_too_large",
        f"a request may have {MOST_HEADERS} headers, and {MOST_HEAD // 1024} KiB of them",
    ),
    503: ("Service Unavailable", "too_many_connections", "there are too many connections; try again later"),
}


def most_connections() -> int:
    """The limit of connections: half of the file descriptors, since servers and files need the rest."""
    if sys.platform == "win32":  # sockets are no files there
        return _MOST_ON_WINDOWS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_FEWEST, soft // 2)


class _HeadWithBody:
    """The transport of one answer; it sends the head together with the first part of the body.

    uvicorn writes them one after the other, and each system call costs as much as the rest of its work. The
    ASGI specification asks servers to wait for the body in any case.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._is_begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes, unless they are the head."""
        if self._is_begun or data == _CONTINUE:
            self._transport.write(data)
        elif not self._head:
            self._head = data
        else:
            self._is_begun = True
            self._transport.write(self._head + data)

    def close(self) -> None:
        """Send a head without a body, and close."""
        if self._head and not self._is_begun:
            self.write(b"")
        self._transport.close()


class BoundedProtocol(HttpToolsProtocol):
    """A connection of uvicorn with bounds; a request beyond them gets an answer, and then it is closed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most = most_connections()
        self._size = 0
        self._count = 0
        self._unseen = 0
        self._in_message = False
        self._refused = 0
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._disconnection = Disconnection()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self._most + _FEWEST:
            transport.abort()  # many refusals are being sent already, and each holds a descriptor
        elif len(self.connections) > self._most:
            self._refuse(503)
        else:
            self._wait(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection and its deadline."""
        self._wait(None)
        self._set_timer(None)
        super().connection_lost(exc)
        self._disconnection.complete()

    def data_received(self, data: bytes) -> None:
        """Parse bytes; ignore those after a refusal."""
        if self._refused:
            return
        self._unseen += len(data)  # of a header without end, the parser reports nothing else
        super().data_received(data)
        if self._refused:
            return
        if self._unseen > MOST_HEAD:
            self._refuse(431)
        elif not self._in_message and self._deadline is None and not self._answers:
            self._wait(HEAD_S)  # no request began, and uvicorn's keep-alive timer has stopped

    def on_message_begin(self) -> None:
        """Begin a request; on a kept connection its time starts again."""
        super().on_message_begin()
        self._size = self._count = 0
        self._in_message = True
        self._wait(HEAD_S)

    def on_url(self, url: bytes) -> None:
        """Count a part of the first line."""
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header or a trailer."""
        self._count += 1
        self._grow(len(name) + len(value) + _PER_HEADER)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the time of the body."""
        self._unseen = 0
        self._wait(BODY_S)
        self.scope[ON_DISCONNECT] = self._disconnection  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if cycle.scope["method"] != "HEAD":  # whose answer has no body
            cycle.transport = _HeadWithBody(cycle.transport)  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body; the application limits its size."""
        self._unseen = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the deadline: the request is complete, and its answer has no time limit."""
        self._in_message = False
        self._unseen = 0
        self._wait(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP, unless a refusal was sent already."""
        if not self._refused:
            self._wait(None)
            super().send_400_response(msg)

    def _grow(self, size: int) -> None:
        self._unseen = 0
        self._size += size
        if self._size > MOST_HEAD or self._count > MOST_HEADERS:
            self._refuse(431)
            raise HttpParserError("the head is too large")

    @property
    def _answers(self) -> bool:
        """Whether an answer is being sent."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self, seconds: float | None) -> None:
        """Set the deadline of the next event in seconds; `None` for no deadline.

        A timer that is set stays, since most deadlines are met: it looks at the deadline when its time comes.
        """
        self._deadline = deadline = None if seconds is None else self.loop.time() + seconds
        if deadline is not None and (self._timer is None or self._timer.when() > deadline):
            self._set_timer(deadline)

    def _set_timer(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(at, self._look_at_deadline) if at is not None else None

    def _look_at_deadline(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._deadline <= self.loop.time():
            self._refuse(408)
        else:
            self._set_timer(self._deadline)

    def _refuse(self, status: int) -> None:
        """Answer, read on for a moment so that the answer is not lost, and close."""
        self._refused = status
        self._wait(None)
        if self.transport.is_closing():
            return
        phrase, code, message = _REFUSALS[status]
        log.info("a connection was refused", status=status, reason=message)
        if not self._answers:
            body = f'{{"error":"{code}","message":"{message}"}}'.encode()
            head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
            self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)
