"""Sessions of the handshake era over HTTP: how many, how long, and what belongs to one.

A session has no task of its own: the task of each request does its work, and one task ends all idle sessions.
A session with an open stream or a request under way is not idle, even if the client of that request has lost
its connection.
"""

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
import structlog
from mcp.server.connection import Connection
from mcp.server.runner import aclose_shielded
from mcp.shared.dispatcher import CallOptions, as_request_id, coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params

from maitred.background import Background
from maitred.config.settings import Http
from maitred.jsonrpc import ScopedInbound
from maitred.jsonrpc.questions import Questions
from maitred.model.access import Viewer
from maitred.surfaces.encoding import encode
from maitred.surfaces.mcp.dispatch import HandshakeDispatch
from maitred.surfaces.mcp.event_buffer import NOTICES, EventMemory, SessionEvents
from maitred.surfaces.mcp.server import McpSurface

log = structlog.get_logger(__name__)

CANCELLED: Final = "notifications/cancelled"
_ENDED: Final = "the session was ended"


Pass = Callable[[Mapping[str, Any]], Awaitable[bool]]
"""Passes a message for a client on to the gateway at which it listens; whether that was done."""


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """The next events of a stream that another gateway has, each with its text and id.

    `position` says that the event is unknown, or that nothing can follow it; else it is empty. `is_over`: the
    stream has ended with these events.
    """

    position: str = ""
    events: tuple[tuple[str, str], ...] = ()
    is_over: bool = False


class SessionsFullError(Exception):
    """There are as many sessions as may be, and none of them is idle."""


async def _pass_nothing(_: Mapping[str, Any]) -> bool:
    return False


class Session:
    """One client of the handshake era; `owner` is the principal that opened it.

    `asks_as` is how the ids of questions to its client begin; `elsewhere` passes messages on for which this
    gateway has no stream.
    """

    def __init__(
        self,
        surface: McpSurface,
        state: Any,
        events: SessionEvents,
        owner: str | None,
        *,
        session_id: str = "",
        asks_as: str = "",
        elsewhere: Pass = _pass_nothing,
    ) -> None:
        self.id = session_id or secrets.token_hex(16)
        self.owner = owner
        self.events = events
        self.questions = Questions(asks_as)
        outlet = Outlet(events, self.questions, elsewhere)
        connection = Connection.for_loop(outlet, session_id=self.id)
        self.outlet = outlet
        self.dispatch = HandshakeDispatch(surface, connection, state)
        self.requests: dict[str | int, ScopedInbound] = {}
        """The requests under way, by id."""
        self.holds = 0
        self.is_over = False

    @property
    def connection(self) -> Connection:
        """The connection, as handlers of the SDK know it."""
        return self.dispatch.connection

    def cancel(self, request_id: str | int | None) -> bool:
        """Cancel a request under way, because its client asks for that; whether it is under way here."""
        context = self.requests.get(coerce_request_id(request_id)) if request_id is not None else None
        if context is not None:
            context.cancel()
        return context is not None

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

    def __init__(self, events: SessionEvents, questions: Questions, elsewhere: Pass) -> None:
        self._events = events
        self._questions = questions
        self._elsewhere = elsewhere

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
        if (
            self._events.listening.reader is None
            and message["method"] not in NOTICES  # each gateway notices changes itself
            and await self._elsewhere(message)
        ):
            return
        self.store(message)

    def store(self, message: Mapping[str, Any]) -> None:
        """Have a message read on the stream that is opened by GET."""
        uri = str((message.get("params") or {}).get("uri", ""))
        self._events.store(self._events.listening, encode(message), method=message["method"], uri=uri)


class Sessions:
    """The sessions that are open; `run` must run beside them. `state` is that of the SDK's server."""

    def __init__(self, surface: McpSurface, state: Any, settings: Http) -> None:
        self.surface = surface
        self.state = state
        self._activity = surface.activity
        self.idle_s = settings.session_idle_timeout_s
        self.most = settings.max_sessions
        self.memory = EventMemory()
        self.sessions: dict[str, Session] = {}
        """Those of this process, by id."""
        self._idle: OrderedDict[Session, float] = OrderedDict()  # by the time at which it ends
        self._news = anyio.Event()

    def __len__(self) -> int:
        """How many sessions are open."""
        return len(self.sessions)

    async def find(self, session_id: str, viewer: Viewer | None) -> Session | None:
        """The session of this id, if the principal of this viewer opened it."""
        session = self.sessions.get(session_id)
        return session if session is not None and session.owner == principal_of(viewer) else None

    def open(self, principal: str | None) -> Session:
        """A new session, which ends when it is idle for too long."""
        return self.add(Session(self.surface, self.state, self.memory.open(), principal))

    def add(self, session: Session) -> Session:
        """Have requests find a session from now on."""
        self.sessions[session.id] = session
        self._activity.session_opened("http")
        self._rest(session)
        return session

    async def close(self, session: Session) -> None:
        """End a session in this process."""
        if self._forget(session):
            await session.close()

    async def drop(self, session: Session) -> None:
        """Release what a session holds that no request finds any more."""
        await session.close()

    async def end(self, session: Session) -> None:
        """End a session because its client asks for it."""
        await self.close(session)

    def make_room(self) -> None:
        """Make room for one session more.

        Raises:
            SessionsFullError: There is none.
        """
        if len(self.sessions) >= self.most:
            raise SessionsFullError

    async def note(self, session: Session, method: str, params: Mapping[str, Any] | None) -> None:
        """Note a message of the client that was carried out, before it is answered."""

    async def take_answer(self, session: Session, message: Mapping[str, Any]) -> None:
        """Take the answer of the client to a question of ours."""
        session.questions.settle(message)

    async def take_notice(self, session: Session, method: str, params: Mapping[str, Any] | None) -> None:
        """Take note of a notification of the client that concerns requests under way."""
        if method == CANCELLED:
            session.cancel(as_request_id(cancelled_request_id_from_params(params)))

    async def begin_listening(self, session: Session, viewer: Viewer | None, last_event_id: str) -> str:
        """Prepare for a stream that a client opens by GET; the event after which it goes on here."""
        return last_event_id

    async def read_elsewhere(self, session: Session, last_event_id: str, *, waits: bool) -> EventPage | None:
        """What followed an event of another gateway; `None` for one that is of no other."""
        return None

    def oldest_idle(self) -> Session | None:
        """The session that is idle for longest."""
        return next(iter(self._idle), None)

    def _forget(self, session: Session) -> bool:
        """Let no request find a session any more; false if it has ended before."""
        self._idle.pop(session, None)
        if self.sessions.pop(session.id, None) is None:
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
        for session in self.sessions.values():
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
                        background.start(self.drop, session)
        finally:
            for session in [*self.sessions.values()]:
                self._forget(session)
                await self.drop(session)

    async def _until_one_is_idle(self) -> None:
        """Wait until the first session may be idle for too long."""
        while not self._idle:  # one that rested may be used again before this goes on
            self._news = anyio.Event()
            await self._news.wait()
        await anyio.sleep_until(next(iter(self._idle.values())))


def principal_of(viewer: Viewer | None) -> str | None:
    """The principal of a viewer; `None` for requests that name none."""
    return viewer.principal if viewer is not None else None
