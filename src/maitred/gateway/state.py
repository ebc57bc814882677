"""The state that all parts of the gateway share: settings, catalog, and the visible servers and tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from maitred.backends.base import ServerPool
from maitred.catalog.discovery import Discoverer
from maitred.catalog.live import LiveCatalog
from maitred.catalog.name_forms import servers_named
from maitred.catalog.names import prefix
from maitred.catalog.snapshot import Snapshot
from maitred.config.interpolate import references
from maitred.config.settings import Settings
from maitred.config.subcategories import subcategories_of
from maitred.config.taxonomy import merge_categories
from maitred.disclosure.answers import ServerStatus
from maitred.disclosure.budget import to_o200k_budget
from maitred.disclosure.groups import GroupHeading, group_headings
from maitred.disclosure.server_details import isolation_of
from maitred.errors import ServerUnavailableError
from maitred.model.categories import Category
from maitred.model.servers import Health, ServerRecord, ServerSpec, State
from maitred.model.tools import Tool, ToolKey
from maitred.model.transports import is_composed
from maitred.storage.leader import Jobs
from maitred.usage.observations import ToolObservations
from maitred.usage.prices import PriceList
from maitred.wording import count_of, near_names

STARTING: Final = "still starting"
HIDDEN: Final = "is hidden by an override of the operator"
"""Why a tool that an override hides cannot be called, in words that continue after "it"."""
SWITCHED_OFF: Final = "is switched off by the operator in the configuration"
"""The same for a tool that is not `enabled`."""

_REASON = 200


@dataclass(kw_only=True)
class _OfferedTools:
    """The tools of one snapshot that settings do not hide: `tools` of the servers that may be shown.

    `sizes` are the number of tools and their tokens, by server; `groups` are those of the whole snapshot.
    """

    snapshot: Snapshot | None = None
    revision: int = 0
    servers: frozenset[str] | None = None
    tools: tuple[Tool, ...] = ()
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    groups: Mapping[str, GroupHeading] | None = None


class GatewayState:
    """Answers questions that need the settings, the catalog and the state of the servers together.

    The services of this package have it under the name `context`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        catalog: LiveCatalog,
        pool: ServerPool,
        keeper: Discoverer,
        observations: ToolObservations,
        jobs: Jobs,
    ) -> None:
        self.catalog = catalog
        self.jobs = jobs
        self.pool = pool
        self.keeper = keeper
        self.observations = observations
        self._visible: tuple[object, frozenset[str]] = (None, frozenset())
        self._kept = _OfferedTools()
        self.revision = 0  # counts settings: a later object may have the identity of a former one
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Apply new settings."""
        self.settings = settings
        self.revision += 1
        self.categories: Sequence[Category] = merge_categories(settings.categories)
        self.subcategories = {one.name: one for one in subcategories_of(self.categories)}
        self.approved_at = {s.name: s.approved_at for s in settings.servers.values() if s.approved_at}
        self._prices = PriceList(settings.usage)
        self.switched_off = frozenset(key for key, choice in settings.tools.items() if not choice.enabled)

    def price_of_call(self, key: ToolKey) -> int:
        """What a call of a tool costs by the present settings, in millionths of the currency."""
        return self._prices.of_call(key)

    @property
    def snapshot(self) -> Snapshot:
        """The present snapshot of the catalog."""
        return self.catalog.snapshot

    def budget(self, tokens: int) -> int:
        """A budget in o200k tokens, for the family of models that is configured."""
        return to_o200k_budget(tokens, self.settings.disclosure.model_family)

    # --- servers ------------------------------------------------------------------------------------------

    def servers(self) -> list[ServerStatus]:
        """All configured servers in the order of the configuration."""
        health = self.pool.health()
        snapshot = self.snapshot
        return [
            self._status(spec, health.get(name) or Health(), snapshot)
            for name, spec in self.settings.servers.items()
        ]

    def spec(self, server: str) -> ServerSpec:
        """The present specification of a server.

        Raises:
            ServerUnavailableError: It is not configured any more.
        """
        try:
            return self.settings.servers[server]
        except KeyError:
            raise ServerUnavailableError(server, "it is not configured any more") from None

    def status(self, server: str) -> ServerStatus:
        """One configured server."""
        health = self.pool.health().get(server) or Health()
        return self._status(self.settings.servers[server], health, self.snapshot)

    def _status(self, spec: ServerSpec, health: Health, snapshot: Snapshot) -> ServerStatus:
        record = snapshot.servers.get(spec.name) or ServerRecord(name=spec.name, fingerprint="")
        tools, tokens = self._size_of(spec.name)
        if spec.withheld and not spec.suspended:
            health = Health()  # the catalog may know another server that had this name
        return ServerStatus(
            spec=spec,
            health=replace(health, state=State.SUSPENDED) if spec.suspended else health,
            facts=record.facts,
            tools=tools,
            cost_tokens=tokens,
            synced_at=record.synced_at,
            error=record.error,
            notes=record.notes,
            withheld=_why_withheld(spec, health),
            withheld_parts=snapshot.withheld_parts.get(spec.name, 0),
            isolation=health.cage
            or isolation_of(spec, jails_programs=self.settings.isolation.jail != "none"),
            sharing=self.pool.sharing(spec.name),
            instances=self.pool.instances(spec.name),
        )

    def near_servers(self, name: str) -> list[str]:
        """Paths of servers that a mistaken name may have meant."""
        return [f"server/{near}" for near in near_names(name, self.settings.servers)]

    def is_composed(self, server: str) -> bool:
        """Whether a call of a server's tools consists of calls of other tools."""
        spec = self.settings.servers.get(server)
        return spec is not None and is_composed(spec.transport)

    def why_not_callable(self, server: str, tool: str) -> str:
        """Why the gateway cannot run a tool, by its raw name; empty if it can, or if the gateway cannot know.

        This may read a file.
        """
        spec = self.settings.servers.get(server)
        is_own = spec is not None and (spec.pages is not None or is_composed(spec.transport))
        return self.pool.why_not_callable(server, tool) if is_own else ""

    def needs(self, server: str) -> Sequence[str]:
        """The names of the variables and files that a server's configuration refers to."""
        spec = self.settings.servers.get(server)
        if spec is None:
            return ()
        texts = [*spec.env.values(), *spec.headers.values(), *spec.args, spec.url]
        return list(dict.fromkeys(name for text in texts for name in references(text)))

    # --- visible servers and tools ------------------------------------------------------------------------

    def is_enabled(self, server: str) -> bool:
        """Whether a server is configured, not switched off and not withheld."""
        spec = self.settings.servers.get(server)
        return spec is not None and spec.usable

    def why_closed(self, server: str) -> str:
        """Why a server that is not enabled may not be used, as a sentence about it."""
        spec = self.settings.servers.get(server)
        if spec is None:
            return f"its server {server!r} is not configured any more"
        return f"its server {server!r} {spec.withheld or 'is disabled in the configuration'}"

    def reasons(self) -> dict[str, str]:
        """Each server with the reason why its tools may not be shown now; empty if they may."""
        refused = self.pool.refused()
        well = Health()
        specs = self.settings.servers
        return {name: _why_withheld(spec, refused.get(name, well)) for name, spec in specs.items()}

    def reason(self, server: str) -> str:
        """Why the tools of one server may not be shown now; empty if they may, or it is not configured."""
        spec = self.settings.servers.get(server)
        return _why_withheld(spec, self.pool.refusal(server) or Health()) if spec else ""

    @property
    def visible(self) -> frozenset[str]:
        """The servers whose tools may be shown now."""
        key = (self.revision, frozenset(self.pool.refused()))
        if self._visible[0] != key:
            shown = frozenset(name for name, why in self.reasons().items() if not why)
            self._visible = (key, shown)
        return self._visible[1]

    def listable(self) -> list[Tool]:
        """All tools that a list may have, by published name, whatever the state of their servers."""
        return [
            tool for tool in self.snapshot.tools if self.is_enabled(tool.server) and not self.is_hidden(tool)
        ]

    def visible_tools(self) -> list[Tool]:
        """All tools that may be shown, by published name."""
        shown, visible = self._offered(), self.visible
        if shown.servers is not visible:
            tools = [one for one in self.snapshot.tools if one.server in visible and not self.is_hidden(one)]
            shown.servers, shown.tools = visible, tuple(tools)
        return list(shown.tools)

    @property
    def groups(self) -> Mapping[str, GroupHeading]:
        """The groups of tools that were proposed, by name."""
        kept = self._offered()
        if kept.groups is None:
            names = {category.name for category in self.categories}
            tools = [tool for tool in self.snapshot.tools if not self.is_hidden(tool)]
            kept.groups = group_headings(tools, names | self.subcategories.keys())
        return kept.groups

    def _size_of(self, server: str) -> tuple[int, int]:
        """The number of tools of a server that are not hidden, and their tokens."""
        sizes = self._offered().sizes
        if server not in sizes:
            tools = [one for one in self.snapshot.by_server.get(server, ()) if not self.is_hidden(one)]
            sizes[server] = (len(tools), sum(tool.cost_tokens for tool in tools))
        return sizes[server]

    def _offered(self) -> _OfferedTools:
        """What is kept of the present snapshot and settings."""
        snapshot, kept = self.snapshot, self._kept
        if kept.snapshot is not snapshot or kept.revision != self.revision:
            kept = self._kept = _OfferedTools(snapshot=snapshot, revision=self.revision)
        return kept

    def is_hidden(self, tool: Tool) -> bool:
        """Whether no caller may find or call a tool; `why_hidden` says why."""
        return bool(self.why_hidden(tool))

    def why_hidden(self, tool: Tool) -> str:
        """Why no caller may find or call a tool, in words that continue after "it"; empty if it is offered.

        The operator switched it off, admission withholds it, or an override hides it.
        """
        if self.switched_off and tool.key in self.switched_off:  # to hash a key takes longest here
            return SWITCHED_OFF
        return tool.withheld or (HIDDEN if tool.mending is not None and tool.mending.hidden else "")

    def why_not_known(self, server: str) -> str:
        """Why no tool of a server can be found yet; empty if its tools are known."""
        if server in self.snapshot.known:
            return ""
        record = self.snapshot.servers.get(server)
        if server in self.keeper.discovering:
            return STARTING
        known = record.error if record else ""
        why = known or (self.pool.health().get(server) or Health()).error or "never started"
        return f"not known yet: {why}"[:_REASON]

    def why_unknown(self, name: str) -> str:
        """Why the server in a name has no known tools; empty if it has tools, or there is no such server."""
        named = servers_named(name, self.settings.servers)
        for server in named:
            if why := self.why_not_callable(server, name.removeprefix(prefix(server))):
                return why
        for status in self.servers():
            if status.name in named and not status.facts.era:
                decided = self.settings.servers[status.name].withheld  # it begins with a verb
                why = decided or f"is {status.withheld or self.why_not_known(status.name)}"
                return f"its server {status.name!r} {why}"
        return ""


def without_texts(tool: Tool) -> Tool:
    """A tool without its server's texts if admission withholds it; any other tool unchanged."""
    if not tool.withheld:
        return tool
    nothing: dict[str, Any] = {"annotations": {}, "extra": {}, "use_cases": (), "mending": None}
    return replace(tool, title="", description="", input_hash="", output_hash="", **nothing)


def _why_withheld(spec: ServerSpec, health: Health) -> str:
    if spec.withheld:
        return spec.withheld
    if not spec.enabled:
        return "disabled in the configuration"
    if health.state is State.SUSPENDED:
        return f"suspended: {health.error}"[:_REASON]
    if health.retry_in_s is not None:
        again = f"tried again in {health.retry_in_s:.0f} s"
        return f"failed {count_of(health.failures, 'time')}, {again}: {health.error}"[:_REASON]
    return ""
