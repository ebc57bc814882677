"""The process that a client starts: it passes lines to a gateway in the background, and back.

It holds no catalog and starts no server. If the gateway ends or hangs, it finds or starts another one and
goes on, so that the client need not restart. While there is no gateway, each request gets an answer with the
reason. Two threads each wait on one side: a client that writes much before it reads must not stop the other
way.
"""

import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from maitred.errors import DaemonError
from maitred.surfaces.daemon.discovery import AloneError, RefusalError
from maitred.surfaces.daemon.handshake import GatewayConnection, decode_line
from maitred.surfaces.daemon.liveness import answers, end_gateway
from maitred.surfaces.daemon.session_replay import Id, Replay

_CHUNK: Final = 1 << 18
_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
_DELAYS_S: Final = (0.0, 0.2, 1.0, 3.0)
_QUIET_S: Final = 10.0
_MOST_WAITING: Final = 1000
_LAST_ANSWERS_S: Final = 60.0
"""For how long requests are answered after the client ended its side, as `echo` does in a pipe."""
_LOOK_S: Final = 0.1
_MOST_ENDS: Final = 10
_ENDS_WITHIN_S: Final = 60.0
_BYE: Final = b'{"maitred":'
STOPPED: Final = "stopped"
"""The last message of a gateway that an operator stopped: the next one starts when the client needs it."""

MOVED: Final = "moved"
"""The last message of a gateway that no longer serves us: our environment or token no longer fits."""


class ClientRelay:
    """Passes lines between two file descriptors and gateways.

    Args:
        reach: Finds or starts a gateway that welcomes us, or raises a `DaemonError`.
        source: The file descriptor of the client's lines.
        sink: The file descriptor of lines for the client.
        end: Ends the process with a code, from any thread.
    """

    def __init__(
        self,
        reach: Callable[[], GatewayConnection],
        source: int,
        sink: int,
        end: Callable[[int], Any] = os._exit,
    ) -> None:
        self._reach = reach
        self._source = source
        self._sink = sink
        self._end = end
        self._replay = Replay()
        self._changed = threading.Condition()
        self._talk: GatewayConnection | None = None
        self._news: list[bytes] = []
        self._told = ""
        self._answering = threading.Thread(target=self._to_client, daemon=True)
        self._is_over = False
        self._ends: deque[float] = deque(maxlen=_MOST_ENDS)

    def run(self, talk: GatewayConnection) -> int:
        """Serve over a first connection until the client closes its side; returns the exit code."""
        talk.socket.settimeout(None)
        self._talk = talk
        self._answering.start()
        for lines in _lines(self._source):
            with self._changed:
                self._take(lines)
        until = time.monotonic() + _LAST_ANSWERS_S
        with self._changed:
            while self._replay.awaits_answers and time.monotonic() < until and _has_reader(self._sink):
                self._changed.wait(_LOOK_S)
            self._is_over = True
            self._changed.notify_all()
            if self._talk is not None:
                self._talk.hang_up()
        self._answering.join(_LAST_ANSWERS_S)  # it may still be writing them
        return 0

    # --- from the client ----------------------------------------------------------------------------------

    def _take(self, lines: Sequence[bytes]) -> None:
        """Pass on what has arrived, in one piece unless a line has to wait."""
        why = ""
        batch: list[tuple[bytes, Id | None]] = []
        for line in lines:
            if self._has_to_wait(line) or self._talk is None:
                self._forward(batch)
                batch = []
                self._changed.wait_for(lambda: not self._has_to_wait(line))  # noqa: B023  # it returns before the next
                if self._talk is None and not why and not self._is_over:
                    why = self._mend()
            batch.append((line, self._replay.sent(line)))
        self._forward(batch)
        if why and self._talk is None:
            self._refuse(why)

    def _has_to_wait(self, line: bytes) -> bool:
        """Whether to hold a request back: the client sends many, and does not read the answers.

        The gateway would have to store them all, at the expense of its other clients. Lines that are not
        requests, such as a cancellation, are passed on.
        """
        if self._talk is None or self._replay.waiting < _MOST_WAITING:
            return False
        return b'"id"' in line and b'"method"' in line

    def _forward(self, batch: Sequence[tuple[bytes, Id | None]]) -> None:
        """Send lines; a request of which no byte was sent goes to the next gateway, whatever its method."""
        taken, data = 0, memoryview(b"".join([line for line, _ in batch]))
        try:
            while self._talk is not None and taken < len(data):
                taken += self._talk.socket.send(data[taken:])
        except OSError:  # the reading thread will notice, and reconnect
            pass
        start = 0
        for line, number in batch if taken < len(data) else ():
            if start >= taken and number is not None:
                self._replay.unsent(number)
            start += len(line)

    # --- to the client ------------------------------------------------------------------------------------

    def _to_client(self) -> None:
        """Pass on lines of gateways; a bug of ours ends the process, so that no client waits forever."""
        try:
            self._pass_all()
        except Exception:  # noqa: BLE001  # also unforeseen errors
            sys.excepthook(*sys.exc_info())
            self._end(1)

    def _pass_all(self) -> None:
        """Pass on the lines of one gateway after the other; only this thread writes to the client."""
        while not self._is_over:
            with self._changed:
                self._changed.wait_for(lambda: self._talk is not None or self._news or self._is_over)
                talk, news, self._news = self._talk, self._news, []
            self._write(b"".join(news))
            if talk is not None:
                self._ended(talk, self._pass_on(talk))

    def _pass_on(self, talk: GatewayConnection) -> str:
        """Pass on whole lines until the gateway ends; returns its last message, or an empty text."""
        rest: list[bytes] = []
        data, why = talk.rest, ""
        while True:
            head, newline, tail = data.rpartition(b"\n")
            if newline:
                lines = b"".join([*rest, head]).split(b"\n")
                rest = []
                with self._changed:
                    passed = [self._replay.received(line + b"\n") for line in lines]
                    self._changed.notify_all()  # a waiting request may go on now
                if lines[-1].startswith(_BYE):
                    why = str(decode_line(lines[-1]).get("maitred", ""))
                    passed.pop()
                self._write(b"".join(passed))
            if tail:
                rest.append(tail)
            try:
                data = talk.socket.recv(_CHUNK) if self._has_news(talk) else b""
            except OSError:
                data = b""
            if not data:  # an unfinished line is dropped
                return why

    def _has_news(self, talk: GatewayConnection) -> bool:
        """Wait until a gateway sends bytes or ends; false if it hangs while a request waits."""
        while not select.select([talk.socket], [], [], _QUIET_S)[0]:
            if self._replay.waiting and not answers(talk):
                end_gateway(talk)  # if that fails, the next `reach` reports it
                return False
        return True

    def _write(self, data: bytes) -> None:
        """Write to the client, which may not read for a while; if the client is gone, end the process."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._sink, left) :]
            except BlockingIOError:
                select.select([], [self._sink], [])
            except OSError:
                self._end(0)
                return

    # --- between gateways ---------------------------------------------------------------------------------

    def _ended(self, talk: GatewayConnection, why: str) -> None:
        """Answer lost requests after a gateway has ended; then reconnect, unless an operator stopped it."""
        talk.hang_up()  # stops a thread that still writes to it
        with self._changed:
            talk.close()
            self._talk = None
            self._changed.notify_all()
            if not why:
                self._ends.append(time.monotonic())
            lost = [] if self._is_over else list(self._replay.lost(talk.safe_tools))
        self._write(b"".join(lost))
        with self._changed:
            pressing = why != STOPPED or self._replay.is_pressing
            if self._talk is None and not self._is_over and pressing and (fault := self._mend()):
                self._refuse(fault)

    def _mend(self) -> str:
        """Send the client's state to another gateway; returns the reason if there is none now, else empty.

        It ends the process if gateways end again and again, or if the configuration turns sharing off.
        """
        if len(self._ends) == _MOST_ENDS and self._ends[-1] - self._ends[0] < _ENDS_WITHIN_S:
            why = f"the background gateway ended {_MOST_ENDS} times within a minute"
            self._give_up(why)
            return why
        try:
            talk = self._found()
        except AloneError as error:
            self._give_up(str(error))
            return str(error)
        except (DaemonError, OSError) as error:
            return str(error)
        talk.socket.settimeout(None)
        self._talk, self._told = talk, ""
        self._forward([(line, number) for number, line in self._replay.again()])
        self._news += self._replay.news()
        self._changed.notify_all()
        return ""

    def _refuse(self, why: str) -> None:
        """Answer all requests that there is no gateway now; the next request starts a new search."""
        if why != self._told:
            _complain(why)
        self._told = why
        self._news += self._replay.failed(why)
        self._changed.notify_all()

    def _found(self) -> GatewayConnection:
        for delay in _DELAYS_S[:-1]:
            try:
                return self._reach()
            except (AloneError, RefusalError):
                raise
            except (DaemonError, OSError):
                time.sleep(delay)
        time.sleep(_DELAYS_S[-1])
        return self._reach()

    def _give_up(self, why: str) -> None:
        self._is_over = True
        self._write(b"".join(self._replay.failed(why, all_of_them=True)))
        _complain(why)
        self._end(1)


def _has_reader(sink: int) -> bool:
    """Whether a process can still read what is written to a file descriptor."""
    look = select.poll()
    look.register(sink, 0)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in look.poll(0))


def _complain(why: str) -> None:
    sys.stderr.write(f"error: {why}\n")
    sys.stderr.flush()


def _lines(source: int) -> Iterator[list[bytes]]:
    """Whole lines with their ends, as many at once as have arrived, until the source ends."""
    rest: list[bytes] = []
    size = 0
    while data := _read(source):
        head, newline, tail = data.rpartition(b"\n")
        if newline:
            lines = b"".join([*rest, head]).split(b"\n")
            rest, size = [], 0
            yield [line + b"\n" for line in lines]
        if tail:
            rest.append(tail)
            size += len(tail)
            if size > _MAX_MESSAGE_BYTES:
                raise DaemonError(f"the client sent a message of more than {_MAX_MESSAGE_BYTES:,} bytes")


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, _CHUNK)
        except BlockingIOError:
            select.select([source], [], [])
        except OSError:
            return b""


def end_when_told() -> None:
    """End in good order on SIGINT, SIGTERM and SIGHUP."""

    def end(*_: object) -> None:
        raise SystemExit(0)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
