"""The task of one backend: it opens, watches and closes the session, and records its failures.

One task opens and closes the session; callers only borrow the open connection. The task starts its server
when it is first needed, or when the pool asks for it. It stops an idle server, and follows `supervision`
after a failure.
Health checks run for each open connection until the server hangs. The module also passes the server's notices
to the listener.
"""

import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Protocol

import anyio
import structlog

from maitred.backends import supervision
from maitred.backends.base import (
    Backend,
    BackendFactory,
    Connection,
    ConnectOptions,
    Ending,
    Listener,
    LoginNeededError,
    Notice,
    SupervisionEvent,
    find,
)
from maitred.backends.connection_faults import connection_fault, fault_code, redact_ending
from maitred.backends.health_checks import until_it_hangs
from maitred.backends.launch import names_folder
from maitred.backends.supervision import Breaker, Restarts
from maitred.backends.turns import take_turn
from maitred.background import Background
from maitred.config.settings import Supervision
from maitred.errors import ServerUnavailableError
from maitred.model.servers import EraChoice, Health, ServerSpec, State
from maitred.model.sharing import NO_SHARER, Sharer
from maitred.model.transports import reach_of
from maitred.tracing import detach

log = structlog.get_logger(__name__)


def pass_on(listener: Listener, server: str, key: str, notice: Notice) -> None:
    """Pass a server's notice on to the listener."""
    match notice.kind:
        case "tools":
            listener.tools_changed(server, key)
        case "updated":
            listener.updated(server, notice.uri, key)
        case "task":
            listener.task_changed(server, notice.task, key)
        case "facts":
            listener.facts_changed(server, notice.facts, key)
        case "resources" | "prompts":
            listener.offers_changed(server, key)


_SOONEST_S: Final = 0.05
_CHECK_IDLE_S: Final = 1.0
_LEAVE_S: Final = 5.0


class PoolServices(Protocol):
    """What an owner needs from its pool."""

    starting: anyio.Semaphore
    keeping: anyio.Semaphore
    listener: Listener
    supervision: Supervision

    async def prepared(self, spec: ServerSpec) -> None:
        """Wait until servers may be started at all, and a backend of this specification can be made."""
        ...

    def spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> bool:
        """Run an owner task until it ends or the pool closes; returns whether the pool is still open."""
        ...

    def is_owner(self, owner: "ServerTask") -> bool:
        """Whether it still owns its server."""
        ...

    async def make_room(self, owner: "ServerTask") -> None:
        """Wait until one more instance may run; see `maitred.backends.instances`."""
        ...

    def learned(self, server: str, title: str) -> None:
        """A server has introduced itself by a name or title."""
        ...

    def key(self, server: str, sharer: Sharer) -> str:
        """The share key of the instance that serves a client."""
        ...

    def keeps(self, owner: "ServerTask") -> bool:
        """Whether its server should run even if no call needs it."""
        ...

    def mends(self, owner: "ServerTask") -> bool:
        """Whether its server is tried again after a failure even if no call needs it."""
        ...

    def note_failing(self, owner: "ServerTask") -> None:
        """It has failed, so calls to its server may be refused from now on."""
        ...

    def ended(self, owner: "ServerTask") -> None:
        """Its connection has ended, or could not be opened; called last of all."""
        ...


class Loan:
    """A connection while it is borrowed. A class, since each call has one, and a generator costs more."""

    __slots__ = ("_owner", "_patient")

    def __init__(self, owner: "ServerTask", *, patient: bool) -> None:
        self._owner = owner
        self._patient = patient

    async def __aenter__(self) -> Connection:
        return await self._owner.lend(patient=self._patient)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner.take_back()


class ServerTask:
    """One backend: its task, its connection while it is open, and its record of failures.

    With a `key` it is an instance for some clients of its server, which `sharer` is one of. Such a one is
    never suspended. Where the default instance would be, calls to it are refused for a while instead: what
    fails for one client may do well for the others.
    """

    def __init__(
        self,
        pool: PoolServices,
        spec: ServerSpec,
        make: BackendFactory,
        era: EraChoice,
        predecessor: "ServerTask | None" = None,
        *,
        key: str = "",
        sharer: Sharer = NO_SHARER,
        note: str = "",
    ) -> None:
        self.spec = spec
        self.key = key
        self.sharer = sharer
        self.note = note
        self.backend: Backend | None = None
        self.era = era
        self.connection: Connection | None = None
        self.health = Health(since=_now())
        self.again_s: float | None = 0.0
        """After how many seconds it may be started again by itself; `None` if it may not."""
        self.timer = anyio.CancelScope()
        """The wait until then; a later wait replaces it."""
        self._pool = pool
        self._make = make
        self._predecessor = predecessor
        self._removed = False
        self._last_report = (self.health.state, False)
        self._begun, self._ready, self._wanted = anyio.Event(), anyio.Event(), anyio.Event()
        self._stop, self._done = anyio.Event(), anyio.Event()
        self._done.set()
        self._scope = anyio.CancelScope()
        self._breaker = Breaker()
        self._restarts = Restarts()
        self._fault: Ending | None = None
        self._lost = self._hung = ""
        self._in_flight = 0
        self._asks = self._renews = self._has_run = False
        self.idle_since = time.monotonic()

    @property
    def is_running(self) -> bool:
        """Whether its server runs, starts or stops now."""
        return not self._done.is_set()

    @property
    def is_retired(self) -> bool:
        """Whether it is stopped for good."""
        return self._removed

    @property
    def is_idle(self) -> bool:
        """Whether no caller has borrowed its connection."""
        return self._in_flight == 0

    @property
    def refuses(self) -> bool:
        """Whether calls fail at once with the reason of the last failure.

        A server that the pool starts again by itself refuses calls until a start succeeds. Otherwise each
        attempt would change the lists.
        """
        if self.is_given_up or self._breaker.is_open(time.monotonic()):
            return True
        return self.has_failed_often and self.connection is None and self._pool.mends(self)

    @property
    def has_failed(self) -> bool:
        """Whether it has failed since it last ran well; only then may it refuse calls."""
        return self.is_given_up or self._breaker.failures > 0

    @property
    def has_failed_often(self) -> bool:
        """Whether it has failed so often in a row that its circuit breaker opened."""
        return self._breaker.failures >= supervision.BREAKER_AT

    @property
    def has_vanished(self) -> bool:
        """Whether it ran once and has failed since."""
        return self._has_run and self._breaker.failures > 0

    @property
    def is_given_up(self) -> bool:
        """Whether nothing starts it any more."""
        return self.health.state is State.SUSPENDED

    def _fares(self, **changes: Any) -> None:
        """Record its health, and notify the listener of a change that concerns others."""
        if changes.get("state", self.health.state) is not self.health.state:
            changes["since"] = _now()
        self.health = replace(self.health, **changes)
        if self.has_failed:
            self._pool.note_failing(self)
        self.tell()

    def tell(self) -> None:
        """Notify the listener of a change that it does not know yet."""
        told, self._last_report = self._last_report, (self.health.state, self.refuses)
        if self._last_report != told and self._pool.is_owner(self):
            self._pool.listener.health_changed(self.spec.name, self.key)

    def _report(self, event: SupervisionEvent) -> None:
        if self._pool.is_owner(self):
            self._pool.listener.supervised(self.spec.name, event)

    def snapshot(self) -> Health:
        """Its health, with the time until the circuit breaker lets the next start through."""
        now = time.monotonic()
        return replace(
            self.health,
            failures=self._breaker.failures,
            retry_in_s=self._breaker.wait_s(now) if self.refuses and not self.is_given_up else None,
            in_flight=self._in_flight,
            restarts=self._restarts.count(now=now, window_s=self._pool.supervision.window_s),
            pid=self.backend.pid if self.backend else None,
            cage=self.backend.cage if self.backend else "",
        )

    def borrow(self, *, patient: bool = False) -> "Loan":
        """The open connection, started if necessary; it is not stopped for idleness while borrowed.

        With `patient` the caller waits for its turn to start, however long other servers take.
        """
        return Loan(self, patient=patient)

    async def lend(self, *, patient: bool) -> Connection:
        """Begin a loan; `take_back` ends it, unless this raises.

        Raises:
            ServerUnavailableError: It cannot be started, or failed too often to be tried again yet.
        """
        self._in_flight += 1
        try:
            if self.key:
                await self._pool.make_room(self)
            return await self._connected(patient=patient)
        except BaseException:
            self.take_back()
            raise

    def take_back(self) -> None:
        """End a loan."""
        self._in_flight -= 1
        self.idle_since = time.monotonic()
        if self._renews and self.is_idle:
            self._renews = False
            self._stop.set()

    async def _connected(self, *, patient: bool) -> Connection:
        if self.connection is not None and not self.connection.alive:
            self._stop.set()  # its end is known, but not yet to the task
        if self.connection is None or self._stop.is_set():
            await self._start(patient=patient)
        if self.connection is None:
            why = self.health.error or "it was stopped"
            raise ServerUnavailableError(self.spec.name, why, retry_in_s=self.snapshot().retry_in_s)
        return self.connection

    async def _start(self, *, patient: bool) -> None:
        if self._stop.is_set():
            await self._done.wait()
        if self._removed or (self._done.is_set() and self.refuses):
            return
        self.begin(self._pool.starting)
        if self._done.is_set():
            return  # the pool is closed
        self._wanted.set()
        with anyio.move_on_after(None if patient else self.spec.timeouts.start_s):
            await self._begun.wait()
        if not self._begun.is_set():
            why = "it waits for other servers to start, and is started in its turn; try again later"
            raise ServerUnavailableError(self.spec.name, why)
        await self._ready.wait()

    def begin(self, slots: anyio.Semaphore) -> None:
        """Start it in its turn, without waiting, unless it runs already or is suspended or removed."""
        if self._removed or self.is_given_up or not self._done.is_set():
            return
        if self._pool.spawn(self._run, slots, self._breaker.wait_s(time.monotonic())):
            self._begun, self._ready, self._wanted = anyio.Event(), anyio.Event(), anyio.Event()
            self._stop, self._done = anyio.Event(), anyio.Event()
            self._scope = anyio.CancelScope()

    def keep(self) -> None:
        """Start it by itself, unless the circuit breaker is open; calls do not wait behind it for a turn."""
        if not self._breaker.is_open(time.monotonic()):
            self.begin(self._pool.keeping)

    async def retire(self, why: str = "its configuration was changed") -> None:
        """Stop for good: the server was removed from the configuration, or another owner takes over."""
        self._removed = True
        self.health = replace(self.health, error=self.health.error or why)
        await self.stop()

    async def stop(self) -> None:
        """End the connection, or the attempt to open one, and wait until all its processes are gone."""
        self._stop.set()
        if self.connection is None:
            self._scope.cancel()
        await self._done.wait()

    async def _run(self, slots: anyio.Semaphore, delay_s: float) -> None:
        """One connection from start to end; the pool goes on after any failure."""
        self.again_s = None  # if it is cancelled from outside
        detach()
        try:
            await self._live(slots, delay_s)
        except Exception:
            log.exception("supervision of a server failed", server=self.spec.name)
            self.again_s = supervision.MAX_DELAY_S
        finally:
            self.connection = None
            for event in (self._done, self._begun, self._ready):
                event.set()
            self._pool.ended(self)

    async def _live(self, slots: anyio.Semaphore, delay_s: float) -> None:
        started = None
        self._lost = self._hung = ""
        try:
            with self._scope, ExitStack() as slot:
                await anyio.sleep(delay_s)  # the back-off after a failed start
                backend = await self._prepared()
                taken = await take_turn(
                    slots, self._pool.starting, self._wanted
                )  # a call may want it meanwhile
                slot.callback(taken.release)
                self._begun.set()
                self._scope.deadline = anyio.current_time() + self.spec.timeouts.start_s
                async with backend.connect(self._options()) as connection:
                    self._scope.deadline = float("inf")
                    slot.close()
                    started = time.monotonic()
                    self._opened(connection)
                    await self._watch(connection)
            if self._scope.cancelled_caught and not self._stop.is_set():
                self._hung = self._lost = f"it was not ready within {self.spec.timeouts.start_s:g} s"
            is_fault = bool(self._lost) and (started is None or not self._is_elsewhere)
            self._ended(self._ending(self._lost) if is_fault else None, started)
        except Exception as error:  # noqa: BLE001  # a transport is a plug-in: what it raises must not end the pool
            self._failed(error, started)

    @property
    def _is_elsewhere(self) -> bool:
        """Whether another replica runs it; that it moves to a third one is no fault of it."""
        return self.backend is not None and self.backend.is_elsewhere

    async def _prepared(self) -> Backend:
        """Its backend, as soon as no other process of the same server runs."""
        if self._predecessor is not None:  # never two processes of one server
            await self._predecessor.retire()
            self._predecessor = None
        await self._pool.prepared(self.spec)
        if self._fault is not None:
            self._note_restart(self._fault)
        self._fares(state=State.STARTING, starts=self.health.starts + 1)
        return self.made_backend()

    def made_backend(self) -> Backend:
        """Its backend, which is made when it is first needed."""
        if self.backend is None:  # the MCP SDK is slow to import, and many runs need no server
            self.backend = self._make(self.spec)
        return self.backend

    def _note_restart(self, fault: Ending) -> None:
        now, window_s = time.monotonic(), self._pool.supervision.window_s
        self._restarts = self._restarts.noted(now=now, window_s=window_s)
        made = self._restarts.count(now=now, window_s=window_s)
        whose = f", for {self.sharer.folder or self.sharer.principal}" if self.key else ""
        why = f"{fault.kind}: {fault.reason}; start {made} of that kind within {window_s:g} s{whose}"
        self._report(SupervisionEvent(kind="restart", why=why))
        self._fault = None

    def _options(self) -> ConnectOptions:
        is_here = reach_of(self.spec.transport) in ("program", "internal")
        is_root = is_here and not self.note and not names_folder(self.spec.args)
        return ConnectOptions(
            era=self.era,
            key=self.key,
            sharer=self.sharer,
            on_notice=self._heard,
            folder=self.sharer.folder if is_root else "",
            principal=self.sharer.principal if self.spec.is_personal else "",
            serves=self._serves,
            asks=self._asks,
            on_ask=self._note_question,
            on_cannot_ask=self._cannot_ask,
        )

    def _serves(self, sharer: Sharer) -> bool:
        """Whether this instance is that of a client."""
        return self._pool.key(self.spec.name, sharer) == self.key

    def _note_question(self) -> None:
        """Remember that the server asks its callers, for its next connections."""
        self._asks = True

    def _cannot_ask(self) -> None:
        """Speak the handshake era from the next connection on, which begins as soon as no call runs."""
        if self.era == "stateless":
            log.warning("the server cannot ask in the stateless era", server=self.spec.name)
            self.era, self._renews = "handshake", True

    def _heard(self, notice: Notice) -> None:
        pass_on(self._pool.listener, self.spec.name, self.key, notice)

    def _opened(self, connection: Connection) -> None:
        self.connection = connection
        self.era = connection.facts.era or "auto"
        self._pool.learned(self.spec.name, connection.facts.title)
        self.idle_since = time.monotonic()
        self._has_run = True
        self._fares(state=State.READY, error="", fault="")
        self._ready.set()
        self._pool.listener.started(self.spec.name, self.key)

    def _closing(self) -> None:
        """Leave the connection; a server that hangs gets no more time than any other."""
        self._stop.set()
        self.connection = None
        self._scope.deadline = anyio.current_time() + _LEAVE_S
        self._fares(state=State.STOPPING)

    async def _settle(self) -> None:
        """After it has run for a while, forget its earlier failures."""
        await anyio.sleep(supervision.STABLE_S)
        self._recovered()

    def _recovered(self) -> None:
        failures, self._breaker = self._breaker.failures, Breaker()
        if failures >= supervision.BREAKER_AT:
            self._report(
                SupervisionEvent(kind="recover", why=f"it runs well again after {failures} failures in a row")
            )

    async def _watch(self, connection: Connection) -> None:
        """Wait until the server ends, is stopped, or has been idle for long enough."""

        async def lost() -> None:
            self._lost = await connection.closed()
            self._closing()
            background.cancel()

        async def told() -> None:
            await self._stop.wait()
            self._closing()
            background.cancel()

        async with Background() as background:
            background.start(lost)
            background.start(told)
            background.start(self._check, connection)
            background.start(self._settle)
            await self._idle()
            self._closing()

    async def _idle(self) -> None:
        """Wait until the server has been idle for long enough; for one that is kept running, for ever."""
        while True:
            limit_s = self.made_backend().idle_limit_s(self.spec.timeouts.idle_stop_s)
            kept = self._pool.keeps(self)
            left = self.idle_since + limit_s - time.monotonic()
            if left <= 0 and self._in_flight == 0 and not kept:
                return
            pause = max(limit_s, _CHECK_IDLE_S) if kept else _CHECK_IDLE_S if self._in_flight else _SOONEST_S
            await anyio.sleep(max(left, pause))

    async def _check(self, connection: Connection) -> None:
        """End a connection whose server hangs, so that it counts as lost."""
        call_s = self.spec.timeouts.call_s
        self._hung = await until_it_hangs(connection, lambda: self._pool.supervision, call_s=call_s)
        connection.end(self._hung)

    def _ending(self, reason: str) -> Ending:
        if self._hung and not self._is_elsewhere:
            return Ending(kind="hang", reason=self._hung, fault="" if self._ready.is_set() else "not_ready")
        return redact_ending(
            self.backend.ending(reason) if self.backend else Ending(kind="lost", reason=reason)
        )

    def _ended(self, ending: Ending | None, started: float | None) -> None:
        """Record how the connection ended; `None` is an intended end."""
        if ending is None:
            if started is not None:
                self._recovered()
            self._breaker, self.again_s = Breaker(), 0.0
            self._fares(state=State.IDLE, error="", fault="")
            return
        now = time.monotonic()
        self._breaker = self._breaker.failed(now=now, ran_s=None if started is None else now - started)
        is_trial = started is None and self._pool.mends(self) and not self._pool.keeps(self)
        self._fault = ending if supervision.counts(ending) and not is_trial else None
        why = self._restarts.why_given_up(self._pool.supervision, ending, now=now)
        if why and self.key:
            self._breaker = self._breaker.rested(now=now, for_s=self._pool.supervision.window_s)
            ending, why = replace(ending, reason=why), ""
        self.again_s = None if why else self._breaker.wait_s(now)
        log.warning("server failed", server=self.spec.name, kind=ending.kind, reason=why or ending.reason)
        self._fares(
            state=State.SUSPENDED if why else State.FAILED,
            error=why or ending.reason,
            ended=ending.kind,
            last_error=ending.reason,
            fault=ending.fault,
        )
        if why:
            self._report(SupervisionEvent(kind="suspend", why=why))

    def _failed(self, error: Exception, started: float | None) -> None:
        reason = connection_fault(self.spec.name, error)
        if find(error, LoginNeededError):  # tried again with the next call: the operator may have logged in
            self._breaker, self.again_s = Breaker(), supervision.MAX_DELAY_S
            log.warning("server failed", server=self.spec.name, reason=reason)
            self._fares(state=State.FAILED, error=reason, last_error=reason, fault=fault_code(error))
        else:
            ending = self._ending(reason)
            self._ended(replace(ending, fault=ending.fault or fault_code(error)), started)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
