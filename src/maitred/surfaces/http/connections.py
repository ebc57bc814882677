"""Connections that cannot use the service up: bounds on what is read before anybody knows who asks.

Names, tokens and bodies are looked at once a request is there; until then a stranger could send headers
without end, or hold connections without sending anything. Answers may take as long as they like: streams of
events live for days.
"""

import asyncio
import resource
from typing import Any, Final

import structlog
from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = structlog.get_logger(__name__)

MOST_HEAD: Final = 64 * 1024
"""Bytes of a request's first line and headers, with those behind a body."""
MOST_HEADERS: Final = 100
HEAD_S: Final = 10.0
BODY_S: Final = 60.0
_LINGER_S: Final = 2.0
_FEWEST: Final = 16
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
    """How many connections there may be: half of the descriptors, since servers and files need theirs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_FEWEST, soft // 2)


class BoundedProtocol(HttpToolsProtocol):
    """One connection, as uvicorn's own but for its bounds; what breaks them is answered, and it is closed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most = most_connections()
        self._size = 0
        self._count = 0
        self._unseen = 0
        self._in_message = False
        self._refused = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._most + _FEWEST:
            transport.abort()  # so many are being told already; each holds a descriptor for that time
        elif len(self.connections) > self._most:
            self._refuse(503)
        else:
            self._wait(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, with all that was waited for."""
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; those that come after a refusal are not looked at."""
        if self._refused:
            return
        self._unseen += len(data)  # of a header without end, nothing else is seen
        super().data_received(data)
        if self._refused:
            return
        if self._unseen > MOST_HEAD:
            self._refuse(431)
        elif not self._in_message and self._deadline is None and not self._answers:
            self._wait(HEAD_S)  # what came is no request, and ended the time of a connection that is kept

    def on_message_begin(self) -> None:
        """A request begins; on a connection that is kept it has its time anew."""
        super().on_message_begin()
        self._size = self._count = 0
        self._in_message = True
        self._wait(HEAD_S)

    def on_url(self, url: bytes) -> None:
        """A part of the first line came."""
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came, or one behind the body."""
        self._count += 1
        self._grow(len(name) + len(value) + _PER_HEADER)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """All is there but the body."""
        self._unseen = 0
        self._wait(BODY_S)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body came; how much there may be is the application's matter."""
        self._unseen = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there; its answer may take its time."""
        self._in_message = False
        self._unseen = 0
        self._wait(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or what was refused while it was read."""
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
        """Whether an answer is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self, seconds: float | None) -> None:
        """Give what comes next so much time; `None` for any."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._refuse, 408) if seconds is not None else None

    def _refuse(self, status: int) -> None:
        """Answer, read on for a moment lest the answer be lost, and close."""
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
