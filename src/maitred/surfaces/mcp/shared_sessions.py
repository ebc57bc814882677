"""Sessions of the handshake era that any of several gateways serves, behind any load balancer.

Each gateway has a copy of the sessions whose requests came to it. It makes a copy of the stub when it needs
one, and drops it when it is idle; the session itself ends when no gateway has used it for long, or with its
client. A request that is under way belongs to the gateway at which it came in. What its client says about it
elsewhere, answers and cancellations, is passed on.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio
import structlog
from mcp.shared.dispatcher import as_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import InitializeRequestParams

from maitred.background import Background
from maitred.config.settings import Http
from maitred.errors import MaitredError, StoreError
from maitred.gateway.session_stubs import Kind, SessionStub, SessionStubs, client_in_short
from maitred.model.access import SHARED_CONNECTION, Viewer
from maitred.replicas.forwarding import ReplicaRequest
from maitred.surfaces.mcp.caller import LOG_LEVEL
from maitred.surfaces.mcp.event_buffer import origin_of
from maitred.surfaces.mcp.identity import GOES_ON, LABEL
from maitred.surfaces.mcp.server import McpSurface
from maitred.surfaces.mcp.sessions import CANCELLED, EventPage, Session, Sessions, principal_of

log = structlog.get_logger(__name__)

_ROOTS_CHANGED: Final = "notifications/roots/list_changed"
_DOUBT_S: Final = 2.0
"""How long a copy is believed while no messages of other gateways arrive."""
_KEEP_S: Final = 5.0
_EVENTS: Final = "events of a session"
_LOOK: Final = "look at a session"
_LOOK_S: Final = 2.0
_ANSWER: Final = "answer of a client"
_WAIT_S: Final = 10.0
_GATHER_S: Final = 0.02
_MOST_ID: Final = 200
"""Characters of the id of a request, of which other gateways hear that it is cancelled."""


class SharedSession(Session):
    """A copy of a session.

    Attributes:
        generation: The generation of the catalog when the session was opened.
        touched_at: When its stub was last kept from expiring.
        looked_at: When it was last known not to have ended.
        is_unsaved: Whether its stub could not be written yet.
        may_have_missed: Whether its client listened, or could listen, at another gateway before.
    """

    generation = 0
    touched_at = 0.0
    looked_at = 0.0
    is_unsaved = False
    may_have_missed = False


class SharedSessions(Sessions):
    """The copies of this process; `background` carries out what messages of other processes ask for."""

    def __init__(
        self, surface: McpSurface, state: Any, settings: Http, stubs: SessionStubs, background: Background
    ) -> None:
        super().__init__(surface, state, settings)
        self._stubs = stubs
        self._background = background
        self._ttl_s = self.idle_s * 4 / 3 + _DOUBT_S
        self._making: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        stubs.follow(self._heard, self._lost)
        self._replicas = surface.replica_requests
        with suppress(ValueError):  # a gateway has one surface for clients over HTTP, which was first
            self._replicas.register(_EVENTS, self._send_events)
            self._replicas.register(_LOOK, self._look_for_other)
            self._replicas.register(_ANSWER, self._settle)

    # --- requests -----------------------------------------------------------------------------------------

    def open(self, principal: str | None) -> Session:
        """See `Sessions.open`."""
        session = self._make(self._stubs.new_id(principal), principal)
        session.generation = self.surface.generation
        return self.add(session)

    def _make(self, session_id: str, principal: str | None) -> SharedSession:
        session = SharedSession(
            self.surface,
            self.state,
            self.memory.open(self._stubs.replica),
            principal,
            session_id=session_id,
            asks_as=f"{self._stubs.replica}.",
            elsewhere=partial(self._pass, session_id),
        )
        session.connection.state[LABEL] = f"{SHARED_CONNECTION}{session_id.split('.')[4]}"
        session.touched_at = session.looked_at = time.monotonic()
        return session

    async def find(self, session_id: str, viewer: Viewer | None) -> Session | None:
        """The session of this id, if this principal opened it at any gateway.

        Raises:
            StoreError: Its stub cannot be read.
            SessionsFullError: This process has no room for a copy.
        """
        session = self.sessions.get(session_id)
        if session is None:
            session = await self._make_again(session_id, viewer)
        if session is None or session.owner != principal_of(viewer):
            return None
        now = time.monotonic()
        if isinstance(session, SharedSession):
            if not self._stubs.is_live and now - session.looked_at > _DOUBT_S:
                await self._look(session)
            if now - session.touched_at > self.idle_s / 3:
                session.touched_at = now
                self._background.start(_safely, self._touch, session)
        return None if session.is_over else session

    async def _make_again(self, session_id: str, viewer: Viewer | None) -> Session | None:
        if not self._stubs.is_of(session_id, principal_of(viewer)):
            return None
        lock = self._making.setdefault(session_id, anyio.Lock())
        async with lock:  # requests of one client may come together
            if (known := self.sessions.get(session_id)) is not None:
                return known
            stub = await self._stubs.read(session_id)
            if stub is None:
                return None
            self.make_room()
            session = self._make(session_id, principal_of(viewer))
            session.generation, session.may_have_missed = stub.generation, True
            _restore(session, stub)
            connected = self.surface.viewers.behind(session.connection, viewer)
            if stub.initialized:
                self.surface.resume(session.connection, connected)
            return self.add(session)

    def make_room(self) -> None:
        """See `Sessions.make_room`; a copy that is idle makes room, and is made again when it is needed."""
        if len(self.sessions) >= self.most and (idle := self.oldest_idle()) is not None:
            self._forget(idle)
            self._background.start(self.drop, idle)
        super().make_room()

    async def drop(self, session: Session) -> None:
        """Release a copy, whose session may go on at another gateway."""
        session.connection.state[GOES_ON] = True
        await session.close()

    async def end(self, session: Session) -> None:
        """End a session at all gateways.

        Raises:
            StoreError: The others cannot hear of it, so it has not ended.
        """
        await self._stubs.end(session.id)
        await self.close(session)
        await self._have_others_look(session.id)

    async def _have_others_look(self, session_id: str) -> None:
        """Wait until other gateways follow the stub of a session; a message reaches those that are late."""
        others = [one.id for one in self._replicas.membership.live if one.id != self._replicas.id]
        async with anyio.create_task_group() as tasks:
            for replica in others:
                tasks.start_soon(self._have_look, replica, session_id)

    async def _have_look(self, replica: str, session_id: str) -> None:
        try:
            with anyio.move_on_after(_LOOK_S):
                await self._replicas.forward(replica, _LOOK, {"session": session_id})
        except MaitredError as error:
            log.info("a gateway did not look at a session", replica=replica, reason=str(error))

    async def _look_for_other(self, request: ReplicaRequest) -> dict[str, Any]:
        """Follow the stub of a session, because another gateway has changed it."""
        session = self.sessions.get(request.body["session"])
        if isinstance(session, SharedSession):
            await self._look(session)
        return {}

    async def note(self, session: Session, method: str, params: Mapping[str, Any] | None) -> None:
        """Write into the stub what a message changed; where that is not possible now, it is tried again."""
        if not isinstance(session, SharedSession) or not session.connection.initialize_accepted:
            return
        try:
            await self._write(session, method, params or {})
        except StoreError as error:
            session.is_unsaved = True
            log.warning("other gateways do not know a session now", reason=error.reason)
        except Exception:  # the message was carried out, so its answer must come
            log.exception("other gateways may not know what changed in a session")

    async def _write(self, session: SharedSession, method: str, params: Mapping[str, Any]) -> None:
        stubs, ttl_s = self._stubs, self._ttl_s
        if method == "initialize":
            await stubs.write(session.id, self._stub_of(session), ttl_s)
            return
        if method == "notifications/initialized":
            await stubs.change(session.id, ttl_s, initialized=True)
        elif method == "logging/setLevel":
            level = session.connection.state.get(LOG_LEVEL, "")
            await stubs.change(session.id, ttl_s, log_level=level)
        else:
            uri = str(params.get("uri", ""))
            is_there = uri in self.surface.resources_of(session.connection)
            if is_there == (method == "resources/subscribe"):  # else it was refused
                await stubs.subscribe(session.id, uri, ttl_s, ends=not is_there)
        if method != "notifications/initialized":  # the next request may count on it, wherever it is made
            await self._have_others_look(session.id)

    def _stub_of(self, session: SharedSession) -> SessionStub:
        connection = session.connection
        said = connection.client_params
        whole = said.model_dump(mode="json", by_alias=True, exclude_none=True) if said is not None else {}
        return SessionStub(
            client=client_in_short(whole.get("clientInfo", {}), whole.get("capabilities", {})),
            revision=connection.protocol_version,
            generation=session.generation,
            initialized=connection.initialized.is_set(),
            log_level=connection.state.get(LOG_LEVEL, ""),
            resources=tuple(self.surface.resources_of(connection)),
        )

    async def take_answer(self, session: Session, message: Mapping[str, Any]) -> None:
        """Take the answer to a question, or pass it on to the gateway that asked."""
        asker, _, _ = str(message.get("id", "")).rpartition(".")
        if session.questions.settle(message) or asker in ("", self._stubs.replica):
            return
        try:
            await self._replicas.forward(asker, _ANSWER, {"session": session.id, "message": message})
        except MaitredError as error:
            log.info("the gateway that asked a client did not get its answer", reason=str(error))

    async def _settle(self, request: ReplicaRequest) -> dict[str, Any]:
        """Take the answer of a client, which came to another gateway, to a question of this one."""
        session = self.sessions.get(request.body["session"])
        if session is not None:
            session.questions.settle(request.body["message"])
        return {}

    async def take_notice(self, session: Session, method: str, params: Mapping[str, Any] | None) -> None:
        """Cancel a request under way, here or at another gateway, and let all know of changed roots."""
        if method == CANCELLED:
            request_id = as_request_id(cancelled_request_id_from_params(params))
            if not session.cancel(request_id) and len(str(request_id)) <= _MOST_ID:
                await self._stubs.send_if_reachable("notice", session.id, [method, {"requestId": request_id}])
        elif method == _ROOTS_CHANGED:
            await self._stubs.send_if_reachable("notice", session.id, [method, None])

    async def _pass(self, session_id: str, message: Mapping[str, Any]) -> bool:
        """Pass a message on to the gateway at which a client listens."""
        await self._stubs.send_if_reachable("send", session_id, message)
        return False  # the client may listen here next

    async def begin_listening(self, session: Session, viewer: Viewer | None, last_event_id: str) -> str:
        """Take over the stream of a session from the gateway that had it.

        What may have changed before counts as changed, since the events are in the memory of that gateway.
        """
        origin, stream = origin_of(last_event_id)
        is_elsewhere = origin not in ("", self._stubs.replica)
        if is_elsewhere and stream:
            return last_event_id  # the answer of a request, which belongs to another gateway
        await self._stubs.send_if_reachable("listening", session.id)
        if isinstance(session, SharedSession) and session.may_have_missed and not stream:
            session.may_have_missed = False
            stub = await self._stubs.read(session.id)
            resources = stub.resources if stub is not None else ()
            self._background.start(_safely, self._resume, session, resources)
        return "" if is_elsewhere else last_event_id

    async def _resume(self, session: SharedSession, resources: Sequence[str]) -> None:
        may_differ = session.generation != self.surface.generation
        session.generation = self.surface.generation
        if not session.is_over:
            await self.surface.resume_stream(session.connection, resources, lists_may_differ=may_differ)

    # --- streams of answers that other gateways have ------------------------------------------------------

    async def read_elsewhere(self, session: Session, last_event_id: str, *, waits: bool) -> EventPage | None:
        """See `Sessions.read_elsewhere`.

        Raises:
            ReplicaError: The gateway that has the stream has ended, and the answer is lost.
        """
        origin, stream = origin_of(last_event_id)
        if origin in ("", self._stubs.replica) or not stream:
            return None
        asked = {"session": session.id, "owner": session.owner, "after": last_event_id, "waits": waits}
        said = await self._replicas.forward(origin, _EVENTS, asked)
        events = tuple((text, event_id) for text, event_id in said["events"])
        return EventPage(position=said["position"], events=events, is_over=said["is_over"])

    async def _send_events(self, request: ReplicaRequest) -> dict[str, Any]:
        """Answer another gateway whose client goes on with a stream of this one."""
        session, body = self.sessions.get(request.body["session"]), request.body
        position = (
            session.events.position(body["after"])
            if session is not None and session.owner == body["owner"]
            else "unknown"
        )
        if session is None or isinstance(position, str):
            return {"position": position, "events": [], "is_over": True}
        stream, after = position
        if stream.give_up is not None:
            stream.give_up()  # its client has left that connection
        events: list[tuple[str, str]] = []
        is_over = False
        with self.hold(session), anyio.move_on_after(_WAIT_S if body["waits"] else 0.0) as limit:

            async def send(text: bytes, event_id: str) -> None:
                events.append((text.decode(), event_id))
                limit.deadline = min(limit.deadline, anyio.current_time() + _GATHER_S)

            await session.events.follow(stream, after, send)
            is_over = True
        return {"position": "", "events": events, "is_over": is_over}

    # --- what other gateways say --------------------------------------------------------------------------

    def _heard(self, kind: Kind, session_id: str, body: Any, long: str) -> None:
        session = self.sessions.get(session_id)
        if not isinstance(session, SharedSession):
            return
        if kind == "ended":
            self._background.start(_safely, self.close, session)
        elif kind == "listening":
            session.may_have_missed = True
            session.events.end_listening()
        elif kind == "changed":
            self._background.start(_safely, self._look, session)
        else:
            self._background.start(_safely, self._act, kind, session, body, long)

    async def _act(self, kind: Kind, session: SharedSession, body: Any, long: str) -> None:
        try:
            said = await self._stubs.long_body(long) if long else body
        except StoreError as error:
            log.warning("a message about a session was not read", kind=kind, reason=error.reason)
            return
        if said is None or session.is_over:
            return
        if kind == "send" and session.events.listening.reader is not None:
            session.outlet.store(said)
        elif kind == "notice" and said[0] == CANCELLED:
            session.cancel(as_request_id(cancelled_request_id_from_params(said[1])))
        elif kind == "notice":
            try:
                await self.surface.roots_changed(session.connection)
            except MaitredError as error:
                log.info("servers do not hear of changed roots", reason=str(error))

    def _lost(self) -> None:
        """Look at all copies: one may have ended while no messages arrived."""
        if self._background.is_open:
            self._background.start(_safely, self._look_at_all)

    async def _look_at_all(self) -> None:
        for session in [*self.sessions.values()]:
            if isinstance(session, SharedSession):
                await self._look(session)

    async def _look(self, session: SharedSession) -> None:
        """Make a copy follow its stub; end it if the session has ended, keep it while that is not known."""
        try:
            stub = await self._stubs.read(session.id)
        except StoreError:
            return
        session.looked_at = time.monotonic()
        connection = session.connection
        if stub is None:
            if not session.is_unsaved and connection.initialize_accepted:
                await self.close(session)
            return
        if stub.initialized and not connection.initialized.is_set():
            connection.initialized.set()
            self.surface.resume(connection, self.surface.viewers.behind(connection))
        if stub.log_level:
            connection.state[LOG_LEVEL] = stub.log_level
        resources, own = stub.resources, self.surface.resources_of(connection)
        if session.events.listening.reader is None:  # the gateway at which the client listens follows others
            session.may_have_missed = session.may_have_missed or {*own} != {*resources}
            resources = tuple(uri for uri in own if uri in resources)
        await self.surface.follow_resources(connection, resources)

    # --- keeping ------------------------------------------------------------------------------------------

    async def _touch(self, session: SharedSession) -> None:
        """Keep the stub of a session that is used; one that is gone has ended, or is written now."""
        try:
            if session.is_unsaved:
                await self._stubs.write(session.id, self._stub_of(session), self._ttl_s)
                session.is_unsaved = False
            elif not await self._stubs.touch(session.id, self._ttl_s):
                await self._look(session)
        except StoreError:
            return

    async def run(self) -> None:
        """See `Sessions.run`; also keeps the stubs of sessions with an open stream or request."""
        async with Background() as background:
            background.start(self._keep)
            await super().run()

    async def _keep(self) -> None:
        while True:
            await anyio.sleep(min(_KEEP_S, self.idle_s / 4))
            before = time.monotonic() - self.idle_s / 3
            for session in [*self.sessions.values()]:
                if isinstance(session, SharedSession) and (
                    session.is_unsaved or (session.holds and session.touched_at < before)
                ):
                    session.touched_at = time.monotonic()
                    await _safely(self._touch, session)


async def _safely(act: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Do what a message asks for; a fault of one message must not end the sessions of all clients."""
    try:
        await act(*args)
    except Exception:
        log.exception("a message about sessions was not carried out")


def _restore(session: Session, stub: SessionStub) -> None:
    """Bring a new connection to the state after its handshake."""
    connection = session.connection
    said = {"protocolVersion": stub.revision, **stub.client}
    connection.client_params = InitializeRequestParams.model_validate(said, by_name=False)
    connection.protocol_version = stub.revision
    if stub.initialized:
        connection.initialized.set()
    if stub.log_level:
        connection.state[LOG_LEVEL] = stub.log_level
