"""The gateway: one method for each thing a user can do, and all that the surfaces know.

It answers reads from the catalog's snapshot and never waits for a server to do so; calls go to the servers.
It knows no transport and no protocol: surfaces parse requests and print answers. Its parts do the work.
"""

from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

from maitred.access.shared_limits import SharedLimiter
from maitred.audit.service import Entry, RequestContext, known_id
from maitred.backends.base import NOT_ASKED, Caller
from maitred.background import Background
from maitred.calls.pipeline import Call, compose
from maitred.calls.steps.count_usage import CallWatcher
from maitred.catalog.snapshot import Snapshot
from maitred.config.clients.table import traits_of
from maitred.config.settings import Settings
from maitred.disclosure import pages
from maitred.disclosure.answers import ServerStatus
from maitred.disclosure.introduction import ListContent
from maitred.disclosure.pages import Categories, HotList, Page, ToolPage
from maitred.gateway.activity_methods import ActivityMethods
from maitred.gateway.allow_list import AllowListMethods
from maitred.gateway.authorization import Authorization
from maitred.gateway.cache_policy import CachePolicy
from maitred.gateway.calls import CallServices, MakeCallSteps
from maitred.gateway.chain_methods import ChainMethods
from maitred.gateway.chains import Chains
from maitred.gateway.client_shapes import ClientShapeMethods, ClientShapes, instruction_form
from maitred.gateway.configure import Configuration
from maitred.gateway.events import Follower, Origin, ResourceListener
from maitred.gateway.list_methods import ListMethods
from maitred.gateway.lists import MenuLists
from maitred.gateway.lookup import PathLookup, ToolLookup
from maitred.gateway.operations import Operations
from maitred.gateway.own_answers import OwnAnswers
from maitred.gateway.parts import GatewayParts
from maitred.gateway.personal_logins import LoginMethods, PersonalLogins
from maitred.gateway.principals import PrincipalMethods
from maitred.gateway.profiles import ProfileMethods
from maitred.gateway.replica_methods import ReplicaMethods
from maitred.gateway.resources import ResourceService
from maitred.gateway.result_methods import ResultMethods
from maitred.gateway.result_tools import ResultTools
from maitred.gateway.search import SearchService
from maitred.gateway.shared_categories import SharedCategories
from maitred.gateway.shared_facts import SharedFacts
from maitred.gateway.sign_in import SignInMethods
from maitred.gateway.state import GatewayState
from maitred.gateway.stats import SpendingLedger
from maitred.gateway.storage import Storage
from maitred.gateway.stored_results import StoredResults
from maitred.gateway.suspensions import SuspensionRecorder
from maitred.gateway.tasks import TaskHeard, TaskService, ViewerTasks
from maitred.gateway.token_counts import TokenCounts
from maitred.gateway.tool_details import ToolDetails
from maitred.gateway.tool_search import ToolSearch
from maitred.gateway.usage_methods import UsageMethods
from maitred.gateway.visibility import VisibilityService
from maitred.model.access import Grant, RefusedAccess, Viewer, may
from maitred.model.resources import Offer, OfferKind
from maitred.model.sharing import Sharer, sharer_of
from maitred.model.tools import Tool, ToolCall
from maitred.search.results import Semantics

_PAGE_TOOLS = 100
_SETTLED_S = 300.0


class Gateway(
    Operations,
    TokenCounts,
    ToolDetails,
    ToolSearch,
    AllowListMethods,
    ChainMethods,
    ProfileMethods,
    ClientShapeMethods,
    ActivityMethods,
    UsageMethods,
    SignInMethods,
    PrincipalMethods,
    LoginMethods,
    ReplicaMethods,
    ResultMethods,
    ListMethods,
):
    """All that surfaces use. `maitred.wiring.open_gateway` makes a gateway and keeps it open.

    Every method takes the viewer who asks, and refuses what this viewer may not do; surfaces never decide it.
    Only `grant_of` and `SignInMethods`, about people at a provider, are asked before there is a viewer. What
    operators do is in `Operations`, what surfaces count in `TokenCounts`, all about single tools in
    `ToolDetails`, what needs the search or the use of tools in `ToolSearch`, the allow list in
    `AllowListMethods`, chains in `ChainMethods`, profiles in `ProfileMethods`, what suits a kind of client in
    `ClientShapeMethods`, the suspension of principals in `PrincipalMethods`,
    what monitoring reads in `ActivityMethods`, shares of use in `UsageMethods`, and logins of principals to
    servers in `LoginMethods`, whose pages are opened before there is a viewer. `ReplicaMethods` answer other
    replicas, which prove who they are. Stored answers are in `ResultMethods`,
    and what the list of one client has in `ListMethods`.
    """

    def __init__(self, settings: Settings, parts: GatewayParts, make_call_steps: MakeCallSteps) -> None:
        context = GatewayState(
            settings,
            catalog=parts.catalog,
            pool=parts.pool,
            keeper=parts.keeper,
            observations=parts.observations,
            jobs=parts.jobs,
        )
        access = Authorization(
            context,
            credentials=parts.credentials,
            auditing=parts.auditing,
            screen=parts.screen,
            subscriptions=parts.subscriptions,
            nearest=parts.search.nearest,
            limiter=SharedLimiter(parts.shared, lambda: len(parts.replicas.membership.live)),
        )
        changed = parts.events.visibility_changed
        self._shared_facts = SharedFacts(parts.shared, replica=parts.replicas.id)
        shared = self._shared_facts if parts.shared.is_shared else None
        visibility = VisibilityService(context, access.outside, changed, shared=shared)
        configuration = Configuration(context, parts, visibility, parts.auditing)
        super().__init__(
            parts,
            context=context,
            access=access,
            visibility=visibility,
            ledger=SpendingLedger(access.portion, parts.usage),
            paths=PathLookup(context, access, self.settled),
            storage=Storage(parts.catalog, configuration.again),
            configuration=configuration,
        )
        self._search, self._events, self._activity = parts.search, parts.events, parts.activity
        self._session_stubs, self._shared = parts.session_stubs, parts.shared
        self._logins, self._note_token = parts.logins, parts.note_token
        self._replicas = parts.replicas
        self._results, self._allow_list = StoredResults(parts.results, parts.shared), parts.allow_list
        self._shapes = ClientShapes(context, parts.shortener)
        self._suspended, self._principal_groups = parts.credentials.suspended, parts.credentials.groups
        self._make_sign_in_client = parts.make_sign_in_client
        self._credentials, self._menu = parts.credentials, access.whole.menu
        self._lists = MenuLists(
            context,
            self._menu,
            visibility,
            self._ledger,
            changed,
            self._shapes,
            reserved=parts.reserved_names,
        )
        self._shared_categories = SharedCategories(parts.shared, self._lists, replica=parts.replicas.id)
        self._own_answers = OwnAnswers(self._lists, self._results, parts.auditing)
        self._finder = SearchService(context, access, visibility, parts.search, parts.usage, parts.activity)
        self._lookup = ToolLookup(context, access, visibility, warm=self._build_index)
        self._running = TaskService(
            context,
            self._lookup,
            auditing=parts.auditing,
            screen=parts.screen,
            result_tools=ResultTools(context, self._lists, access.outside),
            key=parts.task_key,
            state=parts.shared,
        )
        self._call_watchers: list[CallWatcher] = [lambda server, *_: self._mediation.needed([server])]
        self._proceed = compose(make_call_steps(self._call_services(parts)))
        self._chains = Chains(
            context,
            access,
            self._lookup,
            self._proceed,
            self._held,
            results=parts.results,
            auditing=parts.auditing,
            screen=parts.screen,
            open_sandbox=lambda: parts.make_sandbox(self.settings),
        )
        self._supervising = SuspensionRecorder(context, self._admission, parts.auditing)
        parts.catalog.subscribe(lambda _: parts.events.lists_changed())
        parts.keeper.listen(settled=parts.events.lists_changed)
        parts.events.compare(lambda: frozenset(parts.pool.refused()))
        parts.events.follow(
            Follower(
                started=visibility.restarted,
                facts_changed=visibility.reported,
                health_changed=visibility.health_changed,
                supervised=self._supervising.heard,
            )
        )
        parts.events.follow(
            Follower(
                started=parts.keeper.started,
                tools_changed=parts.keeper.tools_changed,
                offers_changed=parts.keeper.offers_changed,
                task_changed=self._running.changed,
            )
        )

    def _call_services(self, parts: GatewayParts) -> CallServices:
        return CallServices(
            state=self._context,
            access=self._access,
            suspensions=parts.credentials.suspended,
            lookup=self._lookup,
            visibility=self._visibility,
            auditing=parts.auditing,
            screen=parts.screen,
            shortener=parts.shortener,
            shapes=self._shapes,
            rules=parts.make_rules(self._context),
            cache=parts.cache,
            cache_policy=CachePolicy(self._context, self._visibility),
            usage=parts.usage,
            observe=parts.observations.note,
            result_tools=ResultTools(self._context, self._lists, self._access.outside),
            succeeded=self._search.used,
            price_of=self._context.price_of_call,
            tasks=self._running,
            held_calls=self._held,
            activity=parts.activity,
            logins=PersonalLogins(self._context, parts.logins),
            watchers=self._call_watchers,
            run_saved=lambda call: self._chains.run_saved(call),  # noqa: PLW0108  # chains are made after steps
        )

    @asynccontextmanager
    async def serving(self, *, asks_models: bool) -> AsyncIterator[None]:
        """Run the background tasks until the context is left.

        With `asks_models`, mediation may ask its language model.
        """
        await self._figures.update_if_due()
        mediation = self._mediation.serving(asks=asks_models)
        async with self._chains.serving(), mediation, Background() as background:
            own = (self._figures.keep_up, self._visibility.keep_time, self._auditing.keep_up)
            more = (self._admission.follow, self._supervising.keep_up, self._storage.keep_up)
            of_principals = (self._suspended.keep_up, self._principal_groups.keep_up)
            of_calls = (self._running.keep_up, self._held.keep_up, self._shared_facts.run)
            for keep_up in (*own, *more, *of_principals, *of_calls):
                background.start(keep_up)
            yield

    # --- configuration ------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The present settings."""
        return self._context.settings

    @property
    def answer_s(self) -> float:
        """For how many seconds a call waits for its client to answer a question."""
        return self.settings.limits.parked_call_s

    def listen(
        self,
        *,
        lists: Callable[[], None],
        resource: ResourceListener,
        visibility: Callable[[], None] = lambda: None,
        task: TaskHeard = lambda scopes, task_id, state: None,
    ) -> None:
        """Register functions to call after changes; they must not block.

        `lists` is called when lists of clients may have changed. `resource` is called with the URI of a
        resource that may have changed, and with the instance that reported it, whose clients alone
        `concerns` finds. `visibility` is called when only the tools that make sense now may have changed,
        and `task` with the scopes, the id and the state of a task that changed.
        """
        self._events.listen(lists=lists, resource=resource, visibility=visibility)
        self._running.listen(task)

    def concerns(self, viewer: Viewer, origin: Origin | None) -> bool:
        """Whether a change of a resource concerns a viewer: another client's instance does not."""
        return origin is None or self._pool.key(origin.server, sharer_of(viewer)) == origin.key

    def watch(self, called: CallWatcher) -> None:
        """Call a function after each call of a tool with server, success and seconds; it must not block."""
        self._call_watchers.append(called)

    @property
    def has_visibility_rules(self) -> bool:
        """Whether there are rules by which calls or time change which tools make sense."""
        return bool(self._visibility.tables)

    async def grant_of(self, token: str) -> Grant | RefusedAccess:
        """The grant of a token, or why the token is refused.

        Raises:
            StoreError: The tokens cannot be read.
        """
        grant = await self._credentials.grant_of(token)
        if isinstance(grant, Grant) and not grant.id:  # of an authorization server
            self._token_came(grant, token)
        return grant

    def _token_came(self, grant: Grant, token: str) -> None:
        """Note a caller's token; a new one may list servers that take callers' tokens only."""
        if not self._note_token(grant.principal, token):
            return
        specs = self.settings.servers
        unknown = [name for name in self._keeper.unknown() if specs[name].takes_callers_tokens]
        allowed = [name for name in unknown if may(grant, "call", server=name)]
        self._keeper.list_for(Sharer(principal=grant.principal), allowed)

    def audit_request(
        self, action: str, name: str, viewer: Viewer, *, request_id: str = ""
    ) -> AbstractAsyncContextManager[Entry]:
        """An audit entry for what a surface does before a call; a refusal inside of it is recorded."""
        about = RequestContext(viewer=viewer, request_id=known_id(request_id))
        return self._auditing.entry(about, action, name)

    @property
    def snapshot(self) -> Snapshot:
        """The present snapshot of the catalog."""
        return self._context.snapshot

    @property
    def version(self) -> Hashable:
        """A value that changes whenever a page of the menu may have changed."""
        return self._menu.version

    @property
    def pages_version(self) -> Hashable:
        """The same for pages that programs read: these also say what answers of a tool looked like."""
        return self._menu.version, self._context.observations.version

    # --- servers ------------------------------------------------------------------------------------------

    def servers(self, viewer: Viewer) -> Sequence[ServerStatus]:
        """The configured servers that a viewer may see, in the order of the configuration."""
        return self._access.portion(viewer).context.servers()

    async def settled(self, timeout_s: float) -> bool:
        """Wait until every server is known, every tool placed, and every proposal of mediation proven.

        False if that takes longer. Background tasks do this for new servers, and after changes of rules or
        choices. It does not wait for a language model.
        """
        waits = (self._keeper.settled, self._keeper.placed, self._mediation.settled)
        return all([await wait(timeout_s) for wait in waits])

    async def client_came(self, viewer: Viewer) -> None:
        """List the servers that need a client's folder to start, if they could not be listed without one."""
        await self._keeper.settled(_SETTLED_S)
        await self._keeper.placed(_SETTLED_S)
        names = [name for name in self._keeper.unknown() if self._pool.key(name, sharer_of(viewer))]
        if names and sharer_of(viewer).folder:
            await self._keeper.sync_all(names, sharer_of(viewer))

    def client_left(self, viewer: Viewer) -> None:
        """Let the servers that only this client used end soon, unless its program connects again."""
        self._pool.left(sharer_of(viewer))

    # --- the menu -----------------------------------------------------------------------------------------

    def catalog(self, viewer: Viewer) -> Snapshot:
        """The present part of the catalog that a viewer may see."""
        return self._access.portion(viewer).context.snapshot

    def visible_tools(self, viewer: Viewer) -> list[Tool]:
        """All tools that the gateway may show to a viewer, by published name."""
        return self._access.portion(viewer).context.visible_tools()

    def tasks(self, viewer: Viewer) -> Sequence[str]:
        """The tasks of the tools that a viewer may see: titles of categories, then use cases."""
        return self._access.menu(viewer).tasks()

    def mode(self, viewer: Viewer) -> ListContent:
        """The present mode of a viewer's `tools/list`, which may depend on the tokens of all tools."""
        return self._lists.mode(viewer)

    def lists_tools(self, viewer: Viewer) -> bool:
        """Whether the list of a viewer may show tools, so that it depends on which servers are known."""
        return self._lists.chosen_mode(viewer) != "menu"

    async def listing(self, viewer: Viewer, after: str = "") -> tuple[ListContent, Sequence[Tool], str]:
        """A page of tools for `tools/list` as `(mode, tools, cursor)`; none in mode `menu`.

        In the modes that show tools, waits a while for servers that are being discovered for the first time.
        """
        if self.lists_tools(viewer):
            await self._keeper.settled(self.settings.disclosure.first_list_wait_s)
        mode = self.mode(viewer)
        if mode == "menu":
            return mode, [], ""
        if not after:
            self._lists.was_read(viewer)
        rest = [tool for tool in self.listed(viewer) if tool.name > after]
        page = rest[:_PAGE_TOOLS] if traits_of(viewer).follows_cursors else rest
        return mode, page, page[-1].name if len(rest) > len(page) else ""

    def listed(self, viewer: Viewer) -> Sequence[Tool]:
        """The tools of a whole `tools/list` in the modes that show tools, by published name."""
        return self._lists.listed(viewer)

    def forget(self, viewer: Viewer, key: str, *, goes_on: bool = False) -> None:
        """Drop the state of a viewer's connection that has ended; `key` is its client's, see `Caller`.

        If it `goes_on` at another gateway, the instances of servers that are its own stay.
        """
        self._clients.leave(viewer)
        self._context.pool.forget(key)
        self._visibility.forget(viewer.scope)
        self._lists.forget(viewer.scope)
        if (
            not viewer.start.client and not goes_on
        ):  # else `client_left` says when its program does not come again
            self._pool.left(sharer_of(viewer))

    def schema_of(self, name: str, viewer: Viewer) -> Mapping[str, Any] | None:
        """The input schema of a tool by its published name; `None` if a viewer may see no such tool."""
        snapshot = self.catalog(viewer)
        tool = snapshot.by_name.get(name)
        schema = snapshot.schema(tool.input_hash) if tool else None
        return schema if isinstance(schema, dict) else None

    def hot(self, viewer: Viewer) -> HotList:
        """T0: pinned tools, then those used most; a selection over the catalog while no tool was used."""
        return self._access.menu(viewer).hot(self._visibility.hidden(viewer))

    def categories(self, viewer: Viewer) -> Categories:
        """T1: the categories that hold tools."""
        return self._access.menu(viewer).categories()

    def page(self, path: str, cursor: str = "", size: int = pages.PAGE_TOOLS, *, viewer: Viewer) -> ToolPage:
        """T2: tools of `category/<name>` or `server/<name>`, the most used first; or `tools`, all by name.

        Raises:
            PathNotFoundError: There is no such category or server.
            CursorError: The gateway did not make this cursor.
        """
        page = self._access.menu(viewer).page(path, cursor, size, self._visibility.hidden(viewer))
        self._mediation.opened(path)
        return page

    def browse(
        self, path: str = "", cursor: str = "", size: int = pages.PAGE_TOOLS, *, viewer: Viewer
    ) -> Page:
        """A page as agents read it: T0 and T1 without a path, `servers`, `categories`, or a page of T2.

        Raises:
            PathNotFoundError: There is no such page.
            CursorError: The gateway did not make this cursor.
        """
        page = self._access.menu(viewer).browse(path, cursor, size, self._visibility.hidden(viewer))
        self._mediation.opened(path)
        return page

    def index(self, viewer: Viewer) -> str:
        """The capability index: the categories, with the number of tools in each."""
        return self._access.menu(viewer).index()

    def introduction(self, viewer: Viewer) -> str:
        """The description that a client shows before it reads any tool, in as many characters as it shows.

        The first 512 characters have all that matters, since some clients show no more.
        """
        form = instruction_form(traits_of(viewer))
        return self._access.menu(viewer).introduction(self.mode(viewer), form)

    def overview(self, viewer: Viewer) -> str:
        """What maitred is, which tools it has, and how to use them, in at most 500 tokens."""
        return self._access.menu(viewer).overview()

    def find(self, name: str, viewer: Viewer) -> Tool:
        """A tool by its published name, or by its raw name if only one server has it.

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
        """Build the search index now, so that the first search need not wait. `wholly` waits for vectors."""
        await self._keeper.catch_up()
        await self._build_index()
        if wholly:
            await self._search.settled()

    async def _build_index(self) -> None:
        await self._search.update(self.snapshot, self._context.approved_at)

    @property
    def semantics(self) -> Semantics:
        """Whether search finds tools by meaning now, and if not, why."""
        return self._search.semantics

    # --- calls --------------------------------------------------------------------------------------------

    async def tool_to_call(self, name: str, viewer: Viewer) -> Tool:
        """The tool that a name means, for a call by the viewer. May wait for its server.

        Raises:
            NotAllowedError: The viewer may not call it, or nothing.
            ToolNotFoundError: There is no such tool. The text names the nearest.
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
        """The parameters of a tool, in short.

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
        caller: Caller = NOT_ASKED,
        shorten: bool = False,
    ) -> dict[str, Any]:
        """Call a tool for a viewer, and return its server's answer unchanged.

        With `shorten`, an answer over `results.max_tokens` is cut, and stored whole for the principal. If a
        call makes other tools available, its answer names them. The gateway itself answers category tools.

        Raises:
            ToolNotFoundError: There is no such tool; the text names the nearest.
            ToolWithheldError: It exists but cannot be called now; the text says why.
            NotAllowedError: The viewer may not call it.
            BusyError: The viewer has made too many calls, or has too many running.
            ArgumentsError: The arguments do not fit; the text shows the tool's parameters.
            ServerError: The server failed.
        """
        if (name := self.published_name(call.name, viewer)) != call.name:
            call = replace(call, name=name)
        await self._results.fetch_for(call)
        await self.catch_up_lists(viewer=viewer)
        if (ours := self._own_answers.answer(call, viewer)) is not None:
            if self._shared_categories.concerns(viewer):
                await self._shared_categories.share(viewer)
            return ours
        made = Call(request=call, viewer=viewer, read_only=read_only, shorten=shorten, caller=caller)
        answer = await self._proceed(made)
        await self._results.share()
        await self._running.share()
        return answer.wire

    async def roots_changed(self, key: str, *, viewer: Viewer) -> None:
        """Announce to the servers that know the roots of the client with this key that these changed.

        Raises:
            NotAllowedError: The viewer may not call.
        """
        self._access.check(viewer, "call")
        await self._context.pool.roots_changed(key)

    def running_tasks(self, viewer: Viewer, caller: Caller = NOT_ASKED) -> ViewerTasks:
        """The calls of a viewer that go on at their servers as tasks, for a request of a client."""
        return self._running.of(viewer, caller)

    # --- resources and prompts of the servers -------------------------------------------------------------

    def offers(self, viewer: Viewer) -> ResourceService:
        """Resources, templates and prompts of the servers that a viewer may see."""
        return self._access.offers(viewer)

    def offers_of(self, kind: OfferKind, viewer: Viewer) -> Sequence[Offer]:
        """The offers of a kind, by published name."""
        return self.offers(viewer).list(kind)
