"""The last events of a session's streams, for a client that comes back with `Last-Event-ID`.

A session is one of the handshake era over HTTP. Its client names the last event that it received, and gets
those that came after it, then those that still come. The buffer is in memory and ends with the session. It is
bounded in events and bytes, for a session and for all. Of the older events, notices of changes are merged, so
that none of them is lost. The id of an event is `STREAM-NUMBER`; numbers grow within a session. Where several
gateways serve a session, it begins with the name of the one that has the event: `REPLICA.STREAM-NUMBER`.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

import anyio
from mcp_types import INTERNAL_ERROR
from pydantic_core import to_json

MOST_EVENTS: Final = 256
"""Events of one session; older ones are dropped."""
MOST_BYTES: Final = 1024 * 1024
"""Bytes of the events of one session; its newest event may be larger."""
MOST_BYTES_IN_ALL: Final = 32 * 1024 * 1024
_MOST_STREAMS: Final = 1_000
_MOST_NOTICES: Final = 1_000
_LONGEST_NOTICE: Final = 4_096
_ID: Final = re.compile(r"(?:([0-9a-f]{1,16})\.)?([0-9]{1,15})-([0-9]{1,15})", re.ASCII)
NOTICES: Final = frozenset(
    {
        *(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")),
        "notifications/resources/updated",
    }
)
"""Messages that say that something changed: of several that say the same, the last one is enough."""
_LOST_ANSWER: Final = (
    "the answer came while the connection was broken, and the gateway has dropped it since: it keeps the"
    f" last {MOST_EVENTS} events and {MOST_BYTES // 1024} KiB of a session; the request was carried out, so"
    " read what it changed before you send it again"
)

RequestId = str | int
SendEvent = Callable[[bytes, str], Awaitable[None]]
"""Sends the text of an event, and its id."""


class Reader:
    """A connection on which a stream is read from the buffer; `resumed` if its client came back to it."""

    __slots__ = ("_news", "resumed")

    def __init__(self, *, resumed: bool) -> None:
        self.resumed = resumed
        self._news = anyio.Event()

    def wake(self) -> None:
        """Make the reader look for events again."""
        self._news.set()

    async def wait(self) -> None:
        """Wait until there may be events."""
        await self._news.wait()
        self._news = anyio.Event()


@dataclass(eq=False, slots=True)
class Stream:
    """The answer stream of a request, or with number 0 the stream that a client opens by GET."""

    number: int
    answer: tuple[int, RequestId] | None = None  # the number of the event, and the id of the request
    reader: Reader | None = None
    give_up: Callable[[], None] | None = None
    """Ends the connection on which the request was made, while that has the stream."""


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    stream: Stream
    text: bytes
    notice: tuple[str, str] | None


class EventMemory:
    """Bounds the events of all sessions together; the session with the most bytes loses events first."""

    def __init__(self, most_bytes: int = MOST_BYTES_IN_ALL) -> None:
        self._most = most_bytes
        self._sessions: set[SessionEvents] = set()
        self.size = 0

    def open(self, replica: str = "") -> "SessionEvents":
        """The events of a new session; it must be closed."""
        events = SessionEvents(self, f"{replica}." if replica else "")
        self._sessions.add(events)
        return events

    def forget(self, events: "SessionEvents") -> None:
        """Stop counting a session, which has dropped its events."""
        self._sessions.discard(events)

    def bound(self) -> None:
        """Drop events until the rest is within the limit."""
        while self.size > self._most:
            max(self._sessions, key=lambda one: one.size).drop_oldest()


class SessionEvents:
    """The events of one session; `mark` is how their ids begin."""

    def __init__(self, memory: EventMemory, mark: str = "") -> None:
        self._mark = mark
        self._memory = memory
        self._events: deque[_Event] = deque()
        self.listening = Stream(0)
        """The stream of messages that answer no request."""
        self._streams: dict[int, Stream] = {}
        self._notices: OrderedDict[tuple[str, str], _Event] | None = None
        self.number = 0
        """The number of the newest event."""
        self._stream_number = 0
        self._closed = False
        self.size = 0

    def close(self) -> None:
        """Drop all events and end all streams."""
        self._closed = True
        while self._events:
            self.drop_oldest()
        self._notices = None
        for stream in (self.listening, *self._streams.values()):
            if stream.reader is not None:
                stream.reader.wake()
        self._streams.clear()
        self._memory.forget(self)

    def end_listening(self) -> None:
        """End the stream that the client opened by GET; it may open one again."""
        reader, self.listening.reader = self.listening.reader, None
        if reader is not None:
            reader.wake()

    # --- storing ------------------------------------------------------------------------------------------

    def begin(self) -> tuple[Stream, str]:
        """A new stream for the answer of a request, and the id from which its client misses nothing."""
        self._stream_number += 1
        self.number += 1
        stream = self._streams[self._stream_number] = Stream(self._stream_number)
        if len(self._streams) > _MOST_STREAMS:
            del self._streams[next(iter(self._streams))]
        return stream, self._id(stream, self.number)

    def store(self, stream: Stream, text: bytes, *, method: str = "", uri: str = "") -> str:
        """Store a message of a stream; returns the id of its event. A notice is known by its method."""
        notice = (method, uri) if method in NOTICES else None
        return self._store(stream, text, notice)

    def store_answer(self, stream: Stream, text: bytes, request_id: RequestId) -> str:
        """Store the last message of a stream: the answer of its request."""
        stream.answer = (self.number + 1, request_id)
        return self._store(stream, text, None)

    def _store(self, stream: Stream, text: bytes, notice: tuple[str, str] | None) -> str:
        self.number += 1
        event = _Event(self.number, stream, text, notice)
        if not self._closed:
            self._add(event)
        return self._id(stream, event.number)

    def _id(self, stream: Stream, number: int) -> str:
        return f"{self._mark}{stream.number}-{number}"

    def _add(self, event: _Event) -> None:
        self._events.append(event)
        self.size += len(event.text)
        self._memory.size += len(event.text)
        while len(self._events) > MOST_EVENTS or (len(self._events) > 1 and self.size > MOST_BYTES):
            self.drop_oldest()
        self._memory.bound()
        if event.stream.reader is not None:
            event.stream.reader.wake()

    def drop_oldest(self) -> None:
        """Drop the oldest event; a notice of a change is merged with its like."""
        event = self._events.popleft()
        self.size -= len(event.text)
        self._memory.size -= len(event.text)
        if event.notice is None or event.stream is not self.listening or len(event.text) > _LONGEST_NOTICE:
            return
        notices = self._notices = OrderedDict() if self._notices is None else self._notices
        notices.pop(event.notice, None)
        notices[event.notice] = event
        if len(notices) > _MOST_NOTICES:
            notices.popitem(last=False)

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def listening_from(self) -> str:
        """The id from which a client that opens a stream by GET misses nothing."""
        return self._id(self.listening, self.number)

    def position(self, event_id: str) -> tuple[Stream, int] | Literal["unknown", "finished"]:
        """The stream and the number of an event; or that it is not known, or that nothing can follow it."""
        if (match := _ID.fullmatch(event_id)) is None or (match[1] or "") != self._mark.rstrip("."):
            return "unknown"
        stream_number, number = int(match[2]), int(match[3])
        stream = self._streams.get(stream_number) if stream_number else self.listening
        if stream is None or number > self.number or self._closed:
            return "unknown"
        if stream.answer is not None and stream.answer[0] <= number:
            return "finished"
        return stream, number

    async def follow(self, stream: Stream, after: int, send: SendEvent, *, resumed: bool = True) -> None:
        """Send what followed an event, then what follows, until the stream ends or has another reader."""
        reader, before = Reader(resumed=resumed), stream.reader
        stream.reader = reader
        if before is not None:
            before.wake()
        try:
            while stream.reader is reader and not self._closed:
                event = self._next(stream, after)
                if event is not None:
                    after = event.number
                    await send(event.text, self._id(event.stream, event.number))
                elif stream.answer is None:
                    await reader.wait()
                else:
                    if stream.answer[0] > after:
                        await send(_lost(stream.answer[1]), "")
                    break
        finally:
            if stream.reader is reader:
                stream.reader = None

    def _next(self, stream: Stream, after: int) -> _Event | None:
        """The next event of a stream, of which the older ones may be merged or gone."""
        if stream is self.listening and self._notices:
            for event in self._notices.values():
                if event.number > after:
                    return event
        found = None
        for event in reversed(self._events):
            if event.number <= after:
                break
            if event.stream is stream:
                found = event
        return found


def origin_of(event_id: str) -> tuple[str, int]:
    """The gateway that has an event, and the number of its stream; nothing and 0 for what is no id."""
    match = _ID.fullmatch(event_id)
    return (match[1] or "", int(match[2])) if match else ("", 0)


def _lost(request_id: RequestId) -> bytes:
    error = {"code": INTERNAL_ERROR, "message": _LOST_ANSWER}
    return to_json({"jsonrpc": "2.0", "id": request_id, "error": error})
