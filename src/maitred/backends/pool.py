"""Holds every live backend, and starts and stops servers: one `ServerTask` for each instance of a server.

Each server has a default instance; `maitred.backends.instances` holds the others.

The pool knows nothing of tools or catalogs. It reports to its listener when a server starts, changes its
health, restarts or announces a change.
`difference` compares the wanted servers with the present ones, after a change of the configuration and
whenever a server ends. It is a pure function. Operators' decisions, suspensions and `start: always` all
act through it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import anyio
import structlog

from maitred.backends.base import BackendFactory, Connection, Listener, SupervisionEvent
from maitred.backends.instances import Instances
from maitred.backends.server_task import ServerTask
from maitred.backends.written_output import continue_output
from maitred.background import Background
from maitred.config.settings import Supervision
from maitred.errors import ServerUnavailableError
from maitred.model.servers import EraChoice, Health, ServerSpec, State
from maitred.model.sharing import NO_SHARER, Instance, Sharer, Sharing, share_key, sharing_of

Desired = Literal["running", "as needed", "stopped"]


def desired_state(spec: ServerSpec) -> Desired:
    """The state that the specification of a server asks for."""
    if not spec.usable:
        return "stopped"
    return "running" if spec.start == "always" else "as needed"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The servers to stop for good, and the servers to make; a name in both is replaced."""

    retire: frozenset[str]
    make: frozenset[str]

    @property
    def replaced(self) -> frozenset[str]:
        """The servers that are stopped and made again, since their way of running changed."""
        return self.retire & self.make


def difference(wanted: Mapping[str, ServerSpec], present: Mapping[str, ServerSpec]) -> Difference:
    """How the present servers differ from the wanted ones."""
    same = {name for name, spec in wanted.items() if name in present and present[name].run == spec.run}
    return Difference(retire=frozenset(present.keys() - same), make=frozenset(wanted.keys() - same))


log = structlog.get_logger(__name__)

_MARGIN_S: Final = 0.05
_MAX_KEEPING: Final = 4
_SOON_S: Final = 1.0


class BackendPool(anyio.AsyncContextManagerMixin):
    """All backends of a gateway, by server name. Enter it before use; leaving it ends every server.

    `load` is awaited before a backend is made; it imports what that backend needs.
    Without `shares` the gateway has one client only, which the default instances serve.
    `keeps_running` says whether servers with `start: always` stay running. `prepare` is awaited before
    the first server starts: a second after the pool was entered, or as soon as a server is needed.
    Servers that the pool starts by itself do not count for `max_starting`. So one that never becomes
    ready delays no call.
    """

    def __init__(
        self,
        make: BackendFactory,
        *,
        max_starting: int,
        on_close: Callable[[], None],
        listener: Listener | None = None,
        supervision: Supervision | None = None,
        keeps_running: bool = False,
        shares: bool = True,
        prepare: Callable[[], Awaitable[None]] | None = None,
        load: Callable[[ServerSpec], Awaitable[None]] | None = None,
    ) -> None:
        self._make = make
        self._load = load
        self._on_close = on_close
        self._keeps_running = keeps_running
        self._shares = shares
        self._prepare = prepare
        self._demand = anyio.Event()
        self._prepared = anyio.Event()
        self._owners: dict[str, ServerTask] = {}
        self._instances = Instances(self, make)
        self._titles: dict[str, str] = {}
        self._sharings: dict[str, Sharing] = {}
        self._failing: set[ServerTask] = set()
        self._given_up: dict[str, tuple[Health, Sequence[str]]] = {}
        self._background = Background()
        self.starting = anyio.Semaphore(max_starting)
        self.keeping = anyio.Semaphore(_MAX_KEEPING)
        self.listener: Listener = listener or _Nobody()
        self.supervision = supervision or Supervision()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        try:
            async with self._background:
                if self._prepare is None:
                    self._prepared.set()
                else:
                    self._background.start(self._get_ready, self._prepare)
                try:
                    yield self
                finally:
                    self._background.close()
                    with anyio.CancelScope(shield=True):
                        await self._retire([*self._owners.values(), *self._instances.all()])
        finally:
            self._on_close()

    async def _get_ready(self, prepare: Callable[[], Awaitable[None]]) -> None:
        with anyio.move_on_after(_SOON_S):  # work before that would delay the first client
            await self._demand.wait()
        try:
            await prepare()
        finally:
            self._prepared.set()

    async def prepared(self, spec: ServerSpec) -> None:
        """Wait until servers may be started, and a backend of this specification can be made."""
        self._demand.set()
        if self._load is not None:
            await self._load(spec)
        await self._prepared.wait()

    def spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> bool:
        """Run an owner task until it ends or the pool closes; returns whether the pool is still open."""
        if self._background.is_open:
            self._background.start(function, *args)
        return self._background.is_open

    async def configure(
        self,
        specs: Mapping[str, ServerSpec],
        eras: Mapping[str, EraChoice],
        supervision: Supervision | None = None,
        titles: Mapping[str, str] | None = None,
    ) -> None:
        """Hold exactly these servers; those that changed or are gone are stopped, the rest keep running."""
        self.supervision = supervision or self.supervision
        wrong = difference(specs, {name: owner.spec for name, owner in self._owners.items()})
        gone = {name: self._owners.pop(name) for name in wrong.retire}
        self._remember(gone, made=wrong.make)
        earlier = {name: title for name, title in self._titles.items() if name not in wrong.make}
        self._titles = {name: (titles or {}).get(name) or earlier.get(name, "") for name in specs}
        self._sharings = {}
        for name, spec in specs.items():
            if name in wrong.make:
                era = spec.era if spec.era != "auto" else eras.get(name, "auto")
                self._owners[name] = ServerTask(self, spec, self._make, era, gone.get(name))
            else:
                self._owners[name].spec = spec
        over = [task for name in wrong.retire for task in self._instances.take(name)]
        for name in specs.keys() - wrong.make:
            over += self._instances.take(name, self.sharing(name).share, specs[name])
        await self._retire([*gone.values(), *over])
        for name in wrong.replaced:
            self.listener.health_changed(name, "")
        for owner in self._owners.values():
            self._reconcile(owner)

    async def restart(self, server: str) -> None:
        """End a server with all its instances, and forget its failures; the next use starts it.

        Raises:
            ServerUnavailableError: No such server may run.
        """
        present = self.owner(server)
        self._owners[server] = next_one = ServerTask(self, present.spec, self._make, present.era, present)
        if present.backend is not None:
            continue_output(next_one.made_backend(), present.backend)
        ending = [present, *self._instances.take(server)]
        async with anyio.create_task_group() as tasks:
            for owner in ending:
                tasks.start_soon(owner.retire, "it was started again")
        self.listener.health_changed(server, "")
        self._reconcile(self._owners[server])

    def _remember(self, gone: Mapping[str, ServerTask], *, made: Collection[str]) -> None:
        """Remember the health of suspended servers that may not run now, for reports to the operator."""
        for name, owner in gone.items():
            if owner.is_given_up:
                lines = owner.backend.last_output() if owner.backend else ()
                self._given_up[name] = (owner.snapshot(), tuple(lines))
        for name in made:
            self._given_up.pop(name, None)

    def _reconcile(self, owner: ServerTask) -> None:
        """Start a server that should run and does not."""
        if self.is_owner(owner) and (self.keeps(owner) or self.mends(owner)):
            owner.keep()

    def keeps(self, owner: ServerTask) -> bool:
        """Whether a server should run even if no call needs it."""
        return self._keeps_running and not owner.key and desired_state(owner.spec) == "running"

    def mends(self, owner: ServerTask) -> bool:
        """Whether a server is tried again by itself after a failure, until it runs; calls start the others.

        Of one that vanished it is soon known whether it comes back. One that failed often stays out of the
        lists until it does.
        """
        is_ours = self._keeps_running and not owner.key and owner.spec.usable
        return is_ours and (owner.has_vanished or owner.has_failed_often)

    def note_failing(self, owner: ServerTask) -> None:
        """Look at an owner whenever it is asked whose calls are refused; see `refused`."""
        self._failing.add(owner)

    def ended(self, owner: ServerTask) -> None:
        """An owner's connection has ended: check again when the server may be started again."""
        owner.timer.cancel()
        if owner.key:
            return  # nothing but a call starts it
        if owner.again_s == 0:
            self._reconcile(owner)
        elif owner.again_s is not None:
            owner.timer = anyio.CancelScope()
            self.spawn(self._again, owner, owner.timer, owner.again_s + _MARGIN_S)

    async def _again(self, owner: ServerTask, timer: anyio.CancelScope, delay_s: float) -> None:
        with timer:
            await anyio.sleep(delay_s)
            try:
                owner.tell()  # calls to it may not be refused any more
            except Exception:  # a listener is foreign code, and the pool goes on
                log.exception(
                    "a listener did not take the notice that a server may be tried again",
                    server=owner.spec.name,
                )
            self._reconcile(owner)

    @staticmethod
    async def _retire(owners: list[ServerTask]) -> None:
        async with anyio.create_task_group() as tasks:
            for owner in owners:
                tasks.start_soon(owner.retire)

    def owner(self, server: str) -> ServerTask:
        """The task of a server's backend.

        Raises:
            ServerUnavailableError: No such server is configured.
        """
        try:
            return self._owners[server]
        except KeyError:
            raise ServerUnavailableError(server, "it is not configured any more") from None

    def is_owner(self, owner: ServerTask) -> bool:
        """Whether it still owns its server; events of a replaced owner are dropped."""
        if owner.key:
            return self._instances.get(owner.spec.name, owner.key) is owner
        return self._owners.get(owner.spec.name) is owner

    async def make_room(self, owner: ServerTask) -> None:
        """Wait until an instance may run; see `Instances.make_room`."""
        await self._instances.make_room(owner)

    def learned(self, server: str, title: str) -> None:
        """A server has introduced itself by a name or title, which may decide how it is shared."""
        if title and self._titles.get(server) != title:
            self._titles[server] = title
            self._sharings.pop(server, None)

    def sharing(self, server: str) -> Sharing:
        """How a server is shared, and why."""
        found = self._sharings.get(server)
        if found is None:
            owner = self._owners.get(server)
            if owner is None:
                return Sharing("all", "it may not run now")
            found = self._sharings[server] = sharing_of(owner.spec, self._titles.get(server, ""))
        return found

    def key(self, server: str, sharer: Sharer) -> str:
        """The share key of the instance that serves a sharer."""
        owner = self._owners.get(server)
        if owner is None or not (self._shares or owner.spec.is_personal):
            return ""
        return share_key(self.sharing(server).share, sharer, personal=owner.spec.is_personal)

    def instances(self, server: str) -> Sequence[Instance]:
        """The instances of a server beside the default one that run or have failed."""
        return self._instances.listed(server)

    def state(self, server: str, key: str) -> State:
        """The state of an instance."""
        owner = self._instances.get(server, key) if key else self._owners.get(server)
        return owner.health.state if owner else State.IDLE

    def left(self, sharer: Sharer) -> None:
        """A client has gone; see `ServerPool`."""
        self._instances.left(sharer)

    def health(self, sharer: Sharer | None = None) -> dict[str, Health]:
        """The health of every server; a suspended one that may not run now has its last health."""
        past = {name: health for name, (health, _) in self._given_up.items()}
        now = {name: owner.snapshot() for name, owner in self._owners.items()}
        if sharer is None:
            return past | {name: self._instances.together(name, health) for name, health in now.items()}
        for name in now:
            if key := self.key(name, sharer):
                own = self._instances.get(name, key)
                now[name] = own.snapshot() if own else Health()
        return past | now

    def refused(self) -> dict[str, Health]:
        """The backends to which calls are refused now, after too many failures."""
        if not self._failing:  # each call asks, and there may be a thousand servers
            return {}
        self._failing = {owner for owner in self._failing if owner.has_failed and self.is_owner(owner)}
        return {
            owner.spec.name: owner.snapshot() for owner in self._failing if owner.refuses and not owner.key
        }

    def refusal(self, server: str) -> Health | None:
        """The health of one server, if calls to it are refused now."""
        owner = self._owners.get(server)
        return owner.snapshot() if owner in self._failing and owner.refuses and not owner.key else None

    def last_output(self, server: str, *, earlier: bool = False) -> Sequence[str]:
        """The last lines of a server's standard error; with `earlier` those of processes before, too."""
        if server in self._given_up:
            return self._given_up[server][1]
        owner = self._owners.get(server)
        backend = owner.backend if owner else None
        own = backend.last_output(earlier=earlier) if backend else ()
        return [*own, *self._instances.output(server, earlier=earlier)]

    def why_not_callable(self, server: str, tool: str) -> str:
        """Why a tool of a server cannot be called, if its backend knows that; may read a file."""
        owner = self._owners.get(server)
        return owner.made_backend().why_not_callable(tool) if owner else ""

    async def settle(self, server: str, tool: str) -> bool:
        """Wait a moment for tools that a call may just have brought; see `Backend`."""
        owner = self._owners.get(server)
        return owner is not None and await owner.made_backend().settle(tool)

    def is_open(self, server: str) -> bool:
        """Whether a connection to a server is open now."""
        owner = self._owners.get(server)
        return owner is not None and owner.connection is not None

    async def roots_changed(self, key: str) -> None:
        """Announce that a client's roots changed; see `ServerPool`."""
        for connection in self._open_connections():
            await connection.roots_changed(key)

    def forget(self, key: str) -> None:
        """Have each open server forget a client; see `ServerPool`."""
        for connection in self._open_connections():
            connection.forget(key)

    def _open_connections(self) -> Sequence[Connection]:
        tasks = [*self._owners.values(), *self._instances.all()]
        return [task.connection for task in tasks if task.connection is not None]

    def is_given_up(self, server: str) -> bool:
        """Whether a usable server does not start any more because of its failures."""
        owner = self._owners.get(server)
        return owner is not None and owner.is_given_up

    def connection(
        self, server: str, sharer: Sharer = NO_SHARER, *, patient: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        """Borrow the connection of a server; see `ServerPool`."""
        owner = self.owner(server)
        if key := self.key(server, sharer):
            owner = self._instances.obtain(owner, key, self.sharing(server).share, sharer)
        return owner.borrow(patient=patient)

    def open_connection(self, server: str, key: str) -> AbstractAsyncContextManager[Connection] | None:
        """Borrow the connection of an instance; `None` if it is not open now."""
        owner = self._instances.get(server, key) if key else self._owners.get(server)
        return owner.borrow() if owner is not None and owner.connection is not None else None


class _Nobody:
    def started(self, server: str, key: str) -> None:
        """Ignore it."""

    def tools_changed(self, server: str, key: str) -> None:
        """Ignore it."""

    def offers_changed(self, server: str, key: str) -> None:
        """Ignore it."""

    def updated(self, server: str, uri: str, key: str) -> None:
        """Ignore it."""

    def task_changed(self, server: str, task: Mapping[str, Any], key: str) -> None:
        """Ignore it."""

    def facts_changed(self, server: str, facts: Mapping[str, Any], key: str) -> None:
        """Ignore it."""

    def health_changed(self, server: str, key: str) -> None:
        """Ignore it."""

    def supervised(self, server: str, event: SupervisionEvent) -> None:
        """Ignore it."""
