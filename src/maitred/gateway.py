"""The gateway: one method for each thing a user can do, and all that the surfaces know.

It answers reads from the catalog's snapshot and never waits for a server to do so; calls go to the servers.
It knows no transport and no protocol: surfaces parse what comes in and print what goes out.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from maitred.backends.base import Progress, ServerPool
from maitred.catalog.keeper import Keeper, Report
from maitred.catalog.live import LiveCatalog
from maitred.catalog.names import prefix
from maitred.catalog.snapshot import Snapshot
from maitred.config.settings import Mode, Settings
from maitred.disclosure import views
from maitred.disclosure.answers import SEARCH_TOKENS, FoundTool, InfoAnswer, SearchAnswer, ServerStatus
from maitred.disclosure.budget import pack, within
from maitred.errors import (
    ArgumentsError,
    MaitredError,
    PathNotFoundError,
    ToolNotFoundError,
    ToolWithheldError,
)
from maitred.execution.calls import Caller
from maitred.model.servers import EraChoice, Health, ServerRecord, ServerSpec
from maitred.model.tools import Tool, ToolCall
from maitred.search.engine import SearchEngine
from maitred.search.found import Filter, Semantics

__all__ = ["Detail", "Gateway", "Progress"]

Detail = Literal["brief", "full"]

_PAGE_TOOLS = 100
MAX_LIMIT = 20
MAX_NAMES = 10
MAX_PHRASES = 20
_PHRASE_CHARACTERS = 2_000


class Gateway:
    """Everything behind the surfaces. `maitred.wiring.open_gateway` makes one and keeps it open."""

    def __init__(
        self,
        settings: Settings,
        *,
        catalog: LiveCatalog,
        pool: ServerPool,
        keeper: Keeper,
        search: SearchEngine,
    ) -> None:
        self.settings = settings
        self._catalog = catalog
        self._pool = pool
        self._keeper = keeper
        self._search = search
        self._caller = Caller(pool, self._spec)
        self._listeners: list[Callable[[], None]] = []

    # --- configuration ------------------------------------------------------------------------------------

    async def configure(self, settings: Settings) -> None:
        """Take over new settings: servers are added, removed and restarted as they differ."""
        before, self.settings = self.settings, settings
        eras: dict[str, EraChoice] = {
            name: record.facts.era or "auto"
            for name, record in self._catalog.snapshot.servers.items()
            if name in settings.servers and record.fingerprint == settings.servers[name].fingerprint
        }
        await self._pool.configure(settings.servers, eras)
        await self._keeper.configure(settings.servers)
        if _shown(before) != _shown(settings):
            for listener in self._listeners:
                listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a function called when what `listing` answers may have changed; it must not block."""
        self._listeners.append(listener)
        self._catalog.subscribe(lambda _: listener())

    def _spec(self, server: str) -> ServerSpec:
        return self.settings.servers[server]

    @property
    def snapshot(self) -> Snapshot:
        """The catalog as it is served now."""
        return self._catalog.snapshot

    # --- servers ------------------------------------------------------------------------------------------

    def servers(self) -> list[ServerStatus]:
        """All configured servers in the order of the configuration."""
        health = self._pool.health()
        snapshot = self.snapshot
        return [
            self._status(spec, health.get(name) or Health(), snapshot)
            for name, spec in self.settings.servers.items()
        ]

    def _status(self, spec: ServerSpec, health: Health, snapshot: Snapshot) -> ServerStatus:
        record = snapshot.servers.get(spec.name) or ServerRecord(name=spec.name, fingerprint="")
        tools = snapshot.by_server.get(spec.name, ())
        return ServerStatus(
            spec=spec,
            health=health,
            facts=record.facts,
            tools=len(tools),
            cost_tokens=sum(tool.cost_tokens for tool in tools),
            synced_at=record.synced_at,
            error=record.error,
            notes=record.notes,
            withheld=_why_withheld(spec, health),
        )

    def last_output(self, server: str) -> Sequence[str]:
        """The last lines that a server wrote to its standard error."""
        return self._pool.last_output(server)

    async def sync(self, names: Sequence[str] = ()) -> list[Report]:
        """List the tools of servers (all enabled ones by default) and bring the catalog in step."""
        wanted = list(names) or [name for name, spec in self.settings.servers.items() if spec.enabled]
        return await self._keeper.sync_all(wanted)

    async def settled(self, timeout_s: float) -> bool:
        """Wait until no server is being discovered for the first time; false when that takes longer."""
        return await self._keeper.settled(timeout_s)

    # --- the menu -----------------------------------------------------------------------------------------

    def visible_tools(self) -> list[Tool]:
        """All tools that may be shown, by published name."""
        reasons = self._reasons()
        return [tool for tool in self.snapshot.tools if reasons.get(tool.server) == ""]

    def mode(self) -> Literal["menu", "all"]:
        """What `tools/list` shows now: the menu, or all tools while they cost less than the break-even."""
        disclosure = self.settings.disclosure
        mode: Mode = disclosure.mode
        if mode != "auto":
            return mode
        if self._keeper.discovering:
            return "menu"
        enabled = [tool for tool in self.snapshot.tools if self._is_enabled(tool.server)]
        return "all" if sum(tool.cost_tokens for tool in enabled) < disclosure.break_even_tokens else "menu"

    async def listing(self, after: str = "") -> tuple[Literal["menu", "all"], list[dict[str, Any]], str]:
        """A page of tool definitions for `tools/list` as `(mode, definitions, cursor)`; none in mode `menu`.

        In the modes that show tools, waits a while for servers that are being discovered for the first time.
        """
        if self.settings.disclosure.mode != "menu":
            await self._keeper.settled(self.settings.disclosure.first_list_wait_s)
        mode = self.mode()
        if mode == "menu":
            return mode, [], ""
        rest = [t for t in self.snapshot.tools if t.name > after and self._is_enabled(t.server)]
        page = rest[:_PAGE_TOOLS]
        cursor = page[-1].name if len(rest) > len(page) else ""
        return mode, [self.snapshot.definition(tool) for tool in page], cursor

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        """The input schema of a tool by its published name, for the protocol's header checks."""
        tool = self.snapshot.by_name.get(name)
        schema = self.snapshot.schema(tool.input_hash) if tool else None
        return schema if isinstance(schema, dict) else None

    async def warm(self, *, wholly: bool = False) -> None:
        """Build the search index now, so that the first search need not wait; `wholly` waits for vectors."""
        await self._search.update(self.snapshot)
        if wholly:
            await self._search.settled()

    @property
    def semantics(self) -> Semantics:
        """How far search goes by meaning now."""
        return self._search.semantics

    async def search(
        self,
        phrases: Sequence[str],
        *,
        server: str = "",
        read_only: bool = False,
        limit: int = 5,
        detail: Detail = "brief",
    ) -> SearchAnswer:
        """Find tools by capability; each phrase is one capability.

        Raises:
            PathNotFoundError: There is no such server.
        """
        if server and server not in self.settings.servers:
            raise PathNotFoundError(f"server/{server}", nearest=self._near_servers(server))
        snapshot = self.snapshot
        await self._search.update(snapshot)
        wanted = [_readable(phrase) for phrase in phrases[:MAX_PHRASES] if phrase.strip()]
        reasons = self._reasons()
        visible = frozenset(name for name, why in reasons.items() if not why)
        unknown = visible - snapshot.known
        only = Filter(visible=visible, server=server, read_only=read_only)
        most = min(max(limit, 1), MAX_LIMIT) * max(len(wanted), 1)
        found, note = await self._search.search(wanted, only, most)
        snapshot = found.snapshot
        counts = Counter(tool.server for tool in found.withheld)
        render = views.full if detail == "full" else views.line
        return SearchAnswer(
            phrases=wanted or phrases[:1],
            results=[
                FoundTool(
                    tool=hit.tool,
                    line=render(snapshot, hit.tool),
                    band=hit.band,
                    also=[tool.name for tool in hit.also],
                )
                for hit in found.hits
            ],
            bands=found.bands,
            withheld={name: (n, reasons[name]) for name, n in counts.items() if name in reasons},
            unread={name: self._why_not_known(name) for name in reasons if name in unknown},
            note=note,
            budget_tokens=self._budget(SEARCH_TOKENS),
        )

    def _budget(self, tokens: int) -> int:
        return within(tokens, self.settings.disclosure.model_family)

    def browse(self, path: str = "", cursor: str = "") -> views.Page:
        """A page of the menu: all servers without a path, the tools of one with `server/<name>`.

        Raises:
            PathNotFoundError: There is no such page.
        """
        budget = self._budget(views.PAGE_TOKENS)
        if not path.strip("/"):
            servers = {entry.name: entry for entry in self.servers()}
            return views.page(servers, lambda name: _server_line(servers[name]), cursor, budget)
        kind, _, name = path.strip("/").partition("/")
        if kind != "server" or name not in self.settings.servers:
            raise PathNotFoundError(path, nearest=self._near_servers(name or kind))
        snapshot = self.snapshot
        names = [tool.name for tool in snapshot.by_server.get(name, ())]
        page = views.page(
            names,
            lambda n: views.line(snapshot, snapshot.by_name[n]),
            cursor,
            self._budget(views.PAGE_TOKENS),
        )
        status = next(entry for entry in self.servers() if entry.name == name)
        note = status.withheld or self._why_not_known(name)
        return views.Page(text=f"({note})\n{page.text}" if note else page.text, cursor=page.cursor)

    def info(self, names: Sequence[str], detail: Detail = "brief") -> InfoAnswer:
        """Details of some tools by published or raw name; unknown names are answered with the nearest.

        Raises:
            ToolNotFoundError: None of the names is known.
            ToolWithheldError: Nor can be, since their server is not known yet.
        """
        tools: list[Tool] = []
        problems: list[MaitredError] = []
        for name in dict.fromkeys(names[:MAX_NAMES]):
            try:
                tools.append(self.find(name))
            except ToolNotFoundError as error:
                why = self._why_unknown(name)
                problems.append(ToolWithheldError(name, why) if why else error)
        if problems and not tools:
            raise problems[0]
        snapshot = self.snapshot
        render = views.full if detail == "full" else views.brief
        packed = pack([render(snapshot, tool) for tool in tools], self._budget(views.FULL_TOKENS))
        left = [tool.name for tool in tools[len(packed.items) :]]
        return InfoAnswer(
            tools=tools,
            texts=packed.items,
            left_out=[*left, *names[MAX_NAMES:]],
            problems=[str(error) for error in problems],
        )

    # --- calls --------------------------------------------------------------------------------------------

    def find(self, name: str) -> Tool:
        """A tool by its published name, or by its raw name where only one server has it.

        Raises:
            ToolNotFoundError: No tool, or more than one, has this name.
        """
        snapshot = self.snapshot
        if tool := snapshot.by_name.get(name):
            return tool
        same = [tool for tool in snapshot.tools if tool.key.name == name]
        if len(same) == 1:
            return same[0]
        raise ToolNotFoundError(
            name, nearest=[tool.name for tool in same[:3]] or self._search.nearest(name, snapshot)
        )

    async def call(
        self, call: ToolCall, *, read_only: bool = False, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Call a tool and return its server's answer as it came.

        Raises:
            ToolNotFoundError: There is no such tool; the text names the nearest.
            ToolWithheldError: It exists but cannot be called now; the text says why.
            ArgumentsError: The arguments do not fit; the text shows the tool's parameters.
            ServerError: The server failed.
        """
        if call.name not in self.snapshot.by_name:
            await self._await_server(call.name)
        tool = self.find(call.name)
        snapshot = self.snapshot
        if not self._is_enabled(tool.server):
            raise ToolWithheldError(tool.name, f"its server {tool.server!r} is disabled in the configuration")
        try:
            answer = await self._caller.call(snapshot, tool, call, read_only=read_only, progress=progress)
        except ArgumentsError as error:
            schema = views.compact_schema(snapshot, tool)
            raise ArgumentsError(tool.name, error.faults, schema=schema) from error
        if not answer.get("isError"):
            self._search.used(tool.key)
        return answer

    async def _await_server(self, name: str) -> None:
        """Give the server of an unknown name the time to become known, if that is why it is unknown.

        Raises:
            ToolWithheldError: The server's tools are not known; the text says why.
        """
        for server in [s for s in self.settings.servers if name.startswith(prefix(s))]:
            if server in self._keeper.discovering:
                await self._keeper.discovered(server, self.settings.disclosure.first_list_wait_s)
        await self.warm()  # the answer to a mistake names the nearest tools, by the index
        if name not in self.snapshot.by_name and (why := self._why_unknown(name)):
            raise ToolWithheldError(name, why)

    def _why_unknown(self, name: str) -> str:
        """Why the server that a name seems to be of has no known tools; empty if it has, or there is none."""
        for status in self.servers():
            if name.startswith(prefix(status.name)) and not status.facts.era:
                return f"its server {status.name!r} is {status.withheld or self._why_not_known(status.name)}"
        return ""

    # --- who may be seen ----------------------------------------------------------------------------------

    def _is_enabled(self, server: str) -> bool:
        spec = self.settings.servers.get(server)
        return spec is not None and spec.enabled

    def _reasons(self) -> dict[str, str]:
        """Each server with the reason why its tools may not be shown now; empty if they may."""
        refused = self._pool.refused()
        well = Health()
        specs = self.settings.servers
        return {name: _why_withheld(spec, refused.get(name, well)) for name, spec in specs.items()}

    def _why_not_known(self, server: str) -> str:
        """Why nothing of a server can be found yet; empty when its tools are known."""
        if server in self.snapshot.known:
            return ""
        record = self.snapshot.servers.get(server)
        if server in self._keeper.discovering:
            return "still starting"
        health = self._pool.health().get(server) or Health()
        return f"not known yet: {(record and record.error) or health.error or 'never started'}"[:200]

    def _near_servers(self, name: str) -> list[str]:
        wanted = name.casefold()
        return [f"server/{n}" for n in self.settings.servers if wanted and wanted in n.casefold()][:3]


def _readable(phrase: str) -> str:
    """A phrase as search reads it: of bounded length, without halves of characters."""
    return phrase[:_PHRASE_CHARACTERS].encode("utf-8", "replace").decode()


def _why_withheld(spec: ServerSpec, health: Health) -> str:
    if not spec.enabled:
        return "disabled in the configuration"
    if health.retry_in_s is not None:
        return f"failed {health.failures} times, tried again in {health.retry_in_s:.0f} s: {health.error}"[
            :200
        ]
    return ""


def _shown(settings: Settings) -> object:
    """What of the settings decides what clients are shown."""
    return settings.disclosure, {name: spec.enabled for name, spec in settings.servers.items()}


def _server_line(status: ServerStatus) -> str:
    about = views.first_sentence(status.facts.instructions or status.facts.title, 24)[0]
    if status.withheld or not status.facts.era:
        about = status.withheld or "not known yet"
    return f"server/{status.name}: {status.tools} tools" + (f" - {about}" if about else "")
