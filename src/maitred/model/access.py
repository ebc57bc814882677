"""Access: roles, abilities, the part of the catalog that a grant covers, and viewers.

Authentication makes a grant of a caller. Its role says which abilities it has; its scope says for which
servers, categories and tools. Nothing here knows how the caller proved its identity. The decision is a pure
function, so MCP, HTTP and the command line cannot differ. A viewer is a grant with the connection and client
it comes from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

SHARED_CONNECTION: Final = "session "
"""How the name of a connection begins that every gateway on one store knows by this name."""

LOCAL: Final = "local"
"""The principal of the local user, who needs no token."""

Role = Literal["viewer", "agent", "operator", "admin"]
Ability = Literal[
    "see", "call", "watch", "operate", "register", "approve", "audit", "grant", "configure"
]  # fmt: skip

ROLES: Final[tuple[Role, ...]] = ("viewer", "agent", "operator", "admin")
"""From the weakest to the strongest; each has all abilities of those before it."""

LEAST: Final[Mapping[Ability, Role]] = {
    "see": "viewer",
    "call": "agent",
    "watch": "operator",
    "operate": "operator",
    "register": "operator",
    "approve": "admin",
    "audit": "admin",
    "grant": "admin",
    "configure": "admin",
}
"""The weakest role that has an ability.

`see`: find tools and read what they do. `call`: call tools, read resources, run chains. `watch`: read health,
usage and the output of servers. `operate`: restart and discover servers. `register`: propose servers, and
withdraw them. `approve`: decide on servers and on changes of them, suspend and resume. `audit`: read and
export the audit trail. `grant`: make and revoke tokens. `configure`: change the configuration.
"""

_ON_TOOLS: Final = frozenset({"see", "call"})
_READING: Final = frozenset({"see", "call", "watch", "audit"})


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The part of the catalog that a grant covers; `None` is no limit, an empty set covers nothing.

    A tool has to be within every limit. With `read_only`, only tools known to change nothing are covered.
    `profiles` are names of profiles of the configuration, which narrow the part further; `refusal` knows
    nothing of what they select. With `parts`, one of them has to allow what is done, beside these limits:
    that is what several groups give a person, each with a role of its own.
    """

    servers: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    read_only: bool = False
    profiles: tuple[str, ...] = ()
    parts: tuple["ScopePart", ...] = ()

    @property
    def server_limit(self) -> frozenset[str] | None:
        """The servers that a scope covers at most, those of its parts together; `None` is no limit."""
        limits = [part.scope.server_limit for part in self.parts] or [None]
        if None in limits:
            return self.servers
        together = frozenset[str]().union(*(limit for limit in limits if limit is not None))
        return together if self.servers is None else self.servers & together

    @property
    def shown_profiles(self) -> tuple[str, ...]:
        """The profiles that decide what a list shows: its own, and those of its part if it has just one."""
        return (self.parts[0].scope.profiles if len(self.parts) == 1 else ()) + self.profiles


@dataclass(frozen=True, kw_only=True)
class ScopePart:
    """What one group gives its members: a role on a part of the catalog."""

    group: str
    role: Role
    scope: Scope


EVERYTHING: Final = Scope()


@dataclass(frozen=True, kw_only=True)
class Grant:
    """The rights of a caller. `principal` is its identity; `id` names the token, empty if there is none.

    `role` is the strongest that the caller has on any part. `groups` are those of the configuration that an
    authorization server says it is in.
    """

    principal: str
    role: Role
    scope: Scope = EVERYTHING
    id: str = ""
    groups: tuple[str, ...] = ()

    def by_parts(self) -> tuple["Grant", Sequence["Grant"]]:
        """The grant without its parts, and one for each of these."""
        whole = replace(self, scope=replace(self.scope, parts=()))
        each = [
            replace(self, role=part.role, scope=part.scope, id=self.id or f"group {part.group}")
            for part in self.scope.parts
        ]
        return whole, each


LOCAL_GRANT: Final = Grant(principal=LOCAL, role="admin")
"""The user of this machine, who can read and write the files of maitred anyway."""


@dataclass(frozen=True, kw_only=True)
class RefusedAccess:
    """The reason why a caller gets no grant; the caller may read it.

    `unavailable`: the decision needs something that cannot be had now, so the same credentials may work
    later.
    """

    reason: str
    unavailable: bool = False


def may(
    grant: Grant,
    ability: Ability,
    *,
    server: str | None = None,
    category: str | None = None,
    read_only: bool | None = None,
) -> bool:
    """Return whether a grant allows something; see `refusal` for the arguments."""
    return not refusal(grant, ability, server=server, category=category, read_only=read_only)


def refusal(
    grant: Grant,
    ability: Ability,
    *,
    server: str | None = None,
    category: str | None = None,
    read_only: bool | None = None,
) -> str:
    """Return why a grant does not allow something, as a sentence for the caller; empty if it does.

    `None` means that the question is not about one server, one category or one tool. `see` and `call` are
    then allowed in general, and the gateway filters the results. The other abilities act on a server or on
    the whole gateway: a grant for a part of it needs a server within that part. That of a token with a
    profile has none of them. `category` is empty for a
    tool without one. `read_only` is whether the tool is known to change nothing.
    """
    if grant.scope.parts:
        whole, each = grant.by_parts()
        about: Mapping[str, Any] = {"server": server, "category": category, "read_only": read_only}
        return refusal(whole, ability, **about) or nearest_reason(
            {refusal(one, ability, **about): refusal(one, "see", **about) for one in each}
        )
    return _refusal_without_parts(grant, ability, server=server, category=category, read_only=read_only)


def nearest_reason(unseen: Mapping[str, str]) -> str:
    """The reason of a part that at least shows what is refused; empty if one of the parts allows it.

    `unseen` says for the reason of each part why that part does not show it.
    """
    return "" if "" in unseen else min(unseen, key=lambda reason: bool(unseen[reason]))


def _refusal_without_parts(
    grant: Grant, ability: Ability, *, server: str | None, category: str | None, read_only: bool | None
) -> str:
    least, scope, who = LEAST[ability], grant.scope, repr(grant.principal)
    if ROLES.index(grant.role) < ROLES.index(least):
        return f"this needs the role {least!r}, and {who} has {grant.role!r}"
    if scope.read_only and (ability not in _READING or read_only is False):
        return f"{who} may only read, and this may change something"
    if server is not None and not _is_covered(server, scope.servers):
        return f"{who} has no access to the server {server!r}"
    if ability in _ON_TOOLS:
        if category is None or _is_covered(category, scope.categories):
            return ""
        return f"{who} has no access to " + (
            f"the category {category!r}" if category else "uncategorised tools"
        )
    part = scope.categories is not None or (server is None and scope.servers is not None)
    part = part or bool(scope.profiles and grant.id)  # without a token, the client chose it
    return f"{who} has access to a part of the catalog only, and this concerns more" if part else ""


def beyond(grant: Grant) -> str:
    """What lies outside a scope, in words for who has the grant."""
    scope = grant.scope
    if scope.profiles and scope == Scope(profiles=scope.profiles):
        return f"outside the profile {scope.profiles[-1]!r}"
    if scope.parts:
        return f"outside what the groups of {grant.principal!r} may use"
    return f"outside what {grant.principal!r} may use"


def _is_covered(name: str, limit: frozenset[str] | None) -> bool:
    return limit is None or name in limit


ViewerEra = Literal["handshake", "stateless"]
Surface = Literal["", "mcp", "http", "cli", "web"]


@dataclass(frozen=True, kw_only=True)
class ClientStart:
    """What a client's program said of itself: a random id that identifies it, and the folder it works in.

    A folder that is no project's, such as the home folder, is empty.
    """

    client: str = ""
    folder: str = ""


NO_START: Final = ClientStart()


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """A principal with its rights, for one request.

    In the handshake era a connection has a state of its own, and `connection` names it. The same holds for a
    client with its own wire. Otherwise it is empty in the stateless era, where all requests of a principal
    count together. `client` is the name that the client gives itself, a claim and no proof. `surface` is
    where the request came in, empty for a program's own calls. `start` is what the client's program said when
    it connected, where there is one. `version` is the client's own, another claim. `folder` is where a client
    works that has this gateway for itself.
    """

    grant: Grant
    connection: str = ""
    client: str = ""
    era: ViewerEra = "stateless"
    surface: Surface = ""
    start: ClientStart = NO_START
    version: str = ""
    folder: str = ""

    @property
    def project(self) -> str:
        """The folder that the client works in; empty where no program said it, as over HTTP."""
        return self.folder or self.start.folder

    @property
    def principal(self) -> str:
        """The name of the principal."""
        return self.grant.principal

    @property
    def roles(self) -> tuple[str, ...]:
        """The role, as visibility rules read it."""
        return (self.grant.role,)

    @property
    def scope(self) -> tuple[str, str]:
        """The key under which the state of servers is stored."""
        return self.principal, self.connection


LOCAL_USER: Final = Viewer(grant=LOCAL_GRANT)
"""The user of this machine, who may do everything."""
