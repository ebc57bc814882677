"""The gateway: one method for each thing a user can do, and all that the surfaces know.

It answers reads from the catalog's snapshot and never waits for a server to do so; calls go to the servers.
It knows no transport and no protocol: surfaces parse what comes in and print what goes out. The work is done
by the parts beside this module; here stands what they come to.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from maitred.backends.base import Progress
from maitred.calls.pipeline import Call, compose
from maitred.calls.results import ResultPage
from maitred.calls.steps.count_usage import CallWatcher
from maitred.catalog.discovery import Report
from maitred.catalog.snapshot import Snapshot
from maitred.config.load import catalog_path
from maitred.config.settings import Settings
from maitred.disclosure import pages
from maitred.disclosure.answers import InfoAnswer, SearchAnswer, ServerStatus
from maitred.disclosure.introduction import Shown
from maitred.disclosure.pages import Categories, HotList, Page, ToolPage
from maitred.gateway.authorization import Authorization
from maitred.gateway.cache_policy import CachePolicy
from maitred.gateway.calls import CallServices, MakeCallSteps
from maitred.gateway.chains import Chains
from maitred.gateway.configure import Configuration
from maitred.gateway.lists import MenuLists
from maitred.gateway.lookup import ToolLookup
from maitred.gateway.menu import Detail
from maitred.gateway.parts import GatewayParts
from maitred.gateway.resources import ResourceService
from maitred.gateway.result_tools import ResultTools
from maitred.gateway.search import SearchService
from maitred.gateway.state import GatewayState, why_hidden
from maitred.gateway.stats import SpendingLedger, Stats, UsageStatistics
from maitred.gateway.storage import Storage
from maitred.gateway.suspensions import SuspensionRecorder
from maitred.gateway.use_cases import UseCaseWriting
from maitred.gateway.visibility import VisibilityService
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.resources import Offer, OfferKind
from maitred.model.tools import Tool, ToolCall
from maitred.search.results import Semantics

_PAGE_TOOLS = 100


class Gateway:
    """Everything behind the surfaces. `maitred.wiring.open_gateway` makes one and keeps it open.

    `ledger` writes down what principals are given; `figures` tells how tools were used, and computes tiers;
    `use_cases` has a language model write some; `chains` runs programs that call tools; `visibility` knows
    which tools make sense now; `expansion` what lists show; `mediation` makes tools better; `admission` lets
    servers in; `supervising` writes down what became of them; `storage` knows whether anything can be kept.
    """

    def __init__(self, settings: Settings, parts: GatewayParts, make_call_steps: MakeCallSteps) -> None:
        self._parts = parts
        self._keeper, self._search = parts.keeper, parts.search
        self._results = parts.results
        self.auditing, self.screen = parts.auditing, parts.screen
        self._context = GatewayState(settings, catalog=parts.catalog, pool=parts.pool, keeper=parts.keeper)
        self.access = Authorization(self._context, parts)
        self._menu = self.access.whole.menu
        self.visibility = VisibilityService(self._context, self.access.outside)
        self.ledger = SpendingLedger(self._context, self._menu, parts.usage)
        changed = parts.events.visibility_changed
        self.expansion = MenuLists(self._context, self._menu, self.visibility, self.ledger, changed)
        self._finder = SearchService(self._context, self.access, self.visibility, self._search)
        self._lookup = ToolLookup(self._context, self.access, self.visibility, warm=self.warm)
        self._call_watchers: list[CallWatcher] = []
        self._proceed = compose(make_call_steps(self._call_services()))
        self.chains = self._make_chains()
        self.figures = UsageStatistics(self._context, parts.usage)
        self.use_cases = UseCaseWriting(self._context, parts.open_writer)
        self._configuring = Configuration(self._context, parts, self.visibility, self.auditing)
        self.mediation, self.admission = self._configuring.mediation, self._configuring.admission
        self.supervising = SuspensionRecorder(self._context, self.admission, self.auditing)
        self.storage = Storage(parts.catalog, catalog_path(settings), self._configuring.again)
        self._call_watchers.append(lambda server, *_: self.mediation.needed([server]))
        self.visibility.changed = changed
        parts.catalog.subscribe(lambda _: parts.events.lists_changed())
        parts.events.on_started = self.visibility.restarted
        parts.events.on_health = self.visibility.health_changed
        parts.events.supervised = self.supervising.heard

    def _call_services(self) -> CallServices:
        parts = self._parts
        return CallServices(
            state=self._context,
            access=self.access,
            lookup=self._lookup,
            visibility=self.visibility,
            auditing=parts.auditing,
            screen=parts.screen,
            shortener=parts.shortener,
            cache=parts.cache,
            cache_policy=CachePolicy(self._context, self.visibility),
            usage=parts.usage,
            result_tools=ResultTools(self._context, self.expansion, self.access.outside),
            succeeded=self._search.used,
            watchers=self._call_watchers,
            run_saved=self._run_saved,
        )

    def _make_chains(self) -> Chains:
        parts = self._parts
        return Chains(
            self._context,
            self.access,
            self._lookup,
            self._proceed,
            results=parts.results,
            auditing=parts.auditing,
            screen=parts.screen,
            open_sandbox=lambda: parts.make_sandbox(self.settings),
        )

    async def _run_saved(self, call: Call) -> dict[str, Any]:
        return await self.chains.run_saved(call)  # which is made after the steps that call it

    # --- configuration ------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self._context.settings

    async def configure(self, settings: Settings) -> None:
        """Take over new settings: servers are added, removed and restarted as they differ.

        Raises:
            ConfigError: What they refer to has faults; nothing was taken over.
        """
        await self._configuring.take(settings)

    def listen(
        self,
        *,
        lists: Callable[[], None],
        resource: Callable[[str], None],
        visibility: Callable[[], None] = lambda: None,
    ) -> None:
        """Have functions called when what clients list may have changed, and with the URI of a resource.

        `visibility` is called when only which tools make sense now may have. They must not block.
        """
        self._parts.events.listen(lists=lists, resource=resource, visibility=visibility)

    def watch(self, called: CallWatcher) -> None:
        """Have a function called after each call of a tool: its server, whether it succeeded, seconds.

        It must not block.
        """
        self._call_watchers.append(called)

    @property
    def snapshot(self) -> Snapshot:
        """The catalog as it is served now."""
        return self._context.snapshot

    @property
    def version(self) -> Hashable:
        """Changes whenever what is read from the menu may have changed."""
        return self._menu.version

    # --- servers ------------------------------------------------------------------------------------------

    def servers(self) -> list[ServerStatus]:
        """All configured servers in the order of the configuration."""
        return self._context.servers()

    def last_output(self, server: str) -> Sequence[str]:
        """The last lines that a server wrote to its standard error."""
        spec = self.settings.servers.get(server)
        return () if spec and spec.withheld and not spec.suspended else self._parts.pool.last_output(server)

    async def sync(self, names: Sequence[str] = ()) -> list[Report]:
        """List the tools of servers (all enabled ones by default) and bring the catalog in step."""
        wanted = list(names) or [name for name, spec in self.settings.servers.items() if spec.enabled]
        return await self._keeper.sync_all(wanted)

    async def settled(self, timeout_s: float) -> bool:
        """Wait until every server is known, every tool placed, and what mediation proposes proven.

        False when that takes longer. All is done in the background: for servers that are new, and when the
        rules or choices changed. A language model is not waited for.
        """
        keeper, mediation = self._keeper, self.mediation
        waits = (keeper.settled, keeper.placed, mediation.settled)
        return all([await wait(timeout_s) for wait in waits])

    # --- the menu -----------------------------------------------------------------------------------------

    def visible_tools(self) -> list[Tool]:
        """All tools that may be shown, by published name."""
        return self._context.visible_tools()

    def mode(self) -> Shown:
        """What `tools/list` shows now; it may depend on what all tools cost."""
        return self.expansion.mode()

    async def listing(
        self, viewer: Viewer = LOCAL_USER, after: str = ""
    ) -> tuple[Shown, Sequence[Tool], str]:
        """A page of tools for `tools/list` as `(mode, tools, cursor)`; none in mode `menu`.

        In the modes that show tools, waits a while for servers that are being discovered for the first time.
        """
        if self.settings.disclosure.mode != "menu":
            await self._keeper.settled(self.settings.disclosure.first_list_wait_s)
        mode = self.mode()
        if mode == "menu":
            return mode, [], ""
        rest = [tool for tool in self.listed(viewer) if tool.name > after]
        page = rest[:_PAGE_TOOLS]
        return mode, page, page[-1].name if len(rest) > len(page) else ""

    def listed(self, viewer: Viewer = LOCAL_USER) -> Sequence[Tool]:
        """The tools of a whole `tools/list` in the modes that show tools, by published name."""
        return self.expansion.listed(viewer)

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        """The input schema of a tool by its published name, for the protocol's header checks."""
        tool = self.snapshot.by_name.get(name)
        schema = self.snapshot.schema(tool.input_hash) if tool else None
        return schema if isinstance(schema, dict) else None

    def hot(self, viewer: Viewer = LOCAL_USER) -> HotList:
        """T0: the tools that are used most."""
        return self.access.menu(viewer).hot(self.visibility.hidden(viewer))

    def categories(self, viewer: Viewer = LOCAL_USER) -> Categories:
        """T1: the categories that hold tools."""
        return self.access.menu(viewer).categories()

    def page(
        self, path: str, cursor: str = "", size: int = pages.PAGE_TOOLS, viewer: Viewer = LOCAL_USER
    ) -> ToolPage:
        """T2: tools of `category/<name>` or `server/<name>`, the most used first; or `tools`, all by name.

        Raises:
            PathNotFoundError: There is no such category or server.
            CursorError: The cursor is none of ours.
        """
        self.mediation.opened(path)
        return self.access.menu(viewer).page(path, cursor, size, self.visibility.hidden(viewer))

    def browse(
        self, path: str = "", cursor: str = "", size: int = pages.PAGE_TOOLS, viewer: Viewer = LOCAL_USER
    ) -> Page:
        """A page as agents read it: T0 and T1 without a path, `servers`, `categories`, or a page of T2.

        Raises:
            PathNotFoundError: There is no such page.
            CursorError: The cursor is none of ours.
        """
        self.mediation.opened(path)
        return self.access.menu(viewer).browse(path, cursor, size, self.visibility.hidden(viewer))

    def index(self, viewer: Viewer = LOCAL_USER) -> str:
        """The capability index: what categories there are and how many tools they hold."""
        return self.access.menu(viewer).index()

    def introduction(self, viewer: Viewer) -> str:
        """What a client shows of the gateway before it looks at any tool, in at most 512 characters."""
        return self.access.menu(viewer).introduction(self.mode())

    def overview(self, viewer: Viewer = LOCAL_USER) -> str:
        """What maitred is, what stands behind it, and how to go on, in at most 500 tokens."""
        return self.access.menu(viewer).overview()

    def info(self, names: Sequence[str], detail: Detail = "brief", viewer: Viewer = LOCAL_USER) -> InfoAnswer:
        """T3 in full, or in brief: details of some tools by published or raw name.

        Raises:
            ToolNotFoundError: None of the names is known.
            ToolWithheldError: Nor can be, since their server is not known yet.
        """
        answer = self.access.menu(viewer).info(names, detail, partial(self._why_not, viewer=viewer))
        self.mediation.needed(tool.server for tool in answer.tools)
        return answer

    def tool_json(self, tool: Tool, viewer: Viewer = LOCAL_USER) -> Mapping[str, Any]:
        """Everything about one tool, for programs."""
        return self._menu.to_json(tool, self._why_not(tool, viewer))

    def _why_not(self, tool: Tool, viewer: Viewer) -> str:
        return why_hidden(tool) or self.visibility.why_hidden(tool, viewer)

    def find(self, name: str, viewer: Viewer = LOCAL_USER) -> Tool:
        """A tool by its published name, or by its raw name where only one server has it.

        Raises:
            ToolNotFoundError: No tool, or more than one, has this name.
        """
        return self.access.menu(viewer).find(name)

    # --- search -------------------------------------------------------------------------------------------

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
        category: str = "",
        tags: Sequence[str] = (),
        read_only: bool = False,
        limit: int = 5,
        detail: Detail = "brief",
        viewer: Viewer = LOCAL_USER,
    ) -> SearchAnswer:
        """Find tools by capability; each phrase is one capability.

        Raises:
            PathNotFoundError: There is no such server or category.
        """
        answer = await self._finder.search(
            phrases,
            server=server,
            category=category,
            tags=tags,
            read_only=read_only,
            limit=limit,
            detail=detail,
            viewer=viewer,
        )
        self.mediation.needed(found.tool.server for found in answer.results)
        return answer

    # --- calls --------------------------------------------------------------------------------------------

    async def tool_to_call(self, name: str, viewer: Viewer) -> Tool:
        """The tool that a name means, for somebody who is to call it; its server may have to be waited for.

        Raises:
            ToolNotFoundError: There is none; the text names the nearest.
            NotAllowedError: They may not call it.
            ToolWithheldError: It cannot be called now; the text says why.
        """
        return await self._lookup.callable_tool(name, viewer)

    def parameters(self, tool: Tool) -> str:
        """What a tool takes, in short."""
        return self._lookup.parameters(tool)

    async def call(
        self,
        call: ToolCall,
        *,
        viewer: Viewer,
        read_only: bool = False,
        progress: Progress | None = None,
        shorten: bool = False,
    ) -> dict[str, Any]:
        """Call a tool for somebody and return its server's answer as it came.

        With `shorten`, an answer over `results.max_tokens` is cut, and kept whole for the principal. The
        answer to a call that makes other tools available also names them. Category tools are answered here.

        Raises:
            ToolNotFoundError: There is no such tool; the text names the nearest.
            ToolWithheldError: It exists but cannot be called now; the text says why.
            NotAllowedError: Whoever asks may not call it.
            BusyError: They have called too often, or too much at once.
            ArgumentsError: The arguments do not fit; the text shows the tool's parameters.
            ServerError: The server failed.
        """
        if ours := self.expansion.answer(call, viewer):
            return ours
        made = Call(request=call, viewer=viewer, read_only=read_only, shorten=shorten, progress=progress)
        return (await self._proceed(made)).wire

    def result(self, principal: str, result_id: str, cursor: str = "") -> ResultPage:
        """A page of an answer that was too long.

        Raises:
            ResultNotFoundError: It is not kept (any more), or not for this principal.
        """
        return self._results.page(principal, result_id, cursor)

    async def stats(self, days: int = 30) -> Stats:
        """How tools were used, and what finding them cost.

        Raises:
            StoreError: The figures cannot be read.
        """
        return await self.figures.stats(days, raw_tokens=self.ledger.raw_tokens)

    # --- resources and prompts of the servers -------------------------------------------------------------

    def offers(self, viewer: Viewer = LOCAL_USER) -> ResourceService:
        """Resources, templates and prompts of the servers."""
        return self.access.portion(viewer).offers

    def offers_of(self, kind: OfferKind, viewer: Viewer = LOCAL_USER) -> Sequence[Offer]:
        """The offers of a kind, by published name."""
        return self.offers(viewer).list(kind)
