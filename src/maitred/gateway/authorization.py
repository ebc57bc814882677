"""What each viewer may do with the gateway, and the part of the catalog that exists for its scope.

`maitred.model.access` decides; this module passes it what the catalog knows of a tool. Each scope has its own
context, menu and offers. They are made from a snapshot without the tools outside the scope, so that no page,
count or suggestion reveals those. Viewers without a scope share the whole catalog.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import anyio
from cachetools import LRUCache

from maitred.access.credentials import Credentials
from maitred.access.rate_limit import LimitReached, RateLimits, TeamLimits
from maitred.access.shared_limits import SharedLimiter
from maitred.access.teams import team_of
from maitred.access.tokens import ScopeNames, TokenService
from maitred.audit.service import AuditService
from maitred.calls.screening import AnswerScreen
from maitred.calls.subscriptions import Subscriptions
from maitred.catalog.names import prefix
from maitred.catalog.snapshot import Snapshot
from maitred.config.settings import AccessSettings, Settings, TeamEntry
from maitred.config.taxonomy import CATEGORIES
from maitred.disclosure.answers import ServerStatus
from maitred.errors import BusyError, NotAllowedError, ToolNotFoundError
from maitred.gateway.menu import Menu
from maitred.gateway.resources import ResourceService
from maitred.gateway.state import GatewayState
from maitred.model.access import (
    EVERYTHING,
    LEAST,
    ROLES,
    Ability,
    Grant,
    Scope,
    Viewer,
    may,
    nearest_reason,
    refusal,
)
from maitred.model.categories import Category
from maitred.model.profiles import Profile
from maitred.model.tools import Tool, ToolKey

VIEWER: Final = "maitred.viewer"
"""The key of the viewer in the scope of an ASGI request."""

_MOST_PORTIONS: Final = 200
_NOTHING: Final = Profile(servers=())


@dataclass(frozen=True, kw_only=True)
class ScopedCatalog:
    """The part of the catalog for a scope, whose categories include those below; `outside` is the rest."""

    scope: Scope
    context: GatewayState
    menu: Menu
    offers: ResourceService
    outside: frozenset[ToolKey] = frozenset()


class Authorization:
    """Decides for viewers. `credentials` finds the grant of a token, `tokens` makes and revokes tokens."""

    def __init__(
        self,
        context: GatewayState,
        *,
        credentials: Credentials,
        auditing: AuditService,
        screen: AnswerScreen,
        subscriptions: Subscriptions,
        nearest: Callable[[str, Snapshot], Sequence[str]],
        limiter: SharedLimiter,
    ) -> None:
        self._context = context
        self._auditing = auditing
        self._screen = screen
        self._subscriptions = subscriptions
        self._nearest_of_all = nearest
        self._limiter = limiter
        self.credentials = credentials
        self.tokens = TokenService(credentials.grants, auditing, self._names)
        menu = Menu(context, self._nearest)
        offers = ResourceService(context, subscriptions, auditing, screen)
        self.whole = ScopedCatalog(scope=EVERYTHING, context=context, menu=menu, offers=offers)
        self._of: tuple[Snapshot | None, int] = (None, 0)
        self._portions: LRUCache[Scope, ScopedCatalog] = LRUCache(_MOST_PORTIONS)

    # --- what a viewer may do -----------------------------------------------------------------------------

    def check(
        self, viewer: Viewer, ability: Ability, *, tool: Tool | None = None, server: str | None = None
    ) -> None:
        """Check that a viewer has an ability: in general, on a server, or on a tool.

        Raises:
            NotAllowedError: The text says why not.
        """
        if tool is None:
            self._auditing.require(viewer, ability, server=server)
        elif why := self.why_not(viewer, ability, tool=tool):  # a call, which is written down as one
            raise NotAllowedError(why)

    def require_calls(self, viewer: Viewer) -> None:
        """Refuse a viewer who may call nothing; the audit entry of the call itself records the refusal.

        Raises:
            NotAllowedError: The text says why not.
        """
        if why := self.why_not(viewer, "call"):
            raise NotAllowedError(why)

    async def why_ended(self, viewer: Viewer) -> str:
        """Why the token of a viewer, who came with it a while ago, is refused now; empty if it goes on.

        Raises:
            StoreError: The tokens cannot be read.
        """
        return await self.credentials.why_ended(viewer.grant)

    def why_not(
        self, viewer: Viewer, ability: Ability, *, tool: Tool | None = None, server: str | None = None
    ) -> str:
        """Why a viewer does not have an ability, without a full stop; empty if it has the ability."""
        grant = viewer.grant
        if grant.scope is not EVERYTHING and grant.scope != EVERYTHING:  # most often the same object
            grant = replace(grant, scope=self.portion(viewer).scope)
        if tool is None:
            return refusal(grant, ability, server=server)
        return self._why_not_on(grant, ability, tool)

    def is_limited(self, server: str) -> bool:
        """Whether calls of a server count; a call that consists of other calls does not: those count."""
        limits = self._context.settings.access
        is_set = _limits_of(limits).is_set or any(_limits_of(team).is_set for team in limits.teams.values())
        return is_set and not self._context.is_composed(server)

    @asynccontextmanager
    async def enter(self, viewer: Viewer) -> AsyncIterator[None]:
        """Let a call in that counts; it runs until the context is left.

        Raises:
            BusyError: The principal, or its team, has called too often, or has too much running.
        """
        settings, team = self._context.settings.access, None
        if settings.teams and (name := team_of(viewer.principal, viewer.grant.groups, settings.teams)):
            team = TeamLimits(name=name, limits=_limits_of(settings.teams[name]))
        entered = await self._limiter.enter(viewer.principal, _limits_of(settings), team=team)
        if isinstance(entered, LimitReached):
            raise BusyError(entered.reason, retry_in_s=entered.retry_after_s)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._limiter.leave(entered)

    # --- what exists for a viewer -------------------------------------------------------------------------

    def portion(self, viewer: Viewer) -> ScopedCatalog:
        """The part of the catalog for a viewer, computed once for each scope and state of the catalog."""
        return self._portion_of(viewer.grant.scope)

    def offers(self, viewer: Viewer) -> ResourceService:
        """The resources and prompts for a viewer: with several groups, those of groups that may use them.

        A role on one part must not reach the resources of another.
        """
        scope = viewer.grant.scope
        if not scope.parts:
            return self._portion_of(scope).offers
        least = ROLES.index(LEAST["call"])
        able = tuple(part for part in scope.parts if ROLES.index(part.role) >= least)
        return self._portion_of(replace(scope, parts=able or scope.parts)).offers

    def _portion_of(self, scope: Scope) -> ScopedCatalog:
        if scope is EVERYTHING or scope == EVERYTHING:
            return self.whole
        snapshot, revision = self._context.snapshot, self._context.revision
        if snapshot is not self._of[0] or revision != self._of[1]:
            self._of = (snapshot, revision)
            self._portions.clear()
        try:
            return self._portions[scope]
        except KeyError:
            portion = self._portions[scope] = self._made(scope, snapshot)
            return portion

    def menu(self, viewer: Viewer) -> Menu:
        """The menu for a viewer."""
        return self.portion(viewer).menu

    def outside(self, viewer: Viewer) -> frozenset[ToolKey]:
        """The tools outside the scope of a viewer."""
        return self.portion(viewer).outside

    def find(self, name: str, viewer: Viewer) -> Tool:
        """The tool that a name means for a viewer.

        A tool outside of the viewer's scope is found by a name that contains its server. A check then says
        why the viewer may not call it.

        Raises:
            ToolNotFoundError: There is no such tool. The text names the nearest tools in the viewer's scope.
        """
        try:
            tool = self.whole.menu.find(name)
        except ToolNotFoundError:
            portion = self.portion(viewer)
            if portion is self.whole:
                raise
            tool = portion.menu.find(name)
        outside = self.outside(viewer)
        if outside and tool.key in outside and not _is_named(tool, name):
            tool = self.menu(viewer).find(name)  # a refusal would reveal that it exists
        return tool

    def servers(self, viewer: Viewer) -> Sequence[ServerStatus]:
        """The servers that a viewer may watch, in the order of the configuration.

        Raises:
            NotAllowedError: The viewer may watch none.
        """
        there = self.portion(viewer).context.servers()
        found = [status for status in there if not self.why_not(viewer, "watch", server=status.name)]
        if not found:
            self.check(viewer, "watch")
        return found

    def watched_names(self, viewer: Viewer) -> Collection[str]:
        """The names of the servers that a viewer may watch; to know more of each takes longer.

        Raises:
            NotAllowedError: The viewer may watch none.
        """
        names = self.portion(viewer).context.settings.servers
        found = {name for name in names if not self.why_not(viewer, "watch", server=name)}
        if not found:
            self.check(viewer, "watch")
        return found

    def watches(self, viewer: Viewer) -> bool:
        """Whether there is a server that a viewer may watch."""
        names = self._context.settings.servers
        return any(not self.why_not(viewer, "watch", server=name) for name in names)

    # --- how it is worked out -----------------------------------------------------------------------------

    def _why_not_on(self, grant: Grant, ability: Ability, tool: Tool) -> str:
        """Why a grant, whose categories include those below, does not have an ability on a tool."""
        if grant.scope.parts:
            whole, each = grant.by_parts()
            return self._why_not_on(whole, ability, tool) or nearest_reason(
                {self._why_not_on(one, ability, tool): self._why_not_on(one, "see", tool) for one in each}
            )
        why = refusal(
            grant,
            ability,
            server=tool.server,
            category=tool.placement.category,
            read_only=tool.read_only,
        )
        return why or self._why_not_in_profile(grant.scope, tool)

    def _why_not_in_profile(self, scope: Scope, tool: Tool) -> str:
        """Why a tool is outside the profiles of a scope; empty if it is in all of them."""
        for name, profile in self._profiles(scope):
            if profile is None:
                return f"the profile {name!r} of this client is not in the configuration any more"
            if not profile.selects(tool):
                return f"{tool.name!r} is not in the profile {name!r}, which this client has"
        return ""

    def _profiles(self, scope: Scope) -> Iterator[tuple[str, Profile | None]]:
        """The profiles of a scope by name, with all categories below theirs; `None` for one that is gone."""
        known = self._context.settings.profiles
        for name in scope.profiles:
            profile = known.get(name)
            if profile is not None and profile.categories is not None:
                below = _with_below(frozenset(profile.categories), self._context.categories)
                profile = replace(profile, categories=tuple(below or ()))
            yield name, profile

    async def _names(self) -> ScopeNames:
        """The names that a scope may contain."""
        settings = self._context.settings
        categories = [one.name for one in self._context.categories]
        return ScopeNames(servers=settings.servers, categories=categories, profiles=settings.profiles)

    def _made(self, scope: Scope, snapshot: Snapshot) -> ScopedCatalog:
        settings = self._context.settings
        scope = self._with_categories_below(scope)
        inside, servers = self._inside(scope, snapshot)
        context = _PartContext(
            self._context,
            replace(settings, servers={name: s for name, s in settings.servers.items() if name in servers}),
            replace(
                snapshot,
                tools=tuple(inside),
                servers={name: s for name, s in snapshot.servers.items() if name in servers},
                offers=tuple(offer for offer in snapshot.offers if offer.server in servers),
            ),
            self._categories_of(inside, scope),
        )
        return ScopedCatalog(
            scope=scope,
            context=context,
            menu=Menu(context, self._nearest),
            offers=ResourceService(context, self._subscriptions, self._auditing, self._screen),
            outside=frozenset(snapshot.by_key) - {tool.key for tool in inside},
        )

    def _with_categories_below(self, scope: Scope) -> Scope:
        """A scope whose categories, and those of its parts, include all below them."""
        parts = [replace(part, scope=self._with_categories_below(part.scope)) for part in scope.parts]
        below = _with_below(scope.categories, self._context.categories)
        return replace(scope, categories=below, parts=tuple(parts))

    def _inside(self, scope: Scope, snapshot: Snapshot) -> tuple[Sequence[Tool], set[str]]:
        """The tools and the servers that a scope covers, in one of its parts if it has some."""
        if scope.parts:
            tools, all_servers = self._inside(replace(scope, parts=()), snapshot)
            within = [self._inside(part.scope, snapshot) for part in scope.parts]
            keys = {tool.key for part, _ in within for tool in part}
            some = set[str]().union(*(part for _, part in within))
            return [tool for tool in tools if tool.key in keys], all_servers & some
        grant = Grant(principal="", role="viewer", scope=scope)
        inside = [
            tool
            for tool in snapshot.tools
            if may(
                grant,
                "see",
                server=tool.server,
                category=tool.placement.category,
                read_only=tool.read_only,
            )
        ]
        names = {**self._context.settings.servers, **snapshot.servers}
        servers = {name for name in names if may(grant, "see", server=name)}
        for _, profile in self._profiles(scope):
            select, by_server = profile or _NOTHING, snapshot.by_server
            inside = [tool for tool in inside if select.selects(tool)]
            servers = {name for name in servers if select.selects_server(name, by_server.get(name, ()))}
        if scope.categories is not None:  # prompts and resources have no category
            servers &= {tool.server for tool in inside}
        return inside, servers

    def _categories_of(self, inside: Sequence[Tool], scope: Scope) -> Sequence[Category]:
        """The categories of a part: the built-in ones, those of its tools, and those above; no other name.

        An operator may have made the others for servers outside of the scope.
        """
        every = {category.name: category for category in self._context.categories}
        limits = [scope.categories, *(part.scope.categories for part in scope.parts)]
        waiting = [*{tool.placement.category for tool in inside}, *chain.from_iterable(filter(None, limits))]
        names = {category.name for category in CATEGORIES}
        above = set[str]()
        while waiting:
            category = every.get(waiting.pop())
            if category is not None and category.name not in above:
                above.add(category.name)
                waiting.append(category.parent)
        return [category for category in every.values() if category.name in names | above]

    def _nearest(self, name: str, snapshot: Snapshot) -> Sequence[str]:
        """Those of the nearest names in the whole catalog that a snapshot has; none that is switched off."""
        near = [snapshot.by_name.get(one) for one in self._nearest_of_all(name, snapshot)]
        return [tool.name for tool in near if tool and tool.key not in self._context.switched_off]


class _PartContext(GatewayState):
    """A context in whose settings, snapshot and categories those outside of a scope are missing."""

    def __init__(
        self, whole: GatewayState, settings: Settings, snapshot: Snapshot, categories: Sequence[Category]
    ) -> None:
        self._snapshot = snapshot
        super().__init__(
            settings,
            catalog=whole.catalog,
            pool=whole.pool,
            keeper=whole.keeper,
            observations=whole.observations,
            jobs=whole.jobs,
        )
        self.categories = categories

    @property
    def snapshot(self) -> Snapshot:
        """The part of the catalog's snapshot."""
        return self._snapshot


def _limits_of(entry: AccessSettings | TeamEntry) -> RateLimits:
    return RateLimits(per_minute=entry.calls_per_minute, burst=entry.burst, at_once=entry.calls_at_once)


def _is_named(tool: Tool, name: str) -> bool:
    """Whether a name contains the server of the tool that it means."""
    return name == tool.name or name.startswith(prefix(tool.server))


def _with_below(names: frozenset[str] | None, categories: Iterable[Category]) -> frozenset[str] | None:
    """Categories with all categories below them; without a limit, it stays without."""
    if names is None:
        return None
    by_name = {category.name: category for category in categories}

    def within(name: str) -> bool:
        seen = set[str]()
        while name in by_name and name not in seen and name not in names:
            seen.add(name)
            name = by_name[name].parent
        return name in names

    return names | {name for name in by_name if within(name)}


def askable(declared: Mapping[str, Any], viewer: Viewer) -> Mapping[str, Any]:
    """What servers may ask a client: roots only of operators, since servers open the folders that roots name.

    `declared` are the capabilities that the client declared.
    """
    if "roots" not in declared or may(viewer.grant, "operate"):
        return declared
    return {name: value for name, value in declared.items() if name != "roots"}
