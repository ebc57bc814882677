"""Finds the replica that runs an instance of a server, and connects to it, or says that this one should.

`PlacedBackend` wraps the backend of a server that is a program or a container. If this replica owns the
instance, its connection is that of the wrapped backend. Otherwise it is a link to the owner.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any, Final

import anyio

from maitred.backends.base import Backend, ConnectError, Connection, ConnectOptions, Ending, Notice
from maitred.backends.runner_callers import CallersHere
from maitred.backends.runner_forms import fleet_name, fleet_sharer, notice_of, to_form
from maitred.backends.runner_link import LinkedConnection
from maitred.errors import ReplicaError, ReplicaGoneError, ServerError, ServerUnavailableError, StoreError
from maitred.model.servers import ServerSpec
from maitred.replicas.forwarding import ReplicaRequest, Replicas
from maitred.replicas.ownership import NotOwnerError, Ownership, choose

_AGAIN_S: Final = 0.5
_NO_RUNNER_S: Final = 20.0
_MOST_WAIT_S: Final = 20.0
"""Longer than a lease: until then another replica can have taken what a dead one ran."""
_NO_OWNER: Final = "the replica that ran it does not answer, and no other has taken it yet; try again"
MOVED: Final = "another replica runs it now"


class LocalServer:
    """An instance that this replica runs, with the links of other replicas to it: their ids, by link."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.links: dict[str, str] = {}


class Placement:
    """Which replica runs what, as this one sees it.

    `reads` says of a server and the raw name of a tool whether calls of it are known to change nothing.
    """

    def __init__(self, replicas: Replicas, ownership: Ownership, reads: Callable[[str, str], bool]) -> None:
        self.replicas = replicas
        self.ownership = ownership
        self.local: dict[str, LocalServer] = {}
        self._callers = CallersHere(replicas)
        self._reads = reads
        self._links: dict[str, LinkedConnection] = {}
        self._notices: dict[str, Callable[[Notice], None]] = {}
        self._last: dict[str, str] = {}
        ownership.on_lost.append(self._lost)
        replicas.membership.on_gone.append(self._gone)
        replicas.register("link.notice", self._heard_notice)
        replicas.register("link.ended", self._heard_end)
        replicas.register("link.unsubscribed", self._heard_subscription)

    # --- the owner ----------------------------------------------------------------------------------------

    async def owner(self, name: str, server: str, without: Collection[str] = ()) -> str:
        """The replica that runs an instance, or should: the owner, or the one that all would choose.

        No replica of `without` is chosen; an owner stays one until its lease has ended.

        Raises:
            ConnectError: No replica may run it, or the database cannot be read and nothing is remembered.
        """
        until = anyio.current_time() + _NO_RUNNER_S
        while True:
            try:
                found = await self.ownership.find(name)
            except StoreError as error:
                if (known := self._last.get(name)) is not None:
                    return known
                raise ConnectError(f"which replica runs it cannot be read: {error.reason}") from error
            live = self.replicas.membership.live
            runners = [one for one in live if one.runs_servers and one.id not in without]
            if found or runners:
                chosen = found or choose(name, runners).id
                self._last[name] = chosen
                return chosen
            if anyio.current_time() > until:
                raise ConnectError(
                    f"no replica is alive that may run it; start one whose role is `runner` or `both`"
                    f" ({server!r} is a program or a container)"
                )
            await anyio.sleep(_AGAIN_S)

    def server(self, name: str) -> LocalServer:
        """What this replica knows of an instance that it owns."""
        return self.local.setdefault(name, LocalServer())

    async def settle(self, name: str) -> None:
        """Give an instance back that no replica needs and that does not run here."""
        found = self.local.get(name)
        if found is not None and found.connection is None and not found.links:
            del self.local[name]
            await self.ownership.give_back(name)

    def _lost(self, name: str) -> None:
        found = self.local.pop(name, None)
        if found is not None and found.connection is not None:
            found.connection.end(MOVED)

    # --- links of this replica ----------------------------------------------------------------------------

    @asynccontextmanager
    async def link(self, owner: str, spec: ServerSpec, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Connect to an instance that another replica runs, or is to start.

        Raises:
            NotOwnerError: That replica cannot run it; another one may.
            ReplicaGoneError: That replica cannot be reached.
            ConnectError: The server cannot be started there.
        """
        link = secrets.token_hex(8)
        sharer = asdict(fleet_sharer(options.sharer, self.replicas.id))
        try:
            opened = await self.replicas.forward(
                owner, "server.open", {"server": spec.name, "sharer": sharer, "link": link}
            )
        except ServerUnavailableError as error:
            raise ConnectError(error.reason) from error
        except (StoreError, ServerError) as error:
            raise ConnectError(str(error)) from error
        connection = LinkedConnection(
            spec.name,
            owner,
            opened | {"link": link, "sharer": sharer},
            self.replicas,
            self._callers,
            self._reads,
        )
        self._links[link] = connection
        self._notices[link] = options.on_notice
        try:
            yield connection
        finally:
            del self._links[link], self._notices[link]
            await connection.leave()

    def _gone(self, gone: frozenset[str]) -> None:
        for connection in list(self._links.values()):
            if connection.owner in gone:
                connection.end(f"replica {connection.owner}, which ran it, has ended")
        for server in self.local.values():
            server.links = {link: owner for link, owner in server.links.items() if owner not in gone}

    async def _heard_notice(self, request: ReplicaRequest) -> dict[str, Any]:
        for link in request.body["links"]:
            if (heard := self._notices.get(link)) is not None:
                heard(notice_of(request.body["notice"]))
        return {}

    async def _heard_end(self, request: ReplicaRequest) -> dict[str, Any]:
        for link in request.body["links"]:
            if (connection := self._links.get(link)) is not None:
                connection.end(request.body["reason"])
        return {}

    async def _heard_subscription(self, request: ReplicaRequest) -> dict[str, Any]:
        body = request.body
        if (connection := self._links.get(body["link"])) is not None:
            connection.subscription_ended(body["subscription"], body["reason"])
        return {}

    # --- links of others ----------------------------------------------------------------------------------

    def spread(self, name: str, notice: Notice) -> None:
        """Tell the other replicas a notice of an instance that this one runs."""
        found = self.local.get(name)
        if found is None or notice.kind in ("tools", "resources", "prompts"):
            return  # this replica lists them again, for all
        by_owner: dict[str, list[str]] = {}
        for link, owner in found.links.items():
            by_owner.setdefault(owner, []).append(link)
        form = to_form(notice)
        for owner, links in by_owner.items():
            self.replicas.tell(owner, "link.notice", {"links": links, "notice": form})


class PlacedBackend(Backend):
    """A server that is a program or a container, on whichever replica owns it."""

    def __init__(self, backend: Backend, placement: Placement) -> None:
        self.spec = backend.spec
        self._backend = backend
        self._placement = placement
        self._owner = ""
        self.is_elsewhere = False

    @property
    def cage(self) -> str:  # type: ignore[override]  # known once it is asked
        """What its processes run in; see `Backend`."""
        return "" if self.is_elsewhere else self._backend.cage

    @property
    def pid(self) -> int | None:
        """Its process, if it runs here."""
        return None if self.is_elsewhere else self._backend.pid

    def last_output(self, *, earlier: bool = False) -> Sequence[str]:
        """What it wrote here, and where it runs now if that is elsewhere."""
        written = list(self._backend.last_output(earlier=earlier))
        if self._owner:
            there = self._placement.replicas.membership.get(self._owner)
            at = f" at {there.address}" if there else ""
            written.append(f"(it runs on replica {self._owner}{at}; what it writes is kept there)")
        return written

    def why_not_callable(self, tool: str) -> str:
        """See `Backend`."""
        return self._backend.why_not_callable(tool)

    async def settle(self, tool: str) -> bool:
        """See `Backend`."""
        return not self.is_elsewhere and await self._backend.settle(tool)

    def idle_limit_s(self, configured_s: float) -> float:
        """See `Backend`."""
        return self._backend.idle_limit_s(configured_s)

    def ending(self, reason: str) -> Ending:
        """How the last connection ended; of one elsewhere, its replica knows more."""
        return Ending(kind="lost", reason=reason) if self.is_elsewhere else self._backend.ending(reason)

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Open a session with the instance, on the replica that runs it; see `Backend`."""
        placement = self._placement
        self._owner, self.is_elsewhere = "", False
        if not await placement.replicas.settled():
            async with self._backend.connect(options) as connection:
                yield connection
            return
        name = fleet_name(self.spec.name, options.key, placement.replicas.id)
        async with self._placed(name, options) as connection:
            yield connection

    @asynccontextmanager
    async def _placed(self, name: str, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Try the owner until it answers, or its lease has ended and another one is found."""
        placement, has_begun = self._placement, False
        until, unreached = anyio.current_time() + _MOST_WAIT_S, set[str]()
        while True:
            owner = await placement.owner(name, self.spec.name, unreached)
            is_own = owner == placement.replicas.id
            self._owner, self.is_elsewhere = "" if is_own else owner, not is_own
            opened = self._run_here(name, options) if is_own else placement.link(owner, self.spec, options)
            try:
                async with opened as connection:
                    has_begun = True
                    yield connection
            except (NotOwnerError, ReplicaGoneError) as error:
                if has_begun:
                    raise
                if anyio.current_time() > until:
                    raise ConnectError(f"{_NO_OWNER} ({error.reason})") from error
                unreached.add(owner)
            except ReplicaError as error:
                raise ConnectError(str(error)) from error
            if has_begun:
                return
            await anyio.sleep(_AGAIN_S)

    @asynccontextmanager
    async def _run_here(self, name: str, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Run it, as long as this replica owns it.

        Raises:
            NotOwnerError: Another replica has taken it meanwhile.
            ConnectError: It cannot be started, or the database cannot be written.
        """
        placement = self._placement
        try:
            await placement.ownership.claim(name)
        except StoreError as error:
            raise ConnectError(f"this replica cannot take it: {error.reason}") from error
        server = placement.server(name)

        def heard(notice: Notice) -> None:
            options.on_notice(notice)
            placement.spread(name, notice)

        try:
            async with self._backend.connect(replace(options, on_notice=heard)) as connection:
                server.connection = connection
                if not placement.ownership.holds(name):
                    raise ConnectError(MOVED)
                yield connection
        finally:
            self.is_elsewhere = not placement.ownership.holds(name)
            server.connection = None
            with anyio.CancelScope(shield=True):
                await placement.settle(name)
