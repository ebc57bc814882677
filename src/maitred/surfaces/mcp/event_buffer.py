"""The last events of a session's streams, for a client that comes back with `Last-Event-ID`.

A session is one of the handshake era over HTTP. Its client names the last event that it received, and gets
those that came after it, then those that still come. The buffer is in memory and ends with the session. It is
bounded in events and bytes, for a session and for all. Of the older events, notices of changes are merged, so
that none of them is lost. The id of an event is `STREAM-NUMBER`; numbers grow within a session.
"""

import re
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final, Literal

import anyio
from mcp.server.streamable_http import GET_STREAM_KEY, EventCallback, EventMessage, EventStore
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

MOST_EVENTS: Final = 256
"""Events of one session; older ones are dropped."""
MOST_BYTES: Final = 1024 * 1024
"""Bytes of the events of one session; its newest event may be larger."""
MOST_BYTES_IN_ALL: Final = 32 * 1024 * 1024
_MOST_STREAMS: Final = 1_000
_MOST_NOTICES: Final = 1_000
_LONGEST_NOTICE: Final = 4_096
_ID: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,15})", re.ASCII)
_NOTICES: Final = frozenset(
    {
        *(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")),
        "notifications/resources/updated",
    }
)
_LOST_ANSWER: Final = (
    "the answer came while the connection was broken, and the gateway has dropped it since: it keeps the"
    f" last {MOST_EVENTS} events and {MOST_BYTES // 1024} KiB of a session; the request was carried out, so"
    " read what it changed before you send it again"
)

Position = Literal["unknown", "finished", "open"]


@dataclass(eq=False, kw_only=True)
class _Stream:
    """The answer stream of a request, or with number 0 the stream that a client opens by GET."""

    number: int
    key: str
    answer: tuple[int, RequestId] | None = None  # the number of the event, and the id of the request
    reader: object = None


@dataclass(frozen=True, kw_only=True)
class _Event:
    number: int
    stream: _Stream
    text: bytes
    notice: tuple[str, str] | None

    @property
    def id(self) -> str:
        return f"{self.stream.number}-{self.number}"


class EventMemory:
    """Bounds the events of all sessions together; the session with the most bytes loses events first."""

    def __init__(self, most_bytes: int = MOST_BYTES_IN_ALL) -> None:
        self._most = most_bytes
        self._sessions: set[SessionEvents] = set()
        self.size = 0

    def open(self) -> "SessionEvents":
        """The events of a new session; it must be closed."""
        events = SessionEvents(self)
        self._sessions.add(events)
        return events

    def forget(self, events: "SessionEvents") -> None:
        """Stop counting a session, which has dropped its events."""
        self._sessions.discard(events)

    def bound(self) -> None:
        """Drop events until the rest is within the limit."""
        while self.size > self._most:
            max(self._sessions, key=lambda one: one.size).drop_oldest()


class SessionEvents(EventStore):
    """The events of one session, as the SDK stores and replays them."""

    def __init__(self, memory: EventMemory) -> None:
        self._memory = memory
        self._events: deque[_Event] = deque()
        self._listening = _Stream(number=0, key=GET_STREAM_KEY)
        self._streams: OrderedDict[int, _Stream] = OrderedDict()
        self._current: dict[str, _Stream] = {}
        self._notices: OrderedDict[tuple[str, str], _Event] = OrderedDict()
        self._number = 0
        self._stream_number = 0
        self._news = anyio.Event()
        self._closed = False
        self.size = 0

    def close(self) -> None:
        """Drop all events, and end the streams that are replayed."""
        self._closed = True
        while self._events:
            self.drop_oldest()
        self._notices.clear()
        self._streams.clear()
        self._current.clear()
        self._memory.forget(self)
        self._wake()

    # --- storing ------------------------------------------------------------------------------------------

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store a message of a stream, or without a message its beginning; see `EventStore`."""
        stream = self._stream_of(stream_id, begins=message is None)
        self._number += 1
        text, notice = b"", None
        if message is not None:
            text = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        if isinstance(message, JSONRPCNotification) and message.method in _NOTICES:
            notice = (message.method, str((message.params or {}).get("uri", "")))
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            stream.answer = (self._number, message.id)
            self._current.pop(stream_id, None)
        event = _Event(number=self._number, stream=stream, text=text, notice=notice)
        if not self._closed:
            self._add(event)
        return event.id

    def _stream_of(self, key: str, *, begins: bool) -> _Stream:
        if key == GET_STREAM_KEY:
            return self._listening
        if begins or key not in self._current:
            self._stream_number += 1
            stream = _Stream(number=self._stream_number, key=key)
            self._current[key] = self._streams[stream.number] = stream
        if len(self._streams) > _MOST_STREAMS:
            _, oldest = self._streams.popitem(last=False)
            if self._current.get(oldest.key) is oldest:
                del self._current[oldest.key]
        return self._current[key]

    def _add(self, event: _Event) -> None:
        self._events.append(event)
        self.size += len(event.text)
        self._memory.size += len(event.text)
        while len(self._events) > MOST_EVENTS or (len(self._events) > 1 and self.size > MOST_BYTES):
            self.drop_oldest()
        self._memory.bound()
        self._wake()

    def drop_oldest(self) -> None:
        """Drop the oldest event; a notice of a change is merged with its like."""
        event = self._events.popleft()
        self.size -= len(event.text)
        self._memory.size -= len(event.text)
        if event.notice is None or event.stream is not self._listening or len(event.text) > _LONGEST_NOTICE:
            return
        self._notices.pop(event.notice, None)
        self._notices[event.notice] = event
        if len(self._notices) > _MOST_NOTICES:
            self._notices.popitem(last=False)

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    # --- replaying ----------------------------------------------------------------------------------------

    @property
    def listening_from(self) -> str:
        """The id from which a client that opens a stream by GET misses nothing."""
        return f"0-{self._number}"

    def position(self, last_event_id: str) -> tuple[Position, str]:
        """What can follow an event, and the SDK's key of its stream; no key if a later request has it."""
        known = self._find(last_event_id)
        if known is None:
            return "unknown", ""
        stream, number = known
        if stream.answer is not None:
            return ("finished" if stream.answer[0] <= number else "open"), ""
        current = stream is self._listening or self._current.get(stream.key) is stream
        return "open", stream.key if current else ""

    def end_replay(self) -> None:
        """End a replayed stream that a client opened by GET, because the client opens another."""
        self._listening.reader = None
        self._wake()

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what followed an event, then what follows until the stream ends.

        It returns `None`, so that the SDK continues no stream itself: between a replay and its continuation
        the SDK would lose events.
        """
        known = self._find(last_event_id)
        if known is None:
            return None
        stream, number = known
        stream.reader = reader = object()
        self._wake()
        while stream.reader is reader and not self._closed:
            news = self._news
            event = self._next(stream, number)
            if event is not None:
                number = event.number
                if event.text:
                    message = jsonrpc_message_adapter.validate_json(event.text, by_name=False)
                    await send_callback(EventMessage(message, event.id))
            elif stream.answer is None:
                await news.wait()
            else:
                if stream.answer[0] > number:
                    await send_callback(EventMessage(_lost(stream.answer[1])))
                break
        return None

    def _next(self, stream: _Stream, after: int) -> _Event | None:
        """The next event of a stream, of which the older ones may be merged or gone."""
        if stream is self._listening:
            for event in self._notices.values():
                if event.number > after:
                    return event
        return next((one for one in self._events if one.number > after and one.stream is stream), None)

    def _find(self, event_id: str) -> tuple[_Stream, int] | None:
        if (match := _ID.fullmatch(event_id)) is None:
            return None
        stream_number, number = int(match[1]), int(match[2])
        stream = self._streams.get(stream_number) if stream_number else self._listening
        return (stream, number) if stream is not None and number <= self._number else None


def _lost(request_id: RequestId) -> JSONRPCError:
    error = ErrorData(code=INTERNAL_ERROR, message=_LOST_ANSWER)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
