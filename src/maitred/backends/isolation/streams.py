"""The gateway's end of a container's standard streams, which share one socket of the engine.

A container's output comes in frames: one byte for the stream, three zero bytes, four for the length, and
the payload. While the gateway does not read, the container has to wait. That is how its output is limited
to a rate.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Final

import anyio

from maitred.backends.process import Tail
from maitred.token_bucket import TokenBucket

_HEADER: Final = 8
_STREAMS: Final = (0, 1, 2)
_STDERR: Final = 2


class Streams(asyncio.Protocol):
    """Takes the frames apart: standard output goes to `on_stdout`, standard error to `tail`.

    `ended` is set when no more output comes, for any reason; all earlier output is passed on before. It
    reads at most `rate` bytes a second, from both streams together.
    """

    def __init__(self, *, on_stdout: Callable[[bytes], None], tail: Tail, rate: int) -> None:
        self._on_stdout = on_stdout
        self._tail = tail
        self._bucket = TokenBucket(per_s=rate, size=rate, now=time.monotonic())
        self._transport: asyncio.Transport | None = None
        self._header = b""
        self._kind = 0
        self._payload_left = 0
        self._writable = anyio.Event()
        self._writable.set()
        self.ended = anyio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ready to read and write."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"expected a transport of both ways, got {transport!r}")
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take the next bytes, and pause reading if they exceed the rate."""
        wait_s = self._bucket.take(len(data), now=time.monotonic())
        if wait_s > 0 and self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(wait_s, self._go_on)
        while data:
            data = self._take_payload(data) if self._payload_left else self._take_header(data)

    def connection_lost(self, exc: Exception | None) -> None:  # asyncio's signature
        """No more output comes."""
        self.ended.set()
        self._writable.set()

    def pause_writing(self) -> None:
        """The container does not read as fast as the gateway writes."""
        self._writable = anyio.Event()

    def resume_writing(self) -> None:
        """The container caught up."""
        self._writable.set()

    @property
    def open(self) -> bool:
        """Whether the connection is open."""
        return self._transport is not None and not self.ended.is_set()

    def write(self, data: bytes) -> anyio.Event | None:
        """Send bytes to the container's standard input.

        Returns the event that is set once the container has caught up, if it is behind.

        Raises:
            BrokenPipeError: The container does not take input any more, and has read nothing of this.
        """
        if self._transport is None or self._transport.is_closing() or self.ended.is_set():
            raise BrokenPipeError
        self._transport.write(data)
        return None if self._writable.is_set() else self._writable

    def end_input(self) -> None:
        """Close the container's standard input; its output still comes."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        """Close the socket, and drop unsent bytes."""
        if self._transport is not None:
            self._transport.abort()

    def _go_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _take_header(self, data: bytes) -> bytes:
        missing = _HEADER - len(self._header)
        self._header += data[:missing]
        if len(self._header) == _HEADER:
            self._kind, self._payload_left = self._header[0], int.from_bytes(self._header[4:], "big")
            self._header = b""
            if self._kind not in _STREAMS:
                self._tail.feed(b"the engine sent what is no stream of a container\n")
                self.close()
                return b""
        return data[missing:]

    def _take_payload(self, data: bytes) -> bytes:
        payload, rest = data[: self._payload_left], data[self._payload_left :]
        self._payload_left -= len(payload)
        if self._kind == _STDERR:
            self._tail.feed(payload)
        else:
            self._on_stdout(payload)
        return rest


async def attach_socket(sock: socket.socket, streams: Streams) -> None:
    """Connect a socket to `streams` in the event loop."""
    await asyncio.get_running_loop().create_connection(lambda: streams, sock=sock)
