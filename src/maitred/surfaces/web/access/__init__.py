"""Access: tokens with their roles and scopes, the catalog as a bearer sees it, and the allow list.

A token is shown once, on the page after it was made, and is in no address and in no storage of a browser.
To add a limit to the form, read its field in `create`; the gateway checks it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from maitred.access.token_store import TokenRecord
from maitred.access.tokens import TokenRequest, token_state
from maitred.errors import ConfigError, TokenNotFoundError
from maitred.model.access import LEAST, ROLES, Scope, Viewer
from maitred.surfaces.web.access.allow_list import add_pattern, remove_pattern, view_allow_list
from maitred.surfaces.web.access.principals import resume, suspend
from maitred.surfaces.web.screen import Action, Form, ScreenPage, Visit, WebScreen, url_of

_LIFETIME: Final = re.compile(r"([1-9][0-9]{0,4})([hd])")
_SHOWN: Final = 60
_ABILITIES: Final = {
    "see": "find tools and read what they do",
    "call": "call tools, read resources, run chains",
    "watch": "read health, usage and output of servers",
    "operate": "restart and discover servers",
    "register": "propose servers, and withdraw them",
    "approve": "decide on servers and their changes",
    "audit": "read the audit trail",
    "grant": "make and revoke tokens",
    "configure": "change the configuration",
}


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A token as the list shows it."""

    record: TokenRecord
    state: str
    scope: str


def _scope_text(scope: Scope) -> str:
    """The limits of a token in words."""
    limits = [
        f"servers {', '.join(sorted(scope.servers))}" if scope.servers is not None else "",
        f"categories {', '.join(sorted(scope.categories))}" if scope.categories is not None else "",
        "only reading" if scope.read_only else "",
        f"profile {', '.join(scope.profiles)}" if scope.profiles else "",
    ]
    return "; ".join(filter(None, limits)) or "everything"


async def view_tokens(visit: Visit) -> Mapping[str, Any]:
    """All tokens, what each role may do, and a form for another token."""
    records = await visit.gateway.access_tokens(visit.viewer)
    return {
        "tokens": [
            TokenRow(record=one, state=token_state(one), scope=_scope_text(one.grant.scope))
            for one in records
        ],
        "suspended": await visit.gateway.suspended_principals(visit.viewer),
        "roles": ROLES,
        "abilities": [
            (text, [ROLES.index(role) >= ROLES.index(LEAST[ability]) for role in ROLES])  # type: ignore[index]
            for ability, text in _ABILITIES.items()
        ],
        "servers": sorted(visit.gateway.server_names(visit.viewer)),
        "profiles": list(visit.gateway.settings.profiles),
        "categories": [  # not the groups: no scope has one
            line.category.name
            for line in visit.gateway.categories(visit.viewer).lines
            if not line.proposed_by
        ],
    }


async def view_as(visit: Visit) -> Mapping[str, Any]:
    """What the bearer of a token finds: the tools, categories and servers of its scope."""
    records = await visit.gateway.access_tokens(visit.viewer)
    record = next((one for one in records if one.id == visit.path["token"]), None)
    if record is None:
        raise TokenNotFoundError(visit.path["token"])
    bearer = Viewer(grant=record.grant, surface="web")
    tools = visit.gateway.visible_tools(bearer)
    return {
        "page_title": f"As {record.grant.principal} · Access",
        "record": record,
        "scope": _scope_text(record.grant.scope),
        "token_state": token_state(record),
        "categories": visit.gateway.categories(bearer).lines,
        "servers": visit.gateway.server_names(bearer),
        "tools": tools[:_SHOWN],
        "total": len(tools),
        "everything": len(visit.gateway.visible_tools(visit.viewer)),
        "menu": visit.gateway.overview(bearer),
    }


async def create(visit: Visit, form: Form) -> str:
    """Make a token; it is shown once, on the next page."""
    role = next((one for one in ROLES if one == form.text("role")), None)
    lifetime = _LIFETIME.fullmatch(form.text("expires"))
    faults = [
        *([] if role else ["choose a role"]),
        *([] if lifetime or not form.text("expires") else ["write the time as 30d or 12h"]),
    ]
    if role is None or faults:
        raise ConfigError("token", faults)
    days = {"h": "hours", "d": "days"}
    servers, categories = form.every("server"), form.every("category")
    made = await visit.gateway.make_token(
        TokenRequest(
            name=form.text("name"),
            role=role,
            scope=Scope(
                servers=frozenset(servers) if servers else None,
                categories=frozenset(categories) if categories else None,
                read_only=form.text("read_only") == "yes",
                profiles=(profile,) if (profile := form.text("profile")) else (),
            ),
            lifetime=timedelta(**{days[lifetime[2]]: int(lifetime[1])}) if lifetime else None,
        ),
        visit.viewer,
    )
    visit.notify(f"The token of {made.record.grant.principal}, which is not shown again: {made.token}")
    return url_of("access")


async def revoke(visit: Visit, _: Form) -> str:
    """Revoke a token; who uses it is refused within a second."""
    gone = await visit.gateway.revoke_tokens(visit.path["token"], visit.viewer)
    visit.notify(f"Revoked the token of {', '.join(sorted({one.grant.principal for one in gone}))}.")
    return url_of("access")


SCREEN: Final = WebScreen(
    title="Access",
    role="admin",
    summary="tokens, roles and scopes; the allow list of registration",
    pages=[
        ScreenPage(path="access", template="access/access.html", view=view_tokens),
        ScreenPage(path="access/allow", template="access/allow.html", view=view_allow_list),
        ScreenPage(path="access/{token}", template="access/as.html", view=view_as),
    ],
    actions=[
        Action(path="access/create", act=create),
        Action(path="access/allow/add", act=add_pattern),
        Action(path="access/allow/remove", act=remove_pattern),
        Action(path="access/suspend", act=suspend),
        Action(path="access/resume", act=resume),
        Action(path="access/{token}/revoke", act=revoke),
    ],
)
