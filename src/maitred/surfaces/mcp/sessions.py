"""Sessions of the handshake era over HTTP: how many, how long, and what belongs to one.

A session has no task of its own: the task of each request does its work, and one task ends all idle sessions.
A session with an open stream or a request under way is not idle, even if the client of that request has lost
its connection.
"""

import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import anyio
import structlog
from mcp.server.connection import Connection
from mcp.server.runner import aclose_shielded
from mcp.shared.dispatcher import CallOptions, coerce_request_id

from maitred.background import Background
from maitred.config.settings import Http
from maitred.jsonrpc import ScopedInbound
from maitred.jsonrpc.questions import Questions
from maitred.surfaces.encoding import encode
from maitred.surfaces.mcp.dispatch import HandshakeDispatch
from maitred.surfaces.mcp.event_buffer import EventMemory, SessionEvents
from maitred.surfaces.mcp.server import McpSurface

log = structlog.get_logger(__name__)

_ENDED: Final = "the session was ended"


class Session:
    """One client of the handshake era; `owner` is the principal that opened it."""

    def __init__(self, surface: McpSurface, state: Any, events: SessionEvents, owner: str | None) -> None:
        self.id = secrets.token_hex(16)
        self.owner = owner
        self.events = events
        self.questions = Questions()
        connection = Connection.for_loop(Outlet(events, self.questions), session_id=self.id)
        self.dispatch = HandshakeDispatch(surface, connection, state)
        self.requests: dict[str | int, ScopedInbound] = {}
        """The requests under way, by id."""
        self.holds = 0
        self.is_over = False

    @property
    def connection(self) -> Connection:
        """The connection, as handlers of the SDK know it."""
        return self.dispatch.connection

    def cancel(self, request_id: str | int | None) -> None:
        """Cancel a request under way, because its client asks for that."""
        context = self.requests.get(coerce_request_id(request_id)) if request_id is not None else None
        if context is not None:
            context.cancel()

    async def close(self) -> None:
        """Cancel what is under way, end all streams, and release what the connection holds."""
        self.is_over = True
        for context in [*self.requests.values()]:
            context.scope.cancel()
        self.questions.close(_ENDED)
        self.events.close()
        await aclose_shielded(self.connection)


class Outlet:
    """What the gateway sends to a client without a request: it goes to the stream that is opened by GET."""

    def __init__(self, events: SessionEvents, questions: Questions) -> None:
        self._events = events
        self._questions = questions

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send the client a request; see `mcp.shared.dispatcher.Outbound`."""
        return await self._questions.ask(self._send, method, params, opts)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send the client a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = dict(params)
        await self._send(message)

    async def _send(self, message: Mapping[str, Any]) -> None:
        uri = str((message.get("params") or {}).get("uri", ""))
        self._events.store(self._events.listening, encode(message), method=message["method"], uri=uri)


class Sessions:
    """The sessions that are open; `run` must run beside them. `state` is that of the SDK's server."""

    def __init__(self, surface: McpSurface, state: Any, settings: Http) -> None:
        self._surface = surface
        self._activity = surface.activity
        self._state = state
        self.idle_s = settings.session_idle_timeout_s
        self.most = settings.max_sessions
        self._memory = EventMemory()
        self._sessions: dict[str, Session] = {}
        self._idle: OrderedDict[Session, float] = OrderedDict()  # by the time at which it ends
        self._news = anyio.Event()

    def __len__(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    def find(self, session_id: str, principal: str | None) -> Session | None:
        """The session of this id, if this principal opened it."""
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == principal else None

    def open(self, principal: str | None) -> Session:
        """A new session, which ends when it is idle for too long."""
        session = Session(self._surface, self._state, self._memory.open(), principal)
        self._sessions[session.id] = session
        self._activity.session_opened("http")
        self._rest(session)
        return session

    async def close(self, session: Session) -> None:
        """End a session."""
        if self._forget(session):
            await session.close()

    def _forget(self, session: Session) -> bool:
        """Let no request find a session any more; false if it has ended before."""
        self._idle.pop(session, None)
        if self._sessions.pop(session.id, None) is None:
            return False
        self._activity.session_closed("http")
        return True

    @contextmanager
    def hold(self, session: Session) -> Iterator[None]:
        """Keep a session from being idle."""
        session.holds += 1
        self._idle.pop(session, None)
        try:
            yield
        finally:
            session.holds -= 1
            if not session.holds and not session.is_over:
                self._rest(session)

    def end_streams(self) -> None:
        """End the streams that wait for what may never come, so that the gateway can end."""
        for session in self._sessions.values():
            session.events.end_listening()

    def _rest(self, session: Session) -> None:
        if not self._idle:
            self._news.set()
        self._idle[session] = anyio.current_time() + self.idle_s

    async def run(self) -> None:
        """End idle sessions; runs until cancelled, and then ends all."""
        try:
            async with Background() as background:
                while True:
                    await self._until_one_is_idle()
                    session, until = next(iter(self._idle.items()), (None, 0.0))
                    if session is not None and until <= anyio.current_time():
                        log.info("an idle session has ended", session=session.id[:8])
                        self._forget(session)
                        background.start(session.close)
        finally:
            for session in [*self._sessions.values()]:
                await self.close(session)

    async def _until_one_is_idle(self) -> None:
        """Wait until the first session may be idle for too long."""
        while not self._idle:  # one that rested may be used again before this goes on
            self._news = anyio.Event()
            await self._news.wait()
        await anyio.sleep_until(next(iter(self._idle.values())))
