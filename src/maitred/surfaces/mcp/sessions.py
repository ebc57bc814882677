"""Sessions of the handshake era over HTTP: how many, how long, and what a client can resume.

The SDK opens and ends them. This module gives each session a buffer of its events and answers what the SDK
answers badly: too many sessions, and a `Last-Event-ID` that leads nowhere. It overrides two private methods
of the SDK's manager, which `tests/surfaces/mcp/test_sessions.py` pins. A session with an open stream or a
request under way is not idle, even if the client of that request has lost its connection.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import anyio
from mcp.server.auth.middleware.bearer_auth import (
    AuthenticatedUser,
    AuthorizationContext,
    authorization_context,
)
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, ErrorData, JSONRPCError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, is_version_at_least
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from maitred.config.settings import Http
from maitred.surfaces.mcp.event_buffer import EventMemory, SessionEvents

RETRY_MS: Final = 1_000
"""After how many milliseconds a client should open a broken stream again."""
_POLLING: Final = "2025-11-25"  # the first revision whose clients can read an event without data
_SESSION: Final = "mcp-session-id"
_RETRY_AFTER_S: Final = 10


class _Session:
    """A session: its transport, its events, and how many requests hold it open."""

    def __init__(
        self,
        transport: StreamableHTTPServerTransport,
        events: SessionEvents,
        owner: AuthorizationContext | None,
        idle_s: float,
    ) -> None:
        self.transport = transport
        self.events = events
        self.owner = owner
        self._idle_s = idle_s
        self._requests = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the session open; the SDK knows of open connections only, not of requests under way."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            scope = self.transport.idle_scope
            if scope is not None and not scope.cancel_called:
                idle_at = anyio.current_time() + self._idle_s
                scope.deadline = math.inf if self._requests else idle_at

    def resume_fault(self, last_event_id: str) -> Response | None:
        """The answer to a client that cannot go on after this event; `None` if it can."""
        position, key = self.events.position(last_event_id)
        if position == "unknown":
            told = (
                f"the session has no event {last_event_id[:40]!r}, or no longer; open the stream without"
                " Last-Event-ID, and read again what may have changed"
            )
            return _error(400, INVALID_REQUEST, told)
        if position == "finished":
            return Response(status_code=204)  # "no more events": clients stop to ask
        if key:
            self.transport.close_sse_stream(key)  # a connection that broke without notice
        return None


class Sessions(StreamableHTTPSessionManager):
    """The SDK's manager with settings, events for each session, and clear answers; an ASGI application."""

    def __init__(self, server: Server[Any], settings: Http) -> None:
        super().__init__(
            server,
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            retry_interval=RETRY_MS,
            session_idle_timeout=settings.session_idle_timeout_s,
            max_sessions=settings.max_sessions,
        )
        self._idle_s = settings.session_idle_timeout_s
        self._most = settings.max_sessions
        self._memory = EventMemory()
        self._sessions: dict[str, _Session] = {}
        server.middleware.insert(0, self._hold)

    def __len__(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of either era."""
        headers = Headers(scope=scope)
        version = headers.get("mcp-protocol-version")
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self.asgi_app(scope, receive, send)
            return
        if _SESSION not in headers and len(self) >= self._most:
            await self._full()(scope, receive, send)
            return
        session = self._owned(headers.get(_SESSION, ""), scope)
        if session is None:
            await self.asgi_app(scope, receive, send)
            return
        if scope["method"] == "GET":
            last_event_id = headers.get("last-event-id")
            if last_event_id and (answer := session.resume_fault(last_event_id)) is not None:
                await answer(scope, receive, send)
                return
            if not last_event_id:
                session.events.end_replay()
                send = _primed(send, session.events, version)
        with session.held():
            await self.asgi_app(scope, receive, send)

    def _owned(self, session_id: str, scope: Scope) -> _Session | None:
        """The session of a request, if it belongs to the request's principal; the SDK checks it too."""
        user = scope.get("user")
        owner = authorization_context(user) if isinstance(user, AuthenticatedUser) else None
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == owner else None

    def _full(self) -> Response:
        told = (
            f"the gateway has {self._most:,} sessions, which is its limit (http.max_sessions); end a session"
            f" by DELETE, or try again: a session ends after {self._idle_s:g} s without an open request"
            " (http.session_idle_timeout_s)"
        )
        return _error(503, INTERNAL_ERROR, told, {"Retry-After": str(_RETRY_AFTER_S)})

    async def _hold(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Hold a session open while a request of it is under way; a middleware of the SDK's server."""
        headers = getattr(ctx.request, "headers", {})
        session = self._sessions.get(headers.get(_SESSION, "")) if ctx.request_id is not None else None
        if session is None:
            return await call_next(ctx)
        with session.held():
            return await call_next(ctx)

    # --- overridden ---------------------------------------------------------------------------------------

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        self.event_store = events = self._memory.open()  # the SDK gives it to the next transport
        transport = super()._admit_session(requestor)
        if transport is None or transport.mcp_session_id is None:
            events.close()
        else:
            session = _Session(transport, events, requestor, self._idle_s)
            self._sessions[transport.mcp_session_id] = session
        return transport

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        if (session := self._sessions.pop(session_id, None)) is not None:
            session.events.close()
        await super()._discard_session(session_id, transport)


def _primed(send: Send, events: SessionEvents, version: str | None) -> Send:
    """Begin a stream with an event that names where it begins; the SDK does so for answers only."""
    if version is None or not is_version_at_least(version, _POLLING):
        return send
    first = f"id: {events.listening_from}\r\nretry: {RETRY_MS}\r\ndata: \r\n\r\n".encode()
    begun = False

    async def primed(message: Message) -> None:
        nonlocal begun
        await send(message)
        if message["type"] == "http.response.start" and not begun:
            begun = True
            if message["status"] == 200:  # noqa: PLR2004
                await send({"type": "http.response.body", "body": first, "more_body": True})

    return primed


def _error(status: int, code: int, text: str, headers: dict[str, str] | None = None) -> Response:
    body = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=text))
    return Response(
        body.model_dump_json(by_alias=True, exclude_unset=True),
        status_code=status,
        headers=headers,
        media_type="application/json",
    )
