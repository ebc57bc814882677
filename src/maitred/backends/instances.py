"""The instances of servers that not all clients share: one `ServerTask` for each share key of a server.

An instance is made when a client first needs it, and forgotten once it has ended without a fault. At most
`share_max` of a server run at a time. For one more, the one that has been idle for longest is stopped; if all
are in use, the call fails. An instance of a single client ends soon after the client has left. It waits a
little, so that a client that connects again finds it as it was.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import anyio

from maitred.backends.base import BackendFactory
from maitred.backends.server_task import PoolServices, ServerTask
from maitred.config.interpolate import escape
from maitred.errors import ServerUnavailableError
from maitred.model.servers import Health, ServerSpec, Share, State
from maitred.model.sharing import Instance, Sharer, follows_folder, in_folder, share_key

GRACE_S: Final = 20.0
"""For how long an instance waits for its client to come back."""

_ORDER: Final = (State.READY, State.STARTING, State.STOPPING)


class InstancePool(PoolServices, Protocol):
    """What instances need from their pool."""

    def spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> bool:
        """Run a task until it ends or the pool closes; returns whether the pool is still open."""
        ...


class Instances:
    """The instances of all servers of a pool, beside the default ones, which the pool holds itself."""

    def __init__(self, pool: InstancePool, make: BackendFactory) -> None:
        self._pool = pool
        self._make = make
        self._tasks: dict[str, dict[str, ServerTask]] = {}
        self._admitted: set[ServerTask] = set()
        self._left: set[ServerTask] = set()

    def of(self, server: str) -> Sequence[ServerTask]:
        """The instances of a server, the oldest first."""
        return list(self._tasks.get(server, {}).values())

    def all(self) -> Sequence[ServerTask]:
        """The instances of all servers."""
        return [task for server in self._tasks for task in self.of(server)]

    def get(self, server: str, key: str) -> ServerTask | None:
        """An instance by its key."""
        return self._tasks.get(server, {}).get(key)

    def obtain(self, default: ServerTask, key: str, share: Share, sharer: Sharer) -> ServerTask:
        """The instance of a key, which is made if there is none."""
        known = self.get(default.spec.name, key)
        if known is not None and not known.is_retired:
            self._left.discard(known)
            return known
        self._sweep(default.spec.name)
        own = _sharer_of_instance(share, sharer)
        spec, note = in_folder(default.spec, own, share, quoted=escape(own.folder))
        task = ServerTask(self._pool, spec, self._make, default.era, known, key=key, sharer=own, note=note)
        self._tasks.setdefault(spec.name, {})[key] = task
        return task

    def _sweep(self, server: str) -> None:
        """Forget the instances that have ended, but not those that are refused for their failures."""
        for task in self.of(server):
            if not task.is_running and task.is_idle and not task.refuses:
                self._forget(task)

    def _forget(self, task: ServerTask) -> None:
        server = task.spec.name
        if self.get(server, task.key) is task:
            del self._tasks[server][task.key]
        self._admitted.discard(task)
        self._left.discard(task)

    def take(
        self, server: str, share: Share | None = None, spec: ServerSpec | None = None
    ) -> list[ServerTask]:
        """Forget the instances that the present settings do not allow, and return them, to be retired.

        Without a `share` and a `spec` these are all; the others get the specification.
        """
        taken = []
        for task in self.of(server):
            if share is None or spec is None or task.key != _key_of(task, share, spec):
                self._forget(task)
                taken.append(task)
            else:
                task.spec, task.note = in_folder(spec, task.sharer, share, quoted=escape(task.sharer.folder))
        return taken

    # --- how many -----------------------------------------------------------------------------------------

    async def make_room(self, task: ServerTask) -> None:
        """Wait until one more instance of its server may run.

        Raises:
            ServerUnavailableError: All that may run are in use.
        """
        while not task.is_running:
            running = [one for one in self.of(task.spec.name) if one is not task and self._counts(one)]
            if len(running) < task.spec.share_max:
                self._admitted.add(task)
                return
            idle = [one for one in running if one.is_running and one.is_idle]
            if not idle:
                raise ServerUnavailableError(task.spec.name, _all_in_use(task.spec))
            await min(idle, key=lambda one: one.idle_since).stop()

    def _counts(self, task: ServerTask) -> bool:
        """Whether it runs, or has been admitted for a call that is starting it."""
        return task.is_running or (task in self._admitted and not task.is_idle)

    def left(self, sharer: Sharer) -> None:
        """A client has gone; its own instances end unless it comes back in time."""
        for tasks in self._tasks.values():
            personal = any(task.spec.is_personal for task in tasks.values())
            task = tasks.get(share_key("client", sharer, personal=personal))
            if task is not None and task not in self._left and self._pool.spawn(self._end_later, task):
                self._left.add(task)

    async def _end_later(self, task: ServerTask) -> None:
        while True:
            await anyio.sleep(GRACE_S)
            if task not in self._left:
                return
            if task.is_idle:  # else the last call of the client is not over yet
                await task.retire()
                self._forget(task)
                return

    # --- reports ------------------------------------------------------------------------------------------

    def listed(self, server: str) -> Sequence[Instance]:
        """Those that run or have failed, with their health."""
        return [
            Instance(sharer=task.sharer, health=task.snapshot(), note=task.note)
            for task in self.of(server)
            if task.is_running or task.refuses or task.health.state is State.FAILED
        ]

    def together(self, server: str, default: Health) -> Health:
        """The health of a server with all its instances: their sums, and the faults of the default one."""
        others = [task.snapshot() for task in self.of(server)]
        if not others:
            return default
        every = [default, *others]
        state = default.state
        if state not in (State.SUSPENDED, State.FAILED):
            present = {one.state for one in every}
            state = next((one for one in _ORDER if one in present), state)
        return replace(
            default,
            state=state,
            in_flight=sum(one.in_flight for one in every),
            starts=sum(one.starts for one in every),
            restarts=sum(one.restarts for one in every),
            pid=next((one.pid for one in every if one.pid), None),
        )

    def output(self, server: str, *, earlier: bool = False) -> Sequence[str]:
        """The last lines of the standard error of each, under a heading."""
        lines = []
        for task in self.of(server):
            written = task.backend.last_output(earlier=earlier) if task.backend else ()
            if written:
                owner = Instance(sharer=task.sharer, health=task.health).owner
                lines += [f"--- for {owner} ---", *written]
        return lines


def _key_of(task: ServerTask, share: Share, spec: ServerSpec) -> str:
    return share_key(share, task.sharer, personal=spec.is_personal)


def _sharer_of_instance(share: Share, sharer: Sharer) -> Sharer:
    """What all clients of an instance have in common."""
    return Sharer(
        principal=sharer.principal,
        client=sharer.client if share == "client" else "",
        folder=sharer.folder if follows_folder(share) else "",
    )


def _all_in_use(spec: ServerSpec) -> str:
    one = "the only one" if spec.share_max == 1 else f"each of the {spec.share_max}"
    return (
        f"{one} that may run for clients is in use by other clients; try again later, or raise"
        f" `share_max` of the server {spec.name!r} in the configuration"
    )
