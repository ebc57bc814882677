"""Replaces messages of a browser that are too large by short ones, before they are held in memory.

A page decides how large the events about it are: `console.log` of a long text is one message. A client of
WebSocket can only close the connection then, which all clients of the browser share. So the bytes of such a
message are thrown away as they come, and a short message takes its place. The answer to a command becomes
an error; an event becomes the event `OVERSIZE`, which names it.
"""

import json
import re
from typing import Final

OVERSIZE: Final = "maitred.oversize"
"""The event in place of one that was too large; its parameter `method` is the name of that one."""

_WHOLE_TEXT: Final = 0x81
_LENGTH_BYTES: Final = {126: 2, 127: 8}
_KEPT: Final = 1_024
_ID: Final = re.compile(rb'\{"id":(\d+),')
_METHOD: Final = re.compile(rb'\{"method":"([A-Za-z.]+)",')
_SESSION: Final = re.compile(rb'"sessionId":"([0-9A-Za-z]+)"\}$')


class OversizeFilter:
    """Takes the bytes that a server of WebSocket sends; what it returns has no message over `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._answer: bytes | None = b""
        self._head = b""
        self._passing = 0
        self._dropping = 0
        self._first = self._last = b""

    def feed(self, data: bytes) -> bytes:
        """What is left of the next bytes."""
        if self._answer is None:
            return self._frames(data, 0)
        self._answer += data
        end = self._answer.find(b"\r\n\r\n")
        if end < 0:
            return data
        rest = len(self._answer) - end - len(b"\r\n\r\n")
        self._answer = None  # the handshake is over
        return data[: len(data) - rest] + self._frames(data, len(data) - rest)

    def _frames(self, data: bytes, at: int) -> bytes:
        kept = bytearray()
        while at < len(data):
            if self._dropping:
                taken = min(self._dropping, len(data) - at)
                self._drop(data[at : at + taken])
                if not self._dropping:
                    kept += _frame(_replacement(self._first, self._last, self._limit))
            elif self._passing:
                taken = min(self._passing, len(data) - at)
                kept += data[at : at + taken]
                self._passing -= taken
            else:
                taken, head = self._read_head(data, at)
                kept += head
            at += taken
        return bytes(kept)

    def _read_head(self, data: bytes, at: int) -> tuple[int, bytes]:
        """How many bytes belong to the head of a frame, and the head if it is whole and passes."""
        before = len(self._head)
        known = self._head + data[at : at + 10]
        size = 2 + (_LENGTH_BYTES.get(known[1] & 0x7F, 0) if len(known) > 1 else 0)
        self._head = known[:size]
        if len(known) < size:
            return len(known) - before, b""
        head, self._head = self._head, b""
        length = int.from_bytes(head[2:], "big") if size > 2 else head[1] & 0x7F  # noqa: PLR2004  # the short form
        if length > self._limit and head[0] == _WHOLE_TEXT:
            self._dropping, self._first, self._last, head = length, b"", b"", b""
        else:
            self._passing = length
        return size - before, head

    def _drop(self, data: bytes) -> None:
        self._dropping -= len(data)
        self._first += data[: _KEPT - len(self._first)] if len(self._first) < _KEPT else b""
        self._last = (self._last + data[-_KEPT:])[-_KEPT:]


def _replacement(first: bytes, last: bytes, limit: int) -> bytes:
    """The short message in place of one that begins and ends so."""
    session = _SESSION.search(last)
    whose = {"sessionId": session[1].decode()} if session else {}
    if number := _ID.match(first):
        error = {"code": 0, "message": f"the answer is larger than {limit:,} bytes"}
        return json.dumps({"id": int(number[1]), "error": error, **whose}).encode()
    method = _METHOD.match(first)
    event = {"method": method[1].decode() if method else ""}
    return json.dumps({"method": OVERSIZE, "params": event, **whose}).encode()


def _frame(payload: bytes) -> bytes:
    """A whole message of text, which is short."""
    return bytes([_WHOLE_TEXT, 126]) + len(payload).to_bytes(2, "big") + payload
