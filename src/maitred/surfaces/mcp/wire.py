"""The two directions of one client's stream, as the event loop sees them: a socket, or a pair of pipes.

A wire stores bytes until a reader takes them, first by lines and then all of them. It knows no messages.
"""

import asyncio
from collections.abc import Callable

import anyio


class Wire(asyncio.Protocol):
    """Hands arriving bytes to the attached reader, and stores them until one is attached.

    `opened` is called once the stream is open, `check` before arriving bytes are handed on: if it closes the
    wire, they are dropped. For a pair of pipes, the wire is the protocol of the one that it writes to, and
    `end_input` says that the other has ended.
    """

    def __init__(
        self, opened: Callable[["Wire"], None] | None = None, check: Callable[[], None] | None = None
    ) -> None:
        self._opened = opened
        self._check = check
        self._feed: Callable[[bytes], None] | None = None
        self._end: Callable[[], None] | None = None
        self._early = b""
        self._news = anyio.Event()
        self._sink: asyncio.WriteTransport | None = None
        self._writable = anyio.Event()
        self._writable.set()
        self._is_lost = False
        self.ended = False
        """Whether the other side sends no more."""

    # --- what asyncio calls -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that one direction, or both, can be used."""
        if isinstance(transport, asyncio.WriteTransport):
            self._sink = transport
            if self._opened is not None:
                self._opened(self)

    def data_received(self, data: bytes) -> None:
        """Hand on or store bytes from the other side."""
        if self._check is not None:
            self._check()
            if self._sink is not None and self._sink.is_closing():
                return
        if self._feed is None:
            self._early += data
            self._news.set()
        else:
            self._feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wire: the other side is gone, or we have closed it."""
        self._is_lost = True
        self._writable.set()
        self.end_input()

    def pause_writing(self) -> None:
        """Make writers wait: the other side reads more slowly than we write."""
        if not self._is_lost:
            self._writable = anyio.Event()

    def resume_writing(self) -> None:
        """Let writers go on: the other side has caught up."""
        self._writable.set()

    # --- what we call -------------------------------------------------------------------------------------

    def end_input(self) -> None:
        """Note that the other side sends no more; it may still read."""
        self.ended = True
        self._news.set()
        if self._end is not None:
            self._end()

    @property
    def can_write(self) -> bool:
        """Whether the other side may still read."""
        return not self._is_lost and self._sink is not None and not self._sink.is_closing()

    async def flush(self, within_s: float) -> None:
        """Wait until the other side has taken all bytes, or is gone."""
        if self.can_write:
            self._get_sink().set_write_buffer_limits(high=0)  # from now on, any byte left counts as behind
            with anyio.move_on_after(within_s):
                await self._writable.wait()

    def socket_option(self, level: int, option: int, length: int) -> bytes:
        """An option of the socket beneath."""
        found: bytes = self._get_sink().get_extra_info("socket").getsockopt(level, option, length)
        return found

    async def line(self, most: int) -> bytes:
        """The next line of at most `most` bytes, without its end; only before a reader is attached.

        Raises:
            EOFError: The other side ended before the line did, or sent a longer line.
        """
        await self.arrival(most)
        return self.take_line()

    async def arrival(self, most: int) -> bytes:
        """Wait for the next line, and leave it to be taken or to be read; see `line`."""
        while b"\n" not in self._early:
            if self.ended or len(self._early) > most:
                raise EOFError
            self._news = anyio.Event()
            await self._news.wait()
        return self._early.partition(b"\n")[0]

    def take_line(self) -> bytes:
        """The line that has arrived, without its end."""
        line, _, self._early = self._early.partition(b"\n")
        return line

    def attach(self, feed: Callable[[bytes], None], end: Callable[[], None]) -> None:
        """Give `feed` all bytes that arrive from now on; call `end` when the wire ends."""
        self._feed, self._end = feed, end
        early, self._early = self._early, b""
        if early:
            feed(early)
        if self.ended:
            end()

    def write(self, data: bytes) -> anyio.Event | None:
        """Send bytes; returns the event of the other side's catching up, if it is behind.

        Raises:
            BrokenPipeError: The other side takes no more bytes.
        """
        sink = self._get_sink()
        if self._is_lost or sink.is_closing():
            raise BrokenPipeError
        sink.write(data)
        return None if self._writable.is_set() else self._writable

    def close(self, last: bytes = b"") -> None:
        """Close the wire after all written bytes, and `last` after them, are sent."""
        if self._sink is not None and not self._sink.is_closing():
            if last:
                self._sink.write(last)
            self._sink.close()

    def _get_sink(self) -> asyncio.WriteTransport:
        if self._sink is None:
            raise BrokenPipeError
        return self._sink
