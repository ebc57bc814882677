"""Requests of the handshake era over HTTP: POST brings a message, GET opens a stream, DELETE ends a session.

The answer of a request that may take time begins as a stream at once, with an event that names where it
begins. So its client can come back, if the connection breaks, and the request goes on meanwhile.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
from mcp.shared.dispatcher import CallOptions, coerce_request_id
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST
from mcp_types.version import is_version_at_least

from maitred.background import Background
from maitred.errors import ReplicaError, StoreError
from maitred.jsonrpc import Inbound, ScopedInbound
from maitred.surfaces.disconnects import OnDisconnect
from maitred.surfaces.encoding import encode
from maitred.surfaces.mcp.event_buffer import Stream
from maitred.surfaces.mcp.http_answer import HttpAnswer, error_text, failure_text, send_body
from maitred.surfaces.mcp.http_request import (
    HttpRefusalError,
    HttpRequest,
    accepts,
    is_notification,
    is_request,
)
from maitred.surfaces.mcp.pings import Pings
from maitred.surfaces.mcp.sessions import Session, Sessions, SessionsFullError, principal_of

RETRY_MS: Final = 1_000
"""After how many milliseconds a client should open a broken stream again."""

_POLLING: Final = "2025-11-25"  # the first revision whose clients can read an event without data
_SESSION: Final = b"mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"
_RETRY_AFTER_S: Final = 10
_REQUEST_CANCELLED: Final = -32800
_OK, _ACCEPTED, _NO_CONTENT = 200, 202, 204
_AT_ONCE: Final = frozenset(
    {
        "initialize",
        "ping",
        "logging/setLevel",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/unsubscribe",
        "prompts/list",
    }
)
"""Methods that the gateway answers from what it knows, so that no client has to come back for the answer."""
NOTED: Final = frozenset(
    {
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    }
)
"""Methods that change a session itself, of which other gateways have to know."""


class SessionEndpoint:
    """Answers requests of sessions; `background` ends streams that another connection takes over."""

    def __init__(self, sessions: Sessions, pings: Pings, background: Background) -> None:
        self._sessions = sessions
        self._pings = pings
        self._background = background

    async def serve(self, request: HttpRequest) -> None:
        """Answer a request.

        Raises:
            HttpRefusalError: It is malformed, belongs to no session, or would open one too many.
        """
        try:
            await self._serve(request, request.header(_SESSION))
        except SessionsFullError:
            raise self._full() from None
        except StoreError as error:
            raise _away(error) from error

    async def _serve(self, request: HttpRequest, session_id: str | None) -> None:
        session = None
        if session_id is None:
            self._sessions.make_room()
        elif (session := await self._sessions.find(session_id, request.viewer)) is None:
            raise _unknown_session()
        if request.method == "POST":
            await self._take(request, session, principal_of(request.viewer))
            return
        if request.method not in ("GET", "DELETE"):
            allowed = (b"allow", b"GET, POST, DELETE")
            raise HttpRefusalError(405, "Method Not Allowed", code=INVALID_REQUEST, headers=(allowed,))
        if session is None:
            raise _without_session()
        if request.method == "GET":
            await self._listen(request, session)
            return
        await self._sessions.end(session)
        await send_body(request.send, _OK, headers=((_SESSION, session.id.encode()),))

    def _full(self) -> HttpRefusalError:
        text = (
            f"the gateway has {self._sessions.most:,} sessions, which is its limit (http.max_sessions); end a"
            f" session by DELETE, or try again: a session ends after {self._sessions.idle_s:g} s without an"
            " open request (http.session_idle_timeout_s)"
        )
        again = (b"retry-after", b"%d" % _RETRY_AFTER_S)
        return HttpRefusalError(503, text, code=INTERNAL_ERROR, headers=(again,))

    # --- messages of the client ---------------------------------------------------------------------------

    async def _take(self, request: HttpRequest, session: Session | None, principal: str | None) -> None:
        request.check_post()
        message = await request.message()
        if session is not None and session.is_over:  # it ended while the body came
            raise _unknown_session()
        if session is None:
            await self._open(request, message, principal)
        elif is_request(message):
            await self._answer(request, session, message)
        elif isinstance(message, dict) and "id" not in message and is_notification(message):
            await send_body(request.send, _ACCEPTED, headers=((_SESSION, session.id.encode()),))
            await self._notice(request, session, message)
        elif isinstance(message, dict) and ("result" in message or "error" in message):
            await send_body(request.send, _ACCEPTED, headers=((_SESSION, session.id.encode()),))
            await self._sessions.take_answer(session, message)
        else:
            raise HttpRefusalError(400, "Body must be a single JSON-RPC message", code=INVALID_REQUEST)

    async def _open(self, request: HttpRequest, message: Any, principal: str | None) -> None:
        """Open a session, if the message asks for one; it is kept if the handshake is accepted."""
        if not is_request(message) or message["method"] != "initialize":
            raise _without_session()
        self._sessions.make_room()  # others came while the body did
        session = self._sessions.open(principal)
        try:
            await self._answer(request, session, message)
        finally:
            if not session.connection.initialize_accepted:
                await self._sessions.close(session)

    async def _answer(self, request: HttpRequest, session: Session, message: Mapping[str, Any]) -> None:
        can_resume = message["method"] not in _AT_ONCE and _can_poll(request.header(_VERSION))
        answer = _SessionAnswer(request, session, message["id"], self._background, can_resume=can_resume)
        context = _SessionRequest(answer, request, message)
        key = coerce_request_id(message["id"])
        session.requests[key] = context
        self._pings.add(answer)
        try:
            with self._sessions.hold(session):
                if can_resume:
                    await answer.begin()
                outcome = await self._outcome(session, context, message)
                if message["method"] in NOTED:
                    await self._sessions.note(session, message["method"], message.get("params"))
                await answer.finish(outcome)
        finally:
            self._pings.discard(answer)
            if session.requests.get(key) is context:
                del session.requests[key]

    async def _outcome(
        self, session: Session, context: "_SessionRequest", message: Mapping[str, Any]
    ) -> bytes:
        """The answer of a request, which this era gives to a cancelled request too."""
        request_id, viewer = message["id"], context.request.viewer
        try:
            with context.scope:
                result = await session.dispatch.on_request(
                    context, message["method"], message.get("params"), viewer
                )
                return encode({"jsonrpc": "2.0", "id": request_id, "result": result})
        except Exception as error:  # noqa: BLE001  # the client gets every error as its answer
            return failure_text(request_id, error)[0]
        if context.is_cancelled:
            return error_text(request_id, _REQUEST_CANCELLED, "Request cancelled")
        return error_text(request_id, CONNECTION_CLOSED, "the session was ended before the answer came")

    async def _notice(self, request: HttpRequest, session: Session, message: Mapping[str, Any]) -> None:
        method, params = message["method"], message.get("params")
        await self._sessions.take_notice(session, method, params)
        outlet = session.outlet
        context = _Notice(outlet.notify, outlet.send_raw_request, request)
        await session.dispatch.on_notify(context, method, params)
        if method in NOTED:
            await self._sessions.note(session, method, params)

    # --- streams that the client opens --------------------------------------------------------------------

    async def _listen(self, request: HttpRequest, session: Session) -> None:
        """Send what belongs to no request, or what follows the event that the client received last."""
        if not accepts(request.headers.get(b"accept", b""))[1]:
            text = "Not Acceptable: Client must accept text/event-stream"
            raise HttpRefusalError(406, text, code=INVALID_REQUEST)
        events = session.events
        last_event_id = request.header(b"last-event-id") or ""
        if last_event_id and await self._is_elsewhere(request, session, last_event_id):
            return
        last_event_id = await self._sessions.begin_listening(session, request.viewer, last_event_id)
        if last_event_id:
            position = events.position(last_event_id)
            if position == "finished":  # "no more events": clients stop to ask
                await send_body(request.send, _NO_CONTENT)
                return
            if position == "unknown":
                raise _unknown_event(last_event_id)
            first = b""
        else:
            reader = events.listening.reader
            if reader is not None and not reader.resumed:
                text = "Conflict: Only one SSE stream is allowed per session"
                raise HttpRefusalError(409, text, code=INVALID_REQUEST)
            position = events.listening, events.number
            first = _priming(events.listening_from) if _can_poll(request.header(_VERSION)) else b""
        stream, after = position
        if stream.give_up is not None:
            stream.give_up()  # a connection that broke without notice
        with self._sessions.hold(session):
            await self._send_stream(request, session, stream, after, first, resumed=bool(last_event_id))

    async def _is_elsewhere(self, request: HttpRequest, session: Session, last_event_id: str) -> bool:
        """Send a stream that another gateway has; false if it is one of this gateway, or of none.

        Raises:
            HttpRefusalError: That gateway does not have the event any more, or has ended.
        """
        sessions = self._sessions
        try:
            page = await sessions.read_elsewhere(session, last_event_id, waits=False)
        except ReplicaError as error:
            raise _unknown_event(last_event_id, f" ({error.reason})") from error
        if page is None:
            return False
        if page.position == "finished":
            await send_body(request.send, _NO_CONTENT)
            return True
        if page.position:
            raise _unknown_event(last_event_id)
        answer = HttpAnswer(request.send, ((_SESSION, session.id.encode()),))
        self._pings.add(answer)
        try:
            with (
                sessions.hold(session),
                suppress(ReplicaError),  # its client comes back, and hears that the answer is lost
                anyio.CancelScope() as scope,
                OnDisconnect(request.scope, scope.cancel),
            ):
                await answer.begin()
                while page is not None:
                    for text, event_id in page.events:
                        await answer.event(text.encode(), event_id)
                        last_event_id = event_id or last_event_id
                    if page.is_over:
                        break
                    page = await sessions.read_elsewhere(session, last_event_id, waits=True)
        finally:
            self._pings.discard(answer)
        await answer.end()
        return True

    async def _send_stream(
        self,
        request: HttpRequest,
        session: Session,
        stream: Stream,
        after: int,
        first: bytes,
        *,
        resumed: bool,
    ) -> None:
        answer = HttpAnswer(request.send, ((_SESSION, session.id.encode()),))
        self._pings.add(answer)
        try:
            with anyio.CancelScope() as scope, OnDisconnect(request.scope, scope.cancel):
                await answer.begin(first)
                await session.events.follow(stream, after, answer.event, resumed=resumed)
        finally:
            self._pings.discard(answer)
        await answer.end()


class _SessionAnswer(HttpAnswer):
    """The answer to a request of a session; once it is a stream, its messages can be read again."""

    __slots__ = ("_background", "_can_resume", "_request_id", "_session", "_stream", "is_answered")

    def __init__(
        self,
        request: HttpRequest,
        session: Session,
        request_id: str | int,
        background: Background,
        *,
        can_resume: bool,
    ) -> None:
        super().__init__(request.send, ((_SESSION, session.id.encode()),))
        self._session = session
        self._request_id = request_id
        self._background = background
        self._can_resume = can_resume
        self._stream: Stream | None = None
        self.is_answered = False

    async def begin(self, first: bytes = b"") -> None:
        """Make the answer a stream; its first event says where it begins, if the client can read that."""
        if self._stream is not None or self.is_answered:
            return
        self._stream, begins = self._session.events.begin()
        self._stream.give_up = self._give_up
        await super().begin(_priming(begins) if self._can_resume else b"")

    async def finish(self, text: bytes, event_id: str = "", *, status: int = _OK) -> None:
        """Send the answer; without a stream, it cannot be read again."""
        self.is_answered = True
        if self._stream is not None:
            self._stream.give_up = None
            event_id = self._session.events.store_answer(self._stream, text, self._request_id)
        elif not self._session.connection.initialize_accepted:
            self._headers = ()  # it opened no session
        await super().finish(text, event_id, status=status)

    def _give_up(self) -> None:
        """Leave the stream to another connection, and end this one."""
        if self._stream is not None:
            self._stream.give_up = None
        if not self.is_over:
            self.is_over = True
            self._background.start(partial(self._write, b"", more=False))

    async def _send_message(self, message: Mapping[str, Any]) -> None:
        await self.begin()
        if self._stream is None:
            return
        text = encode(message)
        event_id = self._session.events.store(self._stream, text)
        await self.event(text, event_id)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification before the answer; do nothing after it."""
        if self.is_answered:
            return
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = dict(params)
        await self._send_message(message)

    async def ask(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send the client a request before the answer."""
        if self.is_answered:
            raise NoBackChannelError(method)
        return await self._session.questions.ask(self._send_message, method, params, opts)


class _SessionRequest(ScopedInbound):
    """The context of a request, as handlers of the SDK expect it."""

    transport = TransportContext(kind="streamable-http", can_send_request=True)

    def __init__(self, answer: _SessionAnswer, request: HttpRequest, message: Mapping[str, Any]) -> None:
        super().__init__(answer.notify, answer.ask, message["id"], message.get("params"))
        self._answer = answer
        self.request = request

    @property
    def can_send_request(self) -> bool:  # type: ignore[override]
        """Whether the stream of the request is still there."""
        return not self._answer.is_answered

    @property
    def message_metadata(self) -> ServerMessageMetadata:  # type: ignore[override]
        """The HTTP request, which handlers of the SDK get."""
        return self.request.metadata


class _Notice(Inbound):
    """The context of a notification; what it causes goes to the stream that is opened by GET."""

    transport = TransportContext(kind="streamable-http", can_send_request=True)

    def __init__(self, notify: Callable[..., Any], ask: Callable[..., Any], request: HttpRequest) -> None:
        super().__init__(notify, ask, None, None)
        self.request = request

    @property
    def message_metadata(self) -> ServerMessageMetadata:  # type: ignore[override]
        """The HTTP request, which handlers of the SDK get."""
        return self.request.metadata


def _priming(event_id: str) -> bytes:
    """The event without data with which a stream begins."""
    return f"id: {event_id}\r\nretry: {RETRY_MS}\r\ndata: \r\n\r\n".encode()


def _can_poll(version: str | None) -> bool:
    return version is not None and is_version_at_least(version, _POLLING)


def _unknown_session() -> HttpRefusalError:
    return HttpRefusalError(404, "Session not found", code=INVALID_REQUEST)


def _away(error: StoreError) -> HttpRefusalError:
    text = f"the session cannot be looked up: {error}"
    again = (b"retry-after", b"1")
    return HttpRefusalError(503, text, code=INTERNAL_ERROR, headers=(again,))


def _without_session() -> HttpRefusalError:
    return HttpRefusalError(400, "Bad Request: Missing session ID", code=INVALID_REQUEST)


def _unknown_event(event_id: str, why: str = "") -> HttpRefusalError:
    text = (
        f"the session has no event {event_id[:40]!r}, or no longer{why}; open the stream without"
        " Last-Event-ID, and read again what may have changed"
    )
    return HttpRefusalError(400, text, code=INVALID_REQUEST)
