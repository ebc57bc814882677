"""Synchronizes the catalog with the servers: first discovery, change notices, restarts, other processes.

`Discoverer` owns its background tasks. It starts a server only to discover one that is not known yet.
Everything else uses connections that are already open.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import anyio
import structlog
from anyio import to_thread

from maitred.backends.base import Connection, ServerOffers, ServerPool
from maitred.backends.listing import read_tools
from maitred.background import Background
from maitred.catalog.live import LiveCatalog
from maitred.catalog.names import prefix
from maitred.catalog.result_tools import ResultToolStore
from maitred.catalog.snapshot import Change, Snapshot
from maitred.catalog.stages import (
    Admitter,
    Placer,
    PublishedDefinition,
    ToolMediator,
    WithheldParts,
    mark_withheld,
    remending,
    replacement,
    with_mendings,
    with_placements,
)
from maitred.catalog.sync import CountTokens, DiscoveredServer, failure, plan, removal
from maitred.catalog.verification import Comparison, VerifiedConnections
from maitred.errors import MaitredError, ServerUnavailableError, StoreError
from maitred.heap import trim_heap
from maitred.model.servers import ServerSpec
from maitred.model.sharing import NO_SHARER, Sharer
from maitred.model.tools import ToolKey
from maitred.model.transports import is_judged
from maitred.storage.leader import Fence, Jobs
from maitred.storage.signals import POLL_S, Signals
from maitred.telemetry.activity import Activity

log = structlog.get_logger(__name__)

_MANY: Final = 20
_DEBOUNCE_S = 0.1
_MAX_DEBOUNCE_S = 600.0
_OTHERS_S: Final = 60.0
"""How long a discovery waits for another process that discovers the same server."""
_REST: Final = 4.0
"""The pause after a refresh, in times that it took."""
_MOST_ALARMS = 1_000
MOST_AT_ONCE: Final = 16
"""Servers that are discovered at a time. More would wait for their judgement, with all that they publish."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of one discovery of a server. `error` is empty when it succeeded."""

    server: str
    tools: int = 0
    changed: int = 0
    removed: int = 0
    error: str = ""
    notes: tuple[str, ...] = ()


class Discoverer(anyio.AsyncContextManagerMixin):
    """Runs discoveries for a gateway, which passes on the events of the pool.

    Without `retries`, it does not ask a server by itself that failed when it was asked last.
    """

    def __init__(
        self,
        catalog: LiveCatalog,
        pool: ServerPool,
        count: CountTokens,
        admitter: Admitter,
        *,
        most_at_once: int = MOST_AT_ONCE,
        retries: bool = True,
        activity: Activity | None = None,
        signals: Signals | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        self._catalog, self._pool, self._activity = catalog, pool, activity or Activity()
        self._retries = retries
        self._count = count
        self._admitter = admitter
        self._specs: Mapping[str, ServerSpec] = {}
        self._placer: Placer | None = None
        self._mender: ToolMediator | None = None
        self._background = Background()
        self._brought = ResultToolStore()
        self.connections = VerifiedConnections(pool, self._compare)
        """For calls: lends a connection once the server's lists were compared with the catalog."""
        self._turns = anyio.Semaphore(most_at_once)
        self._busy: set[str] = set()
        self._transient: dict[str, frozenset[ToolKey]] = {}
        self._again: set[tuple[str, str]] = set()
        self._false_alarms: dict[tuple[str, str], tuple[float, float]] = {}
        self._ended = anyio.Event()
        self._settled = anyio.Event()
        self._settled.set()
        self._placed = anyio.Event()
        self._placed.set()
        self.discovering: set[str] = set()
        self._most_discovering = 0
        self._on_settled: list[Callable[[], None]] = []
        self._on_synced: list[Callable[[str], None]] = []
        self._jobs = jobs
        self._news = (signals or Signals()).subscribe("catalog")

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with self._background:
            self._background.start(self._follow_other_processes)
            yield self

    async def configure(self, specs: Mapping[str, ServerSpec], placer: Placer, mender: ToolMediator) -> None:
        """Forget servers that are not configured any more; discover unknown ones in the background.

        If the rules of `mender` or `placer` have changed, all tools are mended and placed again.
        """
        self._specs = specs
        self._placer = placer
        self._mender = mender
        for name in self._transient.keys() - specs.keys():
            del self._transient[name]
        for name in self._brought.servers:
            if name not in specs or not specs[name].result_tools:
                self._brought.forget(name)
                self.connections.announce(name)
                self._schedule(name, "", 0.0)

        async def forget(snapshot: Snapshot) -> Change:
            return removal(snapshot, specs)

        await self._catalog.change(forget)
        snapshot = self._catalog.snapshot
        as_before = (snapshot.placed_by, snapshot.mended_by) == (placer.fingerprint, mender.fingerprint)
        if self._background.is_open and not as_before:
            self._placed = anyio.Event()
            self._background.start(self._arrange, placer, mender, self._placed)
        for name in self.unknown():
            if not self._retries and name in self.failed():
                continue
            if self._background.is_open and name not in self._busy and name not in self.discovering:
                self.discovering.add(name)
                self._most_discovering = max(self._most_discovering, len(self.discovering))
                if self._settled.is_set():  # else a caller may be waiting for it
                    self._settled = anyio.Event()
                self._background.start(self._discover, name)

    def unknown(self) -> list[str]:
        """Usable servers whose tools the catalog does not know, or knows only from another configuration.

        Servers whose tools were never judged count too, as in a catalog of an older version.
        """
        records = self._catalog.snapshot.servers
        return [
            name
            for name, spec in self._specs.items()
            if spec.usable
            and (
                (record := records.get(name)) is None
                or record.fingerprint != spec.fingerprint
                or not record.facts.era
                or (not record.judged_by and is_judged(spec.transport))
            )
        ]

    def failed(self) -> list[str]:
        """Usable servers whose tools are not known because they failed when they were asked last."""
        records = self._catalog.snapshot.servers
        return [
            name
            for name in self.unknown()
            if (record := records.get(name)) is not None
            and record.error
            and record.fingerprint == self._specs[name].fingerprint
        ]

    def listen(
        self, *, settled: Callable[[], None] | None = None, synced: Callable[[str], None] | None = None
    ) -> None:
        """Register functions to call, which must not block.

        `settled` is called when the last first discovery has ended, since a list may depend on it. `synced`
        is called with each server whose tools have changed.
        """
        self._on_settled += [settled] if settled else []
        self._on_synced += [synced] if synced else []

    async def settled(self, timeout_s: float) -> bool:
        """Wait until no first discovery is running; false when it takes longer."""
        with anyio.move_on_after(timeout_s):
            await self._settled.wait()
        return self._settled.is_set()

    async def placed(self, timeout_s: float) -> bool:
        """Wait until no tools are being placed by changed rules; false when it takes longer."""
        with anyio.move_on_after(timeout_s):
            await self._placed.wait()
        return self._placed.is_set()

    async def discovered(self, server: str, timeout_s: float) -> None:
        """Wait until the first discovery of a server has ended, for at most `timeout_s` seconds."""
        with anyio.move_on_after(timeout_s):
            while server in self.discovering:
                await self._ended.wait()

    async def catch_up(self, tool: str = "") -> None:
        """Wait a moment for tools of what a call opened just now, such as a web page, and list them.

        It waits until there is a tool of the name `tool`, if that is not empty.
        """
        for server in tuple(self._transient):
            own = tool.removeprefix(prefix(server))
            await self._pool.settle(server, own)
            async with self.connections.turn(server):
                if await self._pool.settle(server, own):  # else another task has listed them
                    await self.sync(server)

    async def _discover(self, name: str) -> None:
        try:
            async with self._turns, self._job(name) as fence:
                if not fence or not fence.has_waited or name in await self._unknown_now():
                    await self.sync(name, fence=fence)
            if len(self.discovering) == 1 and self._most_discovering >= _MANY:
                await to_thread.run_sync(trim_heap)  # many servers needed much memory for a while
        finally:
            self.discovering.discard(name)
            if not self.discovering:
                self._most_discovering = 0
                self._settled.set()
                for listener in self._on_settled:
                    listener()
            ended, self._ended = self._ended, anyio.Event()
            ended.set()

    def _job(self, name: str) -> AbstractAsyncContextManager[Fence | None]:
        """The first discovery of a server: one process does it, and others take over what it found."""
        if self._jobs is None or not self._jobs.end_with_process:  # callers do not wait for a lease to end
            return nullcontext()
        return self._jobs.run(f"discover {name}", wait_s=_OTHERS_S)

    async def _unknown_now(self) -> list[str]:
        """Servers that no other process has discovered, either."""
        await self._catalog.refresh()
        return self.unknown()

    def started(self, server: str, key: str = "") -> None:
        """A server was started for a call. Check whether its tools still agree with the catalog."""
        if not key:
            self._brought.forget(server)
        if key or server not in self._busy:
            self._schedule(server, key, _DEBOUNCE_S)

    def tools_changed(self, server: str, key: str = "") -> None:
        """A server announced a change. Repeated false announcements are checked less and less often."""
        self.connections.announce(server, key)
        at, pause_s = self._false_alarms.get((server, key), (0.0, 0.0))
        again = pause_s > 0 and time.monotonic() - at < 2 * pause_s + 1
        self._schedule(server, key, min(pause_s * 2, _MAX_DEBOUNCE_S) if again else _DEBOUNCE_S)

    def offers_changed(self, server: str, key: str = "") -> None:
        """A server announced other resources or prompts. They are listed together with its tools."""
        self.tools_changed(server, key)

    def _schedule(self, server: str, key: str, pause_s: float) -> None:
        if (server, key) in self._again or not self._background.is_open:
            return
        self._again.add((server, key))
        self._background.start(self._sync_soon, server, key, pause_s)

    async def _sync_soon(self, server: str, key: str, pause_s: float) -> None:
        await anyio.sleep(pause_s)  # several notices in a row are one change
        self._again.discard((server, key))
        async with self.connections.turn(server):
            loan = self._pool.open_connection(server, key)
            if loan is None:
                return  # its next start lists it anyway
            notes = self._notes_of(server)
            report = await self._sync_if_stale(server, key, loan)
        if report is None:
            return
        if report.changed or report.removed or self._notes_of(server) != notes:
            self._false_alarms.pop((server, key), None)
        else:
            self._false_alarms[server, key] = (time.monotonic(), pause_s)
            while len(self._false_alarms) > _MOST_ALARMS:
                del self._false_alarms[next(iter(self._false_alarms))]

    def _notes_of(self, server: str) -> Sequence[str]:
        record = self._catalog.snapshot.servers.get(server)
        return record.notes if record else ()

    async def _sync_if_stale(
        self, server: str, key: str, loan: AbstractAsyncContextManager[Connection]
    ) -> Report | None:
        """List the tools of an open instance, unless a call did that since they changed."""
        try:
            async with loan as connection:
                if self.connections.is_current(server, connection, key):
                    return None
                return await self.sync(server, on=connection, key=key)
        except ServerUnavailableError:
            return None  # it ended meanwhile

    async def sync_all(
        self, names: Sequence[str], sharer: Sharer = NO_SHARER, *, asker: Sharer = NO_SHARER
    ) -> list[Report]:
        """Discover several servers at once; the pool bounds how many start at a time.

        A server that could not be listed yet is listed on the instance that serves `sharer`. One where each
        principal has its own login is listed with that of `asker`.
        """
        reports: dict[str, Report] = {}

        async def one(name: str) -> None:
            spec = self._specs.get(name)
            whose = asker if spec and spec.is_personal else sharer
            has_own = spec is not None and (spec.is_personal or not self._is_listed(spec))
            key = self._pool.key(name, whose) if has_own else ""
            if key:
                await self._sync_for(name, whose, key, reports)
            else:
                async with self._turns:
                    reports[name] = await self.sync(name)

        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(one, name)
        return [reports[name] for name in names]

    def list_for(self, sharer: Sharer, names: Sequence[str]) -> None:
        """List servers in the background, with the tokens of a principal; others could not list them."""
        for name in names:
            key = self._pool.key(name, sharer)
            if key and name not in self._busy and self._background.is_open:
                self._busy.add(name)
                self._background.start(self._list_for, name, sharer, key)

    async def _list_for(self, server: str, sharer: Sharer, key: str) -> None:
        try:
            async with self._turns:
                await self._sync_for(server, sharer, key, {})
        finally:
            self._busy.discard(server)

    async def _sync_for(self, server: str, sharer: Sharer, key: str, reports: dict[str, Report]) -> None:
        try:
            async with self._pool.connection(server, sharer, patient=True) as connection:
                reports[server] = await self.sync(server, on=connection, key=key)
        except ServerUnavailableError as error:
            reports[server] = Report(server=server, error=error.reason)

    async def sync(
        self, server: str, *, on: Connection | None = None, key: str = "", fence: Fence | None = None
    ) -> Report:
        """List a server's tools and update the catalog. A failure is recorded, and reported.

        They are listed `on` a connection to the instance of a share key, or else on the default one, which is
        started. An instance for some clients changes and adds tools. It removes none, and its resources and
        prompts stay its own. With a `fence`, it is the job of this process as long as the fence holds.
        """
        spec = self._specs.get(server)
        if spec is None:
            return Report(server=server, error="it is not configured")
        if spec.withheld:
            return Report(server=server, error=f"it {spec.withheld}")
        try:
            with self._activity.discovery(server):
                comparison, found, published = await self._listed(spec, on, key)
                change = await self._compared(spec, comparison, found, published, fence)
        except MaitredError as error:
            return await self._failed(spec, error, key)
        changed = len([tool for tool in change.tools if tool.server == server])
        if changed or change.removed_tools:
            for listener in self._on_synced:
                listener(server)
        return Report(
            server=server,
            tools=len(found.tools),
            changed=changed,
            removed=len(change.removed_tools),
            notes=change.servers[0].notes if change.servers else (),
        )

    async def _compared(
        self,
        spec: ServerSpec,
        comparison: Comparison,
        found: DiscoveredServer,
        published: PublishedDefinition,
        fence: Fence | None,
    ) -> Change:
        """Judge a server's lists, and write the result.

        If the operator decides about the server meanwhile, they are judged again.
        """
        overtaken, change = True, Change()

        async def planned(snapshot: Snapshot) -> Change:
            nonlocal overtaken
            overtaken = False
            if not self._is_current(spec):
                return Change()  # the configuration changed in the meantime
            if not await self._admitter.holds(spec, withheld):  # the operator decided while it was judged
                overtaken = True
                return Change()
            change = await plan(snapshot, mark_withheld(found, withheld), self._count)
            if self._mender:
                change = await with_mendings(snapshot, change, [spec.name], self._mender, self._count)
            placer = self._placer
            return await with_placements(snapshot, change, spec.name, placer) if placer else change

        while overtaken:  # the catalog's lock is free during the judgement
            withheld = await self._admitter.admit(spec, published)
            try:
                change = await self._catalog.change(planned, fence=fence)
            finally:  # even if a full disk prevents writing again what is known already
                if not overtaken and self._agrees(spec, withheld):
                    self.connections.complete(comparison)
        return change

    def _is_current(self, spec: ServerSpec) -> bool:
        """Whether a specification is that of now, whenever the server was approved first."""
        now = self._specs.get(spec.name)
        return now is not None and replace(now, approved_at=spec.approved_at) == spec

    def _agrees(self, spec: ServerSpec, withheld: WithheldParts) -> bool:
        """Whether the catalog has the result of this judgement."""
        record = self._catalog.snapshot.servers.get(spec.name)
        if record is None or not self._is_current(spec):
            return False
        return (record.judged_by, record.fingerprint) == (withheld.judged_by, spec.fingerprint)

    async def _compare(self, server: str, connection: Connection, key: str) -> str:
        return (await self.sync(server, on=connection, key=key)).error

    async def remend(self, servers: Sequence[str]) -> None:
        """Mend and place the tools of servers again, since more is known of them than before.

        Raises:
            StoreError: The result cannot be stored.
        """

        async def planned(snapshot: Snapshot) -> Change:
            mender, placer = self._mender, self._placer
            if mender is None or placer is None:
                return Change()
            known = [server for server in servers if server in snapshot.by_server]
            change = await with_mendings(snapshot, Change(), known, mender, self._count)
            for server in sorted({tool.server for tool in change.tools}):
                change = await with_placements(snapshot, change, server, placer)
            return change

        await self._catalog.change(planned)

    async def bring(self, server: str, definitions: Sequence[Any]) -> Sequence[ToolKey]:
        """Add tools from a result of a server, for as long as it runs; returns the keys of those added.

        If the server's list is what is open now, such as that of web pages, a result adds nothing to it. It
        names tools that the server lists by then.
        """
        if server in self._transient:
            await self.sync(server)
            named, _ = read_tools(server, definitions)
            return [tool.key for tool in named if tool.key in self._catalog.snapshot.by_key]
        keys, fresh = self._brought.take(server, definitions)
        known = self._catalog.snapshot.by_key
        if fresh or not all(key in known for key in keys):  # another result may have brought them just now
            await self.sync(server)
        return keys

    async def _listed(
        self, spec: ServerSpec, on: Connection | None, key: str
    ) -> tuple[Comparison, DiscoveredServer, PublishedDefinition]:
        """What an instance offers now; see `sync`."""
        if on is not None:
            return await self._ask(spec, on, key)
        self._busy.add(spec.name)
        try:
            async with self._pool.connection(spec.name, patient=True) as connection:
                return await self._ask(spec, connection, "")
        finally:
            self._busy.discard(spec.name)

    async def _ask(
        self, spec: ServerSpec, connection: Connection, key: str
    ) -> tuple[Comparison, DiscoveredServer, PublishedDefinition]:
        """What a server offers now, cleaned and as it was sent."""
        comparison = self.connections.begin(spec.name, connection, key)
        listing = await connection.list_tools()
        is_part = (key != "" or listing.is_silent) and self._is_listed(spec)
        self._transient.pop(spec.name, None)
        if listing.transient:
            self._transient[spec.name] = frozenset(tool.key for tool in listing.tools)
        more = ServerOffers() if is_part else await connection.list_offers()
        offers = [offer for offer in more.offers if not key or offer.key.kind != "resource"]
        tools = self._brought.beside(spec.name, listing.tools)
        discovery = DiscoveredServer(
            spec=spec,
            facts=connection.facts,
            tools=tools,
            offers=offers,
            notes=(*listing.notes, *more.notes),
            is_part=is_part,
            gone=listing.gone,
        )
        published = PublishedDefinition(
            tools=listing.as_sent,
            brought=tools[len(listing.tools) :],
            offers=more.as_sent,
            title=connection.title_as_sent,
            instructions=connection.instructions_as_sent,
            is_part=is_part or listing.transient,
        )
        return comparison, discovery, published

    def _is_listed(self, spec: ServerSpec) -> bool:
        """Whether the catalog knows the lists of a server as it is configured now."""
        record = self._catalog.snapshot.servers.get(spec.name)
        return record is not None and record.fingerprint == spec.fingerprint and bool(record.judged_by)

    async def _failed(self, spec: ServerSpec, error: MaitredError, key: str) -> Report:
        # the rest of such an error concerns only the caller of that moment
        reason = error.reason if isinstance(error, ServerUnavailableError) else str(error)
        log.info("discovery failed", server=spec.name, reason=reason)
        if key:  # the server may do well for others
            return Report(server=spec.name, error=reason)

        async def record(snapshot: Snapshot) -> Change:
            return failure(snapshot, spec, reason)

        try:
            await self._catalog.change(record)
        except StoreError as fault:
            log.warning("the failure cannot be recorded", server=spec.name, reason=fault.reason)
        return Report(server=spec.name, error=reason)

    async def _arrange(self, placer: Placer, mender: ToolMediator, done: anyio.Event) -> None:
        """Mend and place every tool by changed rules."""

        async def mended(snapshot: Snapshot) -> Change:
            current = mender is self._mender
            return await remending(snapshot, mender, self._count) if current else Change()

        async def placed(snapshot: Snapshot) -> Change:
            current = placer is self._placer
            return await replacement(snapshot, placer, again=bool(fresh.tools)) if current else Change()

        try:
            fresh = await self._catalog.change(mended)
            await self._catalog.change(placed)
        except StoreError as error:
            log.warning("mended tools and their categories cannot be stored", reason=error.reason)
        finally:
            done.set()

    async def _follow_other_processes(self) -> None:
        """Notice what other processes write to the same catalog, at once where the database tells of it.

        Of many changes in a row some are read together: reading takes a fifth of the time at most.
        """
        while True:
            await self._news.wait()
            started = anyio.current_time()
            try:
                await self._catalog.refresh()
                self._list_again_what_another_removed()
            except StoreError as error:
                log.warning(
                    "the catalog cannot be read; the gateway serves what it knows", reason=error.reason
                )
            await anyio.sleep(min(_REST * (anyio.current_time() - started), POLL_S))

    def _list_again_what_another_removed(self) -> None:
        """List transient tools once more that another process, at its start, took for those of a dead one."""
        for server, keys in self._transient.items():
            if not keys <= self._catalog.snapshot.by_key.keys():
                self.tools_changed(server)
