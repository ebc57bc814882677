"""Who may do what: roles, abilities, and the part of the catalog that a grant covers.

A grant is what authentication makes of a caller. Its role says which abilities it has, its scope over which
servers, categories and tools; nothing here knows how the caller proved who it is. Deciding is a pure
function, so that MCP, HTTP and the command line cannot differ.

Who asks, under which name what somebody spends, may see and has kept is written down, and from where.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

LOCAL: Final = "local"
"""The principal who is not told apart: the user of this machine."""

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

`see`: find tools and read what they do. `call`: call tools, read resources, run chains. `watch`: read
health, usage and the output of servers. `operate`: restart and discover servers. `register`: propose servers,
and withdraw them. `approve`: decide on servers and on changes of them, suspend and resume. `audit`: read and
export the audit trail. `grant`: make and revoke tokens. `configure`: change the configuration.
"""

_ON_TOOLS: Final = frozenset({"see", "call"})
_READING: Final = frozenset({"see", "call", "watch", "audit"})


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The part of the catalog that a grant covers; `None` is no limit, an empty set covers nothing.

    A tool has to be within every limit. With `read_only`, only tools known to change nothing are covered.
    """

    servers: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    read_only: bool = False


EVERYTHING: Final = Scope()


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What a caller was given. `principal` is who it is; `id` names the token, empty where there is none."""

    principal: str
    role: Role
    scope: Scope = EVERYTHING
    id: str = ""


LOCAL_GRANT: Final = Grant(principal=LOCAL, role="admin")
"""The user of this machine, who could read and write the files of maitred anyway."""


@dataclass(frozen=True, kw_only=True)
class RefusedAccess:
    """Why a caller gets no grant; `reason` may be shown to it.

    `unavailable`: what is needed to decide cannot be had now, so the same credentials may do later.
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
    """Whether a grant allows something; see `refusal` for the arguments."""
    return not refusal(grant, ability, server=server, category=category, read_only=read_only)


def refusal(
    grant: Grant,
    ability: Ability,
    *,
    server: str | None = None,
    category: str | None = None,
    read_only: bool | None = None,
) -> str:
    """Why a grant does not allow something, as a sentence for the caller; empty if it does.

    `None` means that the question is not about one server, one category or one tool. `see` and `call` are
    then allowed in general, and what they find is filtered; the other abilities act on a server or on the
    whole gateway, so a grant that covers a part of it needs a server that is within that part. `category` is
    empty for a tool without one, and `read_only` is whether the tool is known to change nothing.
    """
    least, scope, who = LEAST[ability], grant.scope, repr(grant.principal)
    if ROLES.index(grant.role) < ROLES.index(least):
        return f"this needs the role {least!r}, and {who} has {grant.role!r}"
    if scope.read_only and (ability not in _READING or read_only is False):
        return f"{who} may only read, and this may change something"
    if server is not None and not _within(server, scope.servers):
        return f"{who} has no access to the server {server!r}"
    if ability in _ON_TOOLS:
        if category is None or _within(category, scope.categories):
            return ""
        return f"{who} has no access to " + (
            f"the category {category!r}" if category else "uncategorised tools"
        )
    part = scope.categories is not None or (server is None and scope.servers is not None)
    return f"{who} has access to a part of the catalog only, and this concerns more" if part else ""


def _within(name: str, limit: frozenset[str] | None) -> bool:
    return limit is None or name in limit


ViewerEra = Literal["handshake", "stateless"]
Surface = Literal["", "mcp", "http", "cli"]


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """A principal as one look at the tools finds them, with what they may do.

    In the handshake era a connection has a state of its own, and `connection` tells it from others, as it
    does for a client that has a wire of its own; in the stateless era it is empty otherwise, and all that a
    principal does counts together. `client` is the name that the client gives itself, a claim and no proof;
    `surface` is where it came in, empty for a program's own calls.
    """

    grant: Grant
    connection: str = ""
    client: str = ""
    era: ViewerEra = "stateless"
    surface: Surface = ""

    @property
    def principal(self) -> str:
        """Who it is."""
        return self.grant.principal

    @property
    def roles(self) -> tuple[str, ...]:
        """The role, as visibility rules read it."""
        return (self.grant.role,)

    @property
    def scope(self) -> tuple[str, str]:
        """What the state of servers is kept for."""
        return self.principal, self.connection


LOCAL_USER: Final = Viewer(grant=LOCAL_GRANT)
"""The user of this machine, who may do everything."""
