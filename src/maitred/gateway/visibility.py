"""Which tools make sense now for which viewer: stores declared facts of servers, and evaluates their rules.

Facts follow the share key of the instance that serves the viewer (`maitred.model.sharing`). Where all clients
share one instance, each principal has its own facts, in the handshake era each connection. When an instance
restarts, its facts start again, since it has lost its state. A server may report its facts itself: those
belong to the instance, and calls change none. The rules themselves are pure
(`maitred.visibility.visibility`). A gateway whose servers declare no rules has no cost from this module.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

import anyio
import structlog
from cachetools import LRUCache

from maitred.backends.listing import clean
from maitred.catalog.snapshot import Snapshot
from maitred.errors import ToolWithheldError
from maitred.gateway.shared_facts import SharedFacts, facts_from_wire, is_known_everywhere
from maitred.gateway.state import GatewayState
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.servers import Health, State
from maitred.model.sharing import sharer_of
from maitred.model.tools import Tool, ToolKey
from maitred.model.transports import reports_facts
from maitred.visibility.facts import BUILT_IN, Facts, after_call, built_in
from maitred.visibility.visibility import HiddenReason, VisibilityTable, became_visible

log = structlog.get_logger(__name__)

Cause = Literal["call", "report", "restart", "state", "rules", "time"]
"""Why other tools of a server make sense than before."""
ChangeWatcher = Callable[[str, Cause], None]
"""Hears of each change of what is visible: the server, and the cause."""

_NOTHING: Final[frozenset[ToolKey]] = frozenset()
_STABLE: Final = frozenset({"era", "roles"})
_MOST_SCOPES: Final = 10_000
_MOST_SETS: Final = 200
_HEALTH: Final = frozenset({"server.healthy", "server.state"})
_RUNNING: Final = frozenset({State.STARTING, State.READY})
_TEXT: Final = 400
_MOST_NAMES: Final = 20
_REQUIREMENT: Final = 80
_TIME: Final = frozenset({"time.hour", "time.weekday"})

Scope = tuple[str, str]
_BY_KEY: Final = "\0shared"
"""Stands for the principal in the scope of facts that belong to a share key."""


class VisibilityService:
    """Answers for viewers. `changed` is called when the set of tools that a viewer sees may have changed.

    `outside` returns the tools outside the scope of a viewer.
    """

    def __init__(
        self,
        context: GatewayState,
        outside: Callable[[Viewer], frozenset[ToolKey]],
        changed: Callable[[], None],
        *,
        shared: SharedFacts | None = None,
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        self._context = context
        self._outside = outside
        self._changed = changed
        self._now = now
        self._shared = shared
        if shared is not None:
            shared.follow(self._heard)
        self._tables: Mapping[str, VisibilityTable] = {}
        self._begun: Mapping[str, Facts] = {}
        self._reads: Mapping[str, frozenset[str]] = {}
        self._facts: LRUCache[Scope, dict[str, Facts]] = LRUCache(_MOST_SCOPES)
        self._sets: LRUCache[object, frozenset[ToolKey]] = LRUCache(_MOST_SETS)
        self._of: object = None
        self._watchers: list[ChangeWatcher] = []
        self._compared: dict[str, tuple[Sequence[str], frozenset[str]]] = {}

    # --- declarations -------------------------------------------------------------------------------------

    @property
    def tables(self) -> Mapping[str, VisibilityTable]:
        """The declarations, by server."""
        return self._tables

    def use(self, tables: Mapping[str, VisibilityTable]) -> None:
        """Apply new declarations. A server's facts start again if it declares other facts, else they stay."""
        for server, table in self._tables.items():
            if server not in tables or tables[server].declared.facts != table.declared.facts:
                for facts in self._facts.values():
                    facts.pop(server, None)
        before = {server: self._at_start(server) for server in self._tables}
        self._tables = tables
        self._begun = {server: table.declared.initial() for server, table in tables.items()}
        self._reads = {server: _built_in_reads(table) for server, table in tables.items()}
        self._sets.clear()
        self._changed()
        for server in before.keys() | tables.keys():
            every = frozenset(self._names(server))
            now = self._at_start(server) if server in tables else every
            self._note(server, before.get(server, every), now, "rules", "its rules changed")
        self._compare_from_now()

    def restarted(self, server: str, key: str = "") -> None:
        """An instance has restarted, and so its facts start again."""
        others = [scope for scope in self._facts if scope[0] != _BY_KEY]
        scopes = [(_BY_KEY, key), *([] if key else others)]
        gone = {s: self._facts[s].pop(server) for s in scopes if server in self._facts.get(s, ())}
        if self._shared is not None:
            self._shared.drop(server, [scope for scope in gone if is_known_everywhere(scope)])
        if gone:
            self._changed()
        for (principal, _), facts in gone.items() if server in self._tables else ():
            before, now = self._shown(server, facts), self._at_start(server)
            whose = "" if principal == _BY_KEY else principal
            self._note(server, before, now, "restart", "its instance ended or started again", whose)

    def health_changed(self, server: str, key: str = "") -> None:
        """If an instance has stopped or failed, its facts start again."""
        if server in self._tables:
            state = self._context.pool.state(server, key)
            if state not in _RUNNING:
                self.restarted(server, key)
            if not key and not _HEALTH.isdisjoint(self._reads[server]):
                self._look(server, "state", f"its server is {state.value}")

    def reported(self, server: str, facts: Mapping[str, Any], key: str) -> None:
        """An instance has reported its facts; those that it does not name have their first values."""
        if server not in self._tables:
            return
        begun = self._begun[server].values
        values = {name: facts.get(name, value) for name, value in begun.items()}
        known = self._facts.setdefault((_BY_KEY, key), {})
        before = self._shown(server, known.get(server, self._begun[server]))
        known[server] = Facts(values=values)
        self._changed()
        self._note(server, before, self._shown(server, known[server]), "report", "facts that it reported")

    def forget(self, scope: Scope) -> None:
        """A connection has ended."""
        self._facts.pop(scope, None)

    def _scope(self, viewer: Viewer, server: str) -> Scope:
        """Under what the facts of a server are stored for a viewer."""
        pool = self._context.pool
        if pool.sharing(server).share == "all" and not self._reports(server):
            return viewer.scope
        return _BY_KEY, pool.key(server, sharer_of(viewer))

    def unmatched(self, snapshot: Snapshot) -> Mapping[str, Sequence[str]]:
        """By server, the tools in its declarations that it does not have."""
        known = {server: [t.key.name for t in snapshot.by_server.get(server, ())] for server in self._tables}
        return {server: self._tables[server].unmatched(tools) for server, tools in known.items() if tools}

    # --- hidden tools -------------------------------------------------------------------------------------

    def hidden(self, viewer: Viewer) -> frozenset[ToolKey]:
        """The tools that make no sense for a viewer now."""
        return self._without(viewer, _visible) if self._tables else _NOTHING

    def unlisted(self, viewer: Viewer) -> frozenset[ToolKey]:
        """The tools that a viewer's lists leave out.

        A connection of the handshake era gets a notice when its lists change. In the stateless era, calls
        must not change lists. There rules hide a tool by era and roles alone.
        """
        outside = self._outside(viewer)
        if not self._tables or self._context.settings.visibility.mode == "all":
            return outside
        hidden = self._without(viewer, _visible if viewer.era == "handshake" else _listed)
        return hidden | outside if outside else hidden

    def requirement(self, tool: Tool, viewer: Viewer) -> str:
        """What a tool needs, in a few words, for a viewer whose list always shows it; else empty."""
        table = self._tables.get(tool.server)
        fixed = viewer.era != "handshake" or self._context.settings.visibility.mode == "all"
        if table is None or not fixed:
            return ""
        text = " ".join(clean(table.requirement(tool.key.name, _STABLE)).split())
        return text if len(text) <= _REQUIREMENT else f"{text[: _REQUIREMENT - 1]}…"

    def why_hidden(self, tool: Tool, viewer: Viewer) -> str:
        """Why a tool makes no sense for a viewer now, and what to do; empty if it does."""
        table = self._tables.get(tool.server)
        if table is None:
            return ""
        named = partial(_published, self._context.snapshot, tool.server)
        found: HiddenReason | None = table.why_hidden(tool.key.name, self._moment(viewer, tool.server), named)
        return " ".join(clean(found.text).split())[:_TEXT] if found else ""

    def check(self, tool: Tool, viewer: Viewer, arguments: Mapping[str, Any]) -> None:
        """Refuse a call of a tool that makes no sense now.

        Raises:
            ToolWithheldError: It says why, and what to do.
        """
        why = self.why_hidden(tool, viewer)
        if why and not self._tables[tool.server].leaves_to_server(tool.key.name, arguments):
            raise ToolWithheldError(tool.name, f"it {why}")

    # --- facts of several gateways ------------------------------------------------------------------------

    def follows_others(self, tool: Tool, viewer: Viewer) -> bool:
        """Whether calls at other gateways change the facts that rules read for a call, too."""
        if self._shared is None or tool.server not in self._tables:
            return False
        return is_known_everywhere(self._scope(viewer, tool.server))

    async def catch_up(self, tool: Tool, viewer: Viewer) -> None:
        """Read what calls at other gateways changed; while the store is away, the facts stay as they were."""
        if self._shared is not None:
            scope = self._scope(viewer, tool.server)
            found = await self._shared.read(tool.server, scope, self._begun[tool.server])
            if found is not None:
                self._take(tool.server, scope, found)

    async def share(self, tool: Tool, viewer: Viewer) -> bool:
        """Let other gateways know the facts; false if one of them changed these since `catch_up`."""
        if self._shared is None:
            return True
        scope = self._scope(viewer, tool.server)
        return await self._shared.write(tool.server, scope, self._own(viewer, tool.server))

    def _heard(self, server: str, scope: Scope, said: object) -> None:
        """A call at another gateway has changed facts."""
        if server in self._tables:
            begun = self._begun[server]
            self._take(server, scope, begun if said is None else facts_from_wire(said, begun))

    def _take(self, server: str, scope: Scope, facts: Facts) -> None:
        known = self._facts.setdefault(scope, {})
        before = known.get(server, self._begun[server])
        known[server] = facts
        if facts != before:
            self._changed()
            shown, now = self._shown(server, before), self._shown(server, facts)
            self._note(server, shown, now, "call", "a call at another gateway", scope[0])

    # --- calls change facts -------------------------------------------------------------------------------

    def changes(self, tool: Tool) -> bool:
        """Whether a call of a tool may change facts."""
        table = self._tables.get(tool.server)
        if table is None:
            return False
        return self._reports(tool.server) or bool(table.declared.effects(tool.key.name))

    def visible(self, server: str, viewer: Viewer) -> frozenset[str]:
        """The tools of a server that are visible to a viewer now, by their names there."""
        return self._tables[server].visible_set(self._names(server), self._moment(viewer, server))

    def called(
        self,
        tool: Tool,
        viewer: Viewer,
        arguments: Mapping[str, Any],
        result: Mapping[str, Any],
        before: Collection[str],
    ) -> Sequence[str]:
        """Record an answered call; returns the published names of the tools that it made visible.

        `before` are the tools that were visible before the call.
        """
        if not self.changes(tool) or result.get("resultType") == "input_required":
            return ()
        server, snapshot = tool.server, self._context.snapshot
        if not self._reports(server):
            facts = self._own(viewer, server)
            after = after_call(facts, self._tables[server].declared, tool.key.name, arguments, result)
            if after is facts:
                return ()
            before = self.visible(server, viewer)  # other calls may have changed facts meanwhile
            self._keep(viewer, server, after)
            self._changed()  # even if the same tools are visible: the reasons contain facts
        now = self.visible(server, viewer)
        if not self._reports(server):
            self._note(server, before, now, "call", f"a call of {tool.name}", viewer.principal)
        opened = [snapshot.by_key[ToolKey(server=server, name=name)] for name in became_visible(before, now)]
        outside = self._outside(viewer)
        shown = [tool for tool in opened if not self._context.is_hidden(tool)]
        return sorted(tool.name for tool in shown if tool.key not in outside)

    async def keep_time(self) -> None:
        """Evaluate the rules again at every full hour, if they read the time; never returns."""
        while True:
            now = self._now()
            full = (now + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
            await anyio.sleep((full - now).total_seconds() + 0.01)
            timed = [server for server, reads in self._reads.items() if not _TIME.isdisjoint(reads)]
            if timed:
                self._changed()
            for server in timed:
                self._look(server, "time", "the time of day")

    # --- the record of changes ----------------------------------------------------------------------------

    def watch(self, changed: ChangeWatcher) -> None:
        """Call a function after each change of what is visible; it must not block."""
        self._watchers.append(changed)

    def _look(self, server: str, cause: Cause, why: str) -> None:
        """Record what the state of a server or the time changed, for the local user and the first facts."""
        before = self._compared.get(server)
        self._compare_from_now([server])
        if before is not None and before[0] == self._names(server):
            self._note(server, before[1], self._compared[server][1], cause, why)

    def _compare_from_now(self, servers: Iterable[str] | None = None) -> None:
        """Compare the next change of the state of servers, or of the time, with the present."""
        for server in self._tables if servers is None else servers:
            if not (_HEALTH | _TIME).isdisjoint(self._reads[server]):
                self._compared[server] = self._names(server), self._at_start(server)

    def _names(self, server: str) -> Sequence[str]:
        return [known.key.name for known in self._context.snapshot.by_server.get(server, ())]

    def _at_start(self, server: str) -> frozenset[str]:
        """The tools that the first values of all facts show."""
        return self._shown(server, self._begun[server])

    def _shown(self, server: str, facts: Facts) -> frozenset[str]:
        """The tools that these facts show to the local user now."""
        facts = self._with_built_in(server, facts, LOCAL_USER, None)
        return self._tables[server].visible_set(self._names(server), facts)

    def _note(
        self,
        server: str,
        before: Collection[str],
        now: Collection[str],
        cause: Cause,
        why: str,
        principal: str = "",
    ) -> None:
        """Log the tools that are visible or hidden other than before, and notify watchers."""
        shown, hidden = became_visible(before, now), became_visible(now, before)
        if not shown and not hidden:
            return
        log.info(
            "visible tools changed",
            server=server,
            cause=cause,
            reason=why,
            principal=principal,
            shown=shown[:_MOST_NAMES],
            hidden=hidden[:_MOST_NAMES],
            more=max(len(shown) - _MOST_NAMES, 0) + max(len(hidden) - _MOST_NAMES, 0),
        )
        for watcher in self._watchers:
            watcher(server, cause)

    # --- evaluation ---------------------------------------------------------------------------------------

    def _reports(self, server: str) -> bool:
        """Whether a server reports its facts itself."""
        spec = self._context.settings.servers.get(server)
        return spec is not None and reports_facts(spec.transport)

    def _own(self, viewer: Viewer, server: str) -> Facts:
        """The declared facts of a server, as they are for a viewer."""
        found = self._facts.get(self._scope(viewer, server), {}).get(server)
        return found if found is not None else self._begun[server]

    def _keep(self, viewer: Viewer, server: str, facts: Facts) -> None:
        self._facts.setdefault(self._scope(viewer, server), {})[server] = facts

    def _moment(self, viewer: Viewer, server: str, health: Mapping[str, Health] | None = None) -> Facts:
        """All facts of a server for a viewer now; of the built-in ones, those that rules read."""
        return self._with_built_in(server, self._own(viewer, server), viewer, health)

    def _with_built_in(
        self, server: str, facts: Facts, viewer: Viewer, health: Mapping[str, Health] | None
    ) -> Facts:
        reads = self._reads[server]
        if not reads:
            return facts
        known = self._health([server], viewer) if health is None else health
        always = built_in(
            client=viewer.client,
            era=viewer.era,
            roles=viewer.roles,
            state=(known.get(server) or Health()).state,
            now=self._now(),
        )
        return facts.given({name: always[name] for name in reads})

    def _health(self, servers: Iterable[str], viewer: Viewer) -> Mapping[str, Health]:
        """The health of servers as they are for a viewer, if the rules of one of these read it."""
        read = any(not _HEALTH.isdisjoint(self._reads[server]) for server in servers)
        return self._context.pool.health(sharer_of(viewer)) if read else {}

    def _without(
        self, viewer: Viewer, shown: Callable[[VisibilityTable, Facts, Sequence[str]], frozenset[str]]
    ) -> frozenset[ToolKey]:
        """The hidden tools of all servers; cached for the same facts and catalog."""
        snapshot = self._context.snapshot
        if (of := (snapshot.generation, self._context.revision)) != self._of:
            self._of = of
            self._sets.clear()
            self._compare_from_now(
                s for s in self._tables if self._compared.get(s, ((), ()))[0] != self._names(s)
            )
        health = self._health(self._tables, viewer)
        moments = tuple((server, self._moment(viewer, server, health)) for server in self._tables)
        key = (shown, moments)
        try:
            return self._sets[key]
        except KeyError:
            hidden = self._sets[key] = frozenset(
                tool
                for server, facts in moments
                for tool in _left(snapshot, server, partial(shown, self._tables[server], facts))
            )
            return hidden


def _left(
    snapshot: Snapshot, server: str, shown: Callable[[Sequence[str]], frozenset[str]]
) -> Sequence[ToolKey]:
    """The tools of a server without the shown ones."""
    keys = [tool.key for tool in snapshot.by_server.get(server, ())]
    visible = shown([key.name for key in keys])
    return [key for key in keys if key.name not in visible]


def _visible(table: VisibilityTable, facts: Facts, tools: Sequence[str]) -> frozenset[str]:
    return table.visible_set(tools, facts)


def _listed(table: VisibilityTable, facts: Facts, tools: Sequence[str]) -> frozenset[str]:
    return table.listed_set(tools, facts, _STABLE)


def _built_in_reads(table: VisibilityTable) -> frozenset[str]:
    """The built-in facts that rules may read. A rule in Python may read any."""
    return frozenset(BUILT_IN if table.asks_python else BUILT_IN.keys() & table.compiler.reads)


def _published(snapshot: Snapshot, server: str, name: str) -> str:
    tool = snapshot.by_key.get(ToolKey(server=server, name=name))
    return tool.name if tool else name
