"""Owns every live backend: starts it when it is first needed, watches it, stops it when it is idle.

Each backend in use has one owner task, in which its session is opened and closed; callers only borrow the
open connection. The pool knows nothing of tools or catalogs: when a server starts, fares differently or says
that something changed, it tells its listener. Failures to start back off, and after several in a row a
circuit breaker answers at once until it is time to try again.
"""

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc
import structlog

from maitred.backends.base import (
    Backend,
    BackendFactory,
    ConnectError,
    Connection,
    ConnectOptions,
    Listener,
    LoginNeededError,
    Notice,
    find,
)
from maitred.errors import ConnectionLostError, ServerError, ServerUnavailableError
from maitred.model.servers import EraChoice, Health, ServerSpec, State

log = structlog.get_logger(__name__)

_FIRST_DELAY_S = 0.5
_MAX_DELAY_S = 60.0
_BREAKER_AT = 3
_STABLE_S = 30.0
_SOONEST_S = 0.05
_CHECK_IDLE_S = 1.0
_MARGIN_S = 0.05


class Owner:
    """One backend: its owner task, its connection while it is open, and its record of failures."""

    def __init__(
        self,
        pool: "BackendPool",
        spec: ServerSpec,
        make: BackendFactory,
        era: EraChoice,
        predecessor: "Owner | None" = None,
    ) -> None:
        self.spec = spec
        self._make = make
        self.backend: Backend | None = None
        self._predecessor = predecessor
        self._removed = False
        self.era = era
        self.connection: Connection | None = None
        self.health = Health()
        self._told = (self.health.state, False)
        self._pool = pool
        self._ready = anyio.Event()
        self._stop = anyio.Event()
        self._done = anyio.Event()
        self._done.set()
        self._scope = anyio.CancelScope()
        self._lost = ""
        self._in_flight = 0
        self._idle_since = time.monotonic()
        self._retry_at = 0.0

    @property
    def refuses(self) -> bool:
        """Whether its circuit breaker is open."""
        return self.health.failures >= _BREAKER_AT and self._retry_at > time.monotonic()

    def _fares(self, health: Health, retry_at: float | None = None) -> None:
        """Record how it is doing; the listener hears of it when it matters to others."""
        self.health = health
        if retry_at is not None:
            self._retry_at = retry_at
        self._tell()

    def _tell(self) -> None:
        told, self._told = self._told, (self.health.state, self.refuses)
        if self._told != told and self._pool.is_owner(self):
            self._pool.listener.health_changed(self.spec.name)

    def snapshot(self) -> Health:
        """How it is doing, with the time until the circuit breaker lets the next start through."""
        wait = self._retry_at - time.monotonic()
        return replace(
            self.health,
            retry_in_s=wait if wait > 0 and self.refuses else None,
            in_flight=self._in_flight,
            pid=self.backend.pid if self.backend else None,
        )

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[Connection]:
        """The open connection, started if need be; it is not stopped for idleness while borrowed.

        Raises:
            ServerUnavailableError: It cannot be started, or failed too often to be tried again yet.
        """
        self._in_flight += 1
        try:
            yield await self._connected()
        finally:
            self._in_flight -= 1
            self._idle_since = time.monotonic()

    async def _connected(self) -> Connection:
        if self.connection is not None and not self.connection.alive:
            self._stop.set()  # its end is known, but not yet to the owner task
        if self.connection is None or self._stop.is_set():
            await self._start()
        if self.connection is None:
            raise ServerUnavailableError(
                self.spec.name, self.health.error or "it was stopped", retry_in_s=self.snapshot().retry_in_s
            )
        return self.connection

    async def _start(self) -> None:
        if self._stop.is_set():
            await self._done.wait()
        if self._removed:
            return
        if self._done.is_set():
            wait = self._retry_at - time.monotonic()
            if wait > 0 and self.health.failures >= _BREAKER_AT:
                return
            self._ready, self._stop, self._done = anyio.Event(), anyio.Event(), anyio.Event()
            self._scope = anyio.CancelScope()
            self._pool.spawn(self._run, max(0.0, wait))
        await self._ready.wait()

    async def _run(self, delay_s: float) -> None:
        """The owner task: one connection from start to end."""
        started = None
        try:
            with self._scope, ExitStack() as slot:
                await anyio.sleep(delay_s)  # the back-off after a failed start
                if self._predecessor is not None:  # never two processes of one server
                    await self._predecessor.retire()
                    self._predecessor = None
                self._fares(replace(self.health, state=State.STARTING))
                if self.backend is None:  # what speaks MCP is slow to import, and many a run needs no server
                    self.backend = self._make(self.spec)
                await self._pool.starting.acquire()
                slot.callback(self._pool.starting.release)
                self._scope.deadline = anyio.current_time() + self.spec.timeouts.start_s
                async with self.backend.connect(self._options()) as connection:
                    self._scope.deadline = float("inf")
                    slot.close()
                    started = time.monotonic()
                    self._opened(connection)
                    await self._watch(connection)
            late = self._scope.cancelled_caught and not self._stop.is_set()
            limit = f"it was not ready within {self.spec.timeouts.start_s:g} s"
            self._ended(limit if late else self._lost, started)
        except Exception as error:  # noqa: BLE001  # a transport is a plug-in: what it raises must not end the pool
            reason = self._explain(error)
            log.warning("server failed", server=self.spec.name, reason=reason)
            if find(error, LoginNeededError):  # tried again with the next call: somebody may have logged in
                self._fares(replace(self.health, state=State.FAILED, error=reason), 0.0)
            else:
                self._ended(reason, started)
        finally:
            self.connection = None
            self._done.set()
            self._ready.set()

    def _options(self) -> ConnectOptions:
        return ConnectOptions(era=self.era, on_notice=self._heard)

    def _heard(self, notice: Notice) -> None:
        listener, name = self._pool.listener, self.spec.name
        match notice.kind:
            case "tools":
                listener.tools_changed(name)
            case "updated":
                listener.updated(name, notice.uri)
            case "resources" | "prompts":
                listener.offers_changed(name)

    def _opened(self, connection: Connection) -> None:
        self.connection = connection
        self.era = connection.facts.era or "auto"
        self._idle_since = time.monotonic()
        self._lost = ""
        self._fares(Health(state=State.READY, failures=self.health.failures, starts=self.health.starts + 1))
        self._ready.set()
        self._pool.listener.started(self.spec.name)

    def _closing(self) -> None:
        self._stop.set()
        self.connection = None
        self._fares(replace(self.health, state=State.STOPPING))

    async def _watch(self, connection: Connection) -> None:
        """Wait until the server goes away, is told to stop, or has been idle for long enough."""

        async def lost() -> None:
            self._lost = await connection.closed()
            self._closing()
            tasks.cancel_scope.cancel()

        async def told() -> None:
            await self._stop.wait()
            self._closing()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lost)
            tasks.start_soon(told)
            while True:
                left = self._idle_since + self.spec.timeouts.idle_stop_s - time.monotonic()
                if left <= 0 and self._in_flight == 0:
                    break
                await anyio.sleep(max(left, _CHECK_IDLE_S if self._in_flight else _SOONEST_S))
            self._closing()
            tasks.cancel_scope.cancel()

    def _ended(self, reason: str, started: float | None) -> None:
        """Record how the connection ended: a fault counts, unless the server had been well for a while."""
        if not reason:
            self._fares(replace(self.health, state=State.IDLE, error="", failures=0), 0.0)
            return
        well = started is not None and time.monotonic() - started > _STABLE_S
        failures = 1 if well else self.health.failures + 1
        delay = 0.0 if well else min(_FIRST_DELAY_S * 2 ** (failures - 1), _MAX_DELAY_S)
        failed = replace(self.health, state=State.FAILED, error=reason, failures=failures)
        self._fares(failed, time.monotonic() + delay)
        if self.refuses:
            self._pool.later(self._lapse, delay + _MARGIN_S)

    async def _lapse(self, delay_s: float) -> None:
        """Say that it is not refused any more, when it is time."""
        await anyio.sleep(delay_s)
        self._tell()

    def _explain(self, error: Exception) -> str:
        if known := find(error, ConnectError):
            return str(known)
        if lost := find(error, ConnectionLostError):
            return lost.reason
        if isinstance(error, ServerError):
            return str(error)
        log.error("unexpected failure of a backend", server=self.spec.name, exc_info=error)
        leaf: BaseException = error
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        return f"{type(leaf).__name__}: {leaf}"

    def forgive(self) -> None:
        """Let the next start through at once, whatever failed before."""
        self._fares(replace(self.health, failures=0), 0.0)

    async def retire(self) -> None:
        """Stop for good: the server was removed from the configuration, or another owner takes over."""
        self._removed = True
        self.health = replace(self.health, error=self.health.error or "its configuration was changed")
        await self.stop()

    async def stop(self) -> None:
        """End the connection, or the attempt to open one, and wait until everything it started is gone."""
        self._stop.set()
        if self.connection is None:
            self._scope.cancel()
        await self._done.wait()


class BackendPool:
    """All backends of a gateway, by server name. Enter it before use; leaving it ends every server."""

    def __init__(self, make: BackendFactory, *, max_starting: int, on_close: Callable[[], None]) -> None:
        self._make = make
        self._on_close = on_close
        self._owners: dict[str, Owner] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self.starting = anyio.Semaphore(max_starting)
        self.listener: Listener = _Nobody()

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        tasks, self._tasks = self._tasks, None
        if tasks is None:
            return None
        try:
            with anyio.CancelScope(shield=True):
                await self._retire(list(self._owners.values()))
            tasks.cancel_scope.cancel()
            return await tasks.__aexit__(kind, error, trace)
        finally:
            self._on_close()

    def spawn(self, function: Callable[[float], Coroutine[Any, Any, None]], delay_s: float) -> None:
        """Run an owner task until it ends or the pool closes."""
        if self._tasks is None:
            raise RuntimeError("the pool is closed")
        self._tasks.start_soon(function, delay_s)

    def later(self, function: Callable[[float], Coroutine[Any, Any, None]], delay_s: float) -> None:
        """Run what does not matter any more when the pool closes."""
        if self._tasks is not None:
            self._tasks.start_soon(function, delay_s)

    async def configure(self, specs: Mapping[str, ServerSpec], eras: Mapping[str, EraChoice]) -> None:
        """Make the pool hold exactly these servers; what changed or is gone is stopped, the rest stays up."""
        gone = {n: o for n, o in self._owners.items() if n not in specs or specs[n].run != o.spec.run}
        for name in gone:
            del self._owners[name]
        for name, spec in specs.items():
            if name not in self._owners:
                era = spec.era if spec.era != "auto" else eras.get(name, "auto")
                self._owners[name] = Owner(self, spec, self._make, era, gone.get(name))
        await self._retire(list(gone.values()))
        for name in gone.keys() & specs.keys():
            self.listener.health_changed(name)

    @staticmethod
    async def _retire(owners: list[Owner]) -> None:
        async with anyio.create_task_group() as tasks:
            for owner in owners:
                tasks.start_soon(owner.retire)

    def owner(self, server: str) -> Owner:
        """The owner of a server's backend.

        Raises:
            ServerUnavailableError: No such server is configured.
        """
        try:
            return self._owners[server]
        except KeyError:
            raise ServerUnavailableError(server, "it is not configured any more") from None

    def is_owner(self, owner: Owner) -> bool:
        """Whether it owns its server still: one that was replaced speaks for nobody."""
        return self._owners.get(owner.spec.name) is owner

    def health(self) -> dict[str, Health]:
        """How every backend is doing."""
        return {name: owner.snapshot() for name, owner in self._owners.items()}

    def refused(self) -> dict[str, Health]:
        """The backends that failed so often that they are not tried now; quick where all are well."""
        return {name: owner.snapshot() for name, owner in self._owners.items() if owner.refuses}

    def last_output(self, server: str) -> Sequence[str]:
        """The last lines of a server's standard error."""
        backend = self.owner(server).backend
        return backend.last_output() if backend else ()

    def is_open(self, server: str) -> bool:
        """Whether a connection to a server is open now."""
        owner = self._owners.get(server)
        return owner is not None and owner.connection is not None

    def forgive(self, server: str) -> None:
        """Let the next start through at once, whatever failed before."""
        self.owner(server).forgive()

    def connection(self, server: str) -> AbstractAsyncContextManager[Connection]:
        """Borrow the connection of a server."""
        return self.owner(server).borrow()


class _Nobody:
    def started(self, server: str) -> None:
        """Nobody listens."""

    def tools_changed(self, server: str) -> None:
        """Nobody listens."""

    def offers_changed(self, server: str) -> None:
        """Nobody listens."""

    def updated(self, server: str, uri: str) -> None:
        """Nobody listens."""

    def health_changed(self, server: str) -> None:
        """Nobody listens."""
