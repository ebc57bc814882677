"""The gateway: one method for each thing a user can do, and all that the surfaces know.

It answers reads from the catalog's snapshot and never waits for a server to do so; calls go to the servers.
It knows no transport and no protocol: surfaces parse requests and print answers. Its parts do the work.
"""

from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from maitred.backends.base import Progress
from maitred.background import Background
from maitred.calls.pipeline import Call, compose
from maitred.calls.results import ResultPage
from maitred.calls.steps.count_usage import CallWatcher
from maitred.catalog.discovery import Report
from maitred.catalog.snapshot import Snapshot
from maitred.config.settings import Settings
from maitred.disclosure import pages
from maitred.disclosure.answers import InfoAnswer, SearchAnswer, ServerStatus
from maitred.disclosure.introduction import ListContent
from maitred.disclosure.pages import Categories, HotList, Page, ToolPage
from maitred.errors import MaitredError
from maitred.gateway.authorization import Authorization
from maitred.gateway.cache_policy import CachePolicy
from maitred.gateway.calls import CallServices, MakeCallSteps
from maitred.gateway.chains import Chains
from maitred.gateway.configure import Configuration
from maitred.gateway.lists import MenuLists
from maitred.gateway.lookup import PathLookup, ToolLookup
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
from maitred.model.access import Viewer
from maitred.model.resources import Offer, OfferKind
from maitred.model.tools import Tool, ToolCall, ToolKey
from maitred.model.usage import ToolStanding, Usage
from maitred.search.results import Semantics

_PAGE_TOOLS = 100


class Gateway:
    """Everything behind the surfaces. `maitred.wiring.open_gateway` makes one and keeps it open.

    Every method takes the viewer who asks, and refuses what this viewer may not do; surfaces never decide it.
    So do the services that surfaces reach through it: `admission` lets servers in, `auditing` is the trail,
    `chains` runs programs that call tools, `expansion` knows what lists show, `ledger` writes down what
    viewers are given, `mediation` makes tools better, `tokens` are access tokens. `credentials` tells whose a
    token is, which is asked before there is a viewer.
    """

    def __init__(self, settings: Settings, parts: GatewayParts, make_call_steps: MakeCallSteps) -> None:
        self._keeper, self._search, self._pool = parts.keeper, parts.search, parts.pool
        self._results, self._events = parts.results, parts.events
        self.auditing, self._screen = parts.auditing, parts.screen
        self._context = GatewayState(settings, catalog=parts.catalog, pool=parts.pool, keeper=parts.keeper)
        self._access = Authorization(
            self._context,
            credentials=parts.credentials,
            auditing=parts.auditing,
            screen=parts.screen,
            subscriptions=parts.subscriptions,
            nearest=parts.search.nearest,
        )
        self.credentials, self.tokens = self._access.credentials, self._access.tokens
        self._menu = self._access.whole.menu
        changed = parts.events.visibility_changed
        self._visibility = VisibilityService(self._context, self._access.outside, changed)
        self.ledger = SpendingLedger(self._context, self._menu, parts.usage)
        self.expansion = MenuLists(self._context, self._menu, self._visibility, self.ledger, changed)
        self._paths = PathLookup(self._context, self._access, self.settled)
        self._finder = SearchService(self._context, self._access, self._visibility, self._search)
        self._lookup = ToolLookup(self._context, self._access, self._visibility, warm=self.warm)
        self._call_watchers: list[CallWatcher] = []
        self._proceed = compose(make_call_steps(self._call_services(parts)))
        self.chains = Chains(
            self._context,
            self._access,
            self._lookup,
            self._proceed,
            results=parts.results,
            auditing=parts.auditing,
            screen=parts.screen,
            open_sandbox=lambda: parts.make_sandbox(self.settings),
        )
        self._figures = UsageStatistics(self._context, parts.usage)
        self._use_cases = UseCaseWriting(self._context, parts.open_writer)
        self._configuring = Configuration(self._context, parts, self._visibility, self.auditing)
        self.mediation, self.admission = self._configuring.mediation, self._configuring.admission
        self._supervising = SuspensionRecorder(self._context, self.admission, self.auditing)
        self._storage = Storage(parts.catalog, self._configuring.again)
        self._call_watchers.append(lambda server, *_: self.mediation.needed([server]))
        parts.catalog.subscribe(lambda _: parts.events.lists_changed())
        parts.events.follow(
            started=self._visibility.restarted,
            health_changed=self._visibility.health_changed,
            supervised=self._supervising.heard,
        )

    def _call_services(self, parts: GatewayParts) -> CallServices:
        return CallServices(
            state=self._context,
            access=self._access,
            lookup=self._lookup,
            visibility=self._visibility,
            auditing=parts.auditing,
            screen=parts.screen,
            shortener=parts.shortener,
            cache=parts.cache,
            cache_policy=CachePolicy(self._context, self._visibility),
            usage=parts.usage,
            result_tools=ResultTools(self._context, self.expansion, self._access.outside),
            succeeded=self._search.used,
            watchers=self._call_watchers,
            run_saved=lambda call: self.chains.run_saved(call),  # noqa: PLW0108  # chains are made after steps
        )

    @asynccontextmanager
    async def serving(self, *, asks_models: bool) -> AsyncIterator[None]:
        """Do what has to be done in the background, until the context is left.

        With `asks_models`, a language model that mediation is to ask is asked.
        """
        await self._figures.update_if_due()
        mediation = self.mediation.serving(asks=asks_models)
        async with self.chains.serving(), mediation, Background() as background:
            own = (self._figures.keep_up, self._visibility.keep_time, self.auditing.keep_up)
            for keep_up in (*own, self.admission.follow, self._supervising.keep_up, self._storage.keep_up):
                background.start(keep_up)
            yield

    # --- configuration ------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self._context.settings

    async def configure(self, settings: Settings, *, viewer: Viewer) -> None:
        """Take over new settings: servers are added, removed and restarted as they differ.

        Raises:
            NotAllowedError: The viewer may not configure.
            ConfigError: What they refer to has faults; nothing was taken over.
        """
        self._access.check(viewer, "configure")
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
        self._events.listen(lists=lists, resource=resource, visibility=visibility)

    def watch(self, called: CallWatcher) -> None:
        """Have a function called after each call of a tool: its server, whether it succeeded, seconds.

        It must not block.
        """
        self._call_watchers.append(called)

    @property
    def has_visibility_rules(self) -> bool:
        """Whether which tools make sense may change with calls, or with time."""
        return bool(self._visibility.tables)

    @property
    def snapshot(self) -> Snapshot:
        """The catalog as it is served now."""
        return self._context.snapshot

    @property
    def version(self) -> Hashable:
        """Changes whenever what is read from the menu may have changed."""
        return self._menu.version

    # --- servers ------------------------------------------------------------------------------------------

    def servers(self, viewer: Viewer) -> Sequence[ServerStatus]:
        """The configured servers that a viewer may see, in the order of the configuration."""
        return self._access.portion(viewer).context.servers()

    def watched_servers(self, viewer: Viewer) -> Sequence[ServerStatus]:
        """The configured servers that a viewer may watch, in the order of the configuration.

        Raises:
            NotAllowedError: The viewer may watch none.
        """
        return self._access.servers(viewer)

    def watches(self, viewer: Viewer) -> bool:
        """Whether there is a server that a viewer may watch."""
        return self._access.watches(viewer)

    def watched_server(self, name: str, viewer: Viewer) -> ServerStatus:
        """One configured server.

        Raises:
            PathNotFoundError: There is none; the text names the nearest.
            NotAllowedError: The viewer may not watch it.
        """
        return self._paths.server(name, viewer, "watch")

    def last_output(self, server: str, viewer: Viewer) -> Sequence[str]:
        """The last lines that a server wrote to its standard error.

        Raises:
            NotAllowedError: The viewer may not watch it.
        """
        self._access.check(viewer, "watch", server=server)
        spec = self.settings.servers.get(server)
        return () if spec and spec.withheld and not spec.suspended else self._pool.last_output(server)

    def unmatched_rules(self, viewer: Viewer) -> Mapping[str, Sequence[str]]:
        """What visibility rules name that their server does not offer, by server.

        Raises:
            NotAllowedError: The viewer may not watch.
        """
        self._access.check(viewer, "watch")
        return self._visibility.unmatched(self.snapshot)

    async def catalog_status(self, viewer: Viewer) -> Mapping[str, Any]:
        """Where the catalog is, and why it cannot be written now; empty if it can be. It is tried.

        Raises:
            NotAllowedError: The viewer may watch no server.
        """
        self._access.servers(viewer)
        return await self._storage.status()

    def authorize_stop(self, viewer: Viewer) -> None:
        """Refuse a viewer who may not have the gateway stopped.

        Raises:
            NotAllowedError: The viewer may not configure.
        """
        self._access.check(viewer, "configure")

    async def sync(self, names: Sequence[str] = (), *, viewer: Viewer) -> list[Report]:
        """List the tools of servers (all enabled ones by default) and bring the catalog in step.

        Raises:
            NotAllowedError: The viewer may not watch them.
        """
        for name in names or (None,):
            self._access.check(viewer, "watch", server=name)
        wanted = list(names) or [name for name, spec in self.settings.servers.items() if spec.enabled]
        return await self._keeper.sync_all(wanted)

    async def settled(self, timeout_s: float) -> bool:
        """Wait until every server is known, every tool placed, and what mediation proposes proven.

        False when that takes longer. All is done in the background: for servers that are new, and when the
        rules or choices changed. A language model is not waited for.
        """
        waits = (self._keeper.settled, self._keeper.placed, self.mediation.settled)
        return all([await wait(timeout_s) for wait in waits])

    # --- the menu -----------------------------------------------------------------------------------------

    def catalog(self, viewer: Viewer) -> Snapshot:
        """The part of the catalog that a viewer may see, as it is served now."""
        return self._access.portion(viewer).context.snapshot

    def visible_tools(self, viewer: Viewer) -> list[Tool]:
        """All tools that may be shown to a viewer, by published name."""
        return self._access.portion(viewer).context.visible_tools()

    def tasks(self, viewer: Viewer) -> Sequence[str]:
        """What the tools that a viewer may see are for: titles of categories, then use cases."""
        return self._access.menu(viewer).tasks()

    def mode(self) -> ListContent:
        """What `tools/list` shows now; it may depend on what all tools cost."""
        return self.expansion.mode()

    async def listing(self, viewer: Viewer, after: str = "") -> tuple[ListContent, Sequence[Tool], str]:
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

    def listed(self, viewer: Viewer) -> Sequence[Tool]:
        """The tools of a whole `tools/list` in the modes that show tools, by published name."""
        return self.expansion.listed(viewer)

    def forget(self, viewer: Viewer) -> None:
        """Drop what was kept for a viewer's connection, which has ended."""
        self._visibility.forget(viewer.scope)
        self.expansion.forget(viewer.scope)

    def schema_of(self, name: str, viewer: Viewer) -> Mapping[str, Any] | None:
        """The input schema of a tool by its published name; `None` if a viewer may see no such tool."""
        snapshot = self.catalog(viewer)
        tool = snapshot.by_name.get(name)
        schema = snapshot.schema(tool.input_hash) if tool else None
        return schema if isinstance(schema, dict) else None

    def hot(self, viewer: Viewer) -> HotList:
        """T0: the tools that are used most."""
        return self._access.menu(viewer).hot(self._visibility.hidden(viewer))

    def categories(self, viewer: Viewer) -> Categories:
        """T1: the categories that hold tools."""
        return self._access.menu(viewer).categories()

    def page(self, path: str, cursor: str = "", size: int = pages.PAGE_TOOLS, *, viewer: Viewer) -> ToolPage:
        """T2: tools of `category/<name>` or `server/<name>`, the most used first; or `tools`, all by name.

        Raises:
            PathNotFoundError: There is no such category or server.
            CursorError: The cursor is none of ours.
        """
        self.mediation.opened(path)
        return self._access.menu(viewer).page(path, cursor, size, self._visibility.hidden(viewer))

    def browse(
        self, path: str = "", cursor: str = "", size: int = pages.PAGE_TOOLS, *, viewer: Viewer
    ) -> Page:
        """A page as agents read it: T0 and T1 without a path, `servers`, `categories`, or a page of T2.

        Raises:
            PathNotFoundError: There is no such page.
            CursorError: The cursor is none of ours.
        """
        self.mediation.opened(path)
        return self._access.menu(viewer).browse(path, cursor, size, self._visibility.hidden(viewer))

    def index(self, viewer: Viewer) -> str:
        """The capability index: what categories there are and how many tools they hold."""
        return self._access.menu(viewer).index()

    def introduction(self, viewer: Viewer) -> str:
        """What a client shows of the gateway before it looks at any tool, in at most 512 characters."""
        return self._access.menu(viewer).introduction(self.mode())

    def overview(self, viewer: Viewer) -> str:
        """What maitred is, what stands behind it, and how to go on, in at most 500 tokens."""
        return self._access.menu(viewer).overview()

    def info(self, names: Sequence[str], detail: Detail = "brief", *, viewer: Viewer) -> InfoAnswer:
        """T3 in full, or in brief: details of some tools by published or raw name.

        Raises:
            ToolNotFoundError: None of the names is known.
            ToolWithheldError: Nor can be, since their server is not known yet.
        """
        answer = self._access.menu(viewer).info(names, detail, partial(self._why_not, viewer=viewer))
        self.mediation.needed(tool.server for tool in answer.tools)
        return answer

    def tool_json(self, tool: Tool, viewer: Viewer) -> Mapping[str, Any]:
        """Everything about one tool, for programs.

        Raises:
            NotAllowedError: The viewer may not see it.
        """
        self._access.check(viewer, "see", tool=tool)
        return self._menu.to_json(tool, self._why_not(tool, viewer))

    def _why_not(self, tool: Tool, viewer: Viewer) -> str:
        return why_hidden(tool) or self._visibility.why_hidden(tool, viewer)

    def find(self, name: str, viewer: Viewer) -> Tool:
        """A tool by its published name, or by its raw name where only one server has it.

        Raises:
            ToolNotFoundError: No tool, or more than one, has this name.
        """
        return self._access.menu(viewer).find(name)

    def tool(self, server: str, name: str, viewer: Viewer) -> Tool:
        """A tool of a server, by its raw or its published name.

        Raises:
            PathNotFoundError: There is no such server.
            ToolNotFoundError: It has no such tool; the text names the nearest.
            ToolWithheldError: Its tools are not known yet.
        """
        return self._paths.tool(server, name, viewer)

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
        viewer: Viewer,
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
        """The tool that a name means, for a viewer who is to call it; its server may have to be waited for.

        Raises:
            NotAllowedError: The viewer may not call it, or nothing.
            ToolNotFoundError: There is none; the text names the nearest.
            ToolWithheldError: It cannot be called now; the text says why.
        """
        self._access.require_calls(viewer)
        return await self._lookup.callable_tool(name, viewer)

    async def tool_of_server_to_call(self, server: str, name: str, viewer: Viewer) -> Tool:
        """A tool of a server, by its raw or its published name; otherwise as `tool_to_call`.

        Raises:
            NotAllowedError: The viewer may not call it, or nothing.
            NotFoundError: There is no such server, or it has no such tool.
            ToolWithheldError: Its tools are not known yet.
        """
        self._access.require_calls(viewer)
        return await self._paths.tool_to_call(server, name, viewer)

    def parameters(self, tool: Tool, viewer: Viewer) -> str:
        """What a tool takes, in short.

        Raises:
            NotAllowedError: The viewer may not see it.
        """
        self._access.check(viewer, "see", tool=tool)
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

    def result(self, result_id: str, cursor: str = "", *, viewer: Viewer) -> ResultPage:
        """A page of an answer that was too long.

        Raises:
            ResultNotFoundError: It is not kept (any more), or not for this principal.
        """
        return self._results.page(viewer.principal, result_id, cursor)

    def withheld_answer(
        self, answer_id: str, cursor: str = "", *, viewer: Viewer, request_id: str = ""
    ) -> ResultPage:
        """A page of an answer that screening kept from a model; that it was read is written down.

        Raises:
            NotAllowedError: The viewer may not audit.
            ResultNotFoundError: It is not kept (any more).
        """
        self._access.check(viewer, "audit")
        said = {"arguments": {"answer": answer_id}, "request_id": request_id, "outcome": "ok"}
        try:
            return self._screen.withheld(answer_id, cursor)
        except MaitredError as error:
            said["outcome"] = error.code
            raise
        finally:
            self.auditing.note(viewer, "read-withheld", **said)

    async def stats(self, days: int = 30, *, viewer: Viewer) -> Stats:
        """How tools were used, and what finding them cost.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: The figures cannot be read.
        """
        self._access.check(viewer, "watch")
        return await self._figures.stats(days, raw_tokens=self.ledger.raw_tokens)

    async def usage_by_server(self, days: int, viewer: Viewer) -> Mapping[str, Usage]:
        """How the servers that a viewer may watch were used.

        Raises:
            NotAllowedError: The viewer may watch none.
            StoreError: The figures cannot be read.
        """
        return await self._figures.by_server(days, {one.name for one in self._access.servers(viewer)})

    def whole_catalog(self, viewer: Viewer) -> Snapshot:
        """The whole catalog as it is served now, with the standing of every tool.

        Raises:
            NotAllowedError: The viewer may not watch.
        """
        self._access.check(viewer, "watch")
        return self.snapshot

    async def update_tiers(self, viewer: Viewer) -> Mapping[ToolKey, ToolStanding]:
        """Compute the standing of every tool now.

        Raises:
            NotAllowedError: The viewer may not operate.
            StoreError: Usage cannot be read, or standings not be written.
        """
        self._access.check(viewer, "operate")
        return await self._figures.update_tiers()

    async def write_use_cases(
        self, server: str = "", *, viewer: Viewer, progress: Callable[[int, int], None]
    ) -> int:
        """Have the language model write use cases for tools (of one server) that have none; for how many.

        Raises:
            NotAllowedError: The viewer may not operate.
            ConfigError: No model is configured, or it cannot be used as it is.
            MaitredError: The model cannot be reached, or answers with something else.
        """
        self._access.check(viewer, "operate", server=server or None)
        return await self._use_cases.write(server, progress=progress)

    # --- resources and prompts of the servers -------------------------------------------------------------

    def offers(self, viewer: Viewer) -> ResourceService:
        """Resources, templates and prompts of the servers that a viewer may see."""
        return self._access.portion(viewer).offers

    def offers_of(self, kind: OfferKind, viewer: Viewer) -> Sequence[Offer]:
        """The offers of a kind, by published name."""
        return self.offers(viewer).list(kind)
