"""Roles, abilities and scopes: the whole table of who may do what."""

from dataclasses import replace
from typing import get_args

import pytest

from maitred.model.access import LEAST, LOCAL_GRANT, ROLES, Ability, Grant, Role, Scope, may, refusal

#          see call watch operate register approve audit grant configure
TABLE = {
    "viewer": "y - - - - - - - -",
    "agent": "y y - - - - - - -",
    "operator": "y y y y y - - - -",
    "admin": "y y y y y y y y y",
}
ABILITIES = get_args(Ability)
CASES = [
    (role, ability, allowed == "y")
    for role, row in TABLE.items()
    for ability, allowed in zip(ABILITIES, row.split(), strict=True)
]


def grant(role: Role = "admin", **scope: object) -> Grant:
    limits = {k: frozenset(v) if isinstance(v, list) else v for k, v in scope.items()}
    return Grant(principal="ci", role=role, scope=Scope(**limits))  # type: ignore[arg-type]


def test_the_table_is_whole() -> None:
    """Every role and every ability has its place in it."""
    assert tuple(TABLE) == ROLES == get_args(Role)
    assert set(LEAST) == set(ABILITIES)
    assert len(CASES) == 36


@pytest.mark.parametrize(("role", "ability", "allowed"), CASES)
def test_a_role_has_exactly_these_abilities(role: Role, ability: Ability, *, allowed: bool) -> None:
    """With no limit of scope, on a server, on a tool, and on the whole gateway alike."""
    assert may(grant(role), ability) is allowed
    assert may(grant(role), ability, server="s", category="c", read_only=False) is allowed
    assert may(grant(role, read_only=False), ability, server="s") is allowed


@pytest.mark.parametrize("ability", ABILITIES)
@pytest.mark.parametrize(
    ("scope", "within", "outside"),
    [
        ({"servers": ["s"]}, {"server": "s"}, {"server": "t"}),
        ({"servers": []}, {}, {"server": "s"}),
        ({"categories": ["c"]}, {"category": "c"}, {"category": "d"}),
        ({"categories": ["c"]}, {"category": "c"}, {"category": ""}),
        ({"servers": ["s"], "categories": ["c"]}, {"server": "s"}, {"server": "t", "category": "c"}),
        ({"read_only": True}, {"read_only": True}, {"read_only": False}),
    ],
)  # fmt: skip
def test_a_scope_covers_what_is_within_every_limit_and_nothing_else(
    ability: Ability, scope: dict[str, object], within: dict[str, object], outside: dict[str, object]
) -> None:
    """A grant for a part of the catalog neither sees nor does anything elsewhere, whatever its role."""
    limited = grant(**scope)  # type: ignore[arg-type]
    whole = ability in ("see", "call")
    limits_categories = "categories" in scope
    changes = ability in ("operate", "register", "approve", "grant", "configure")
    server_only = "servers" in scope and not limits_categories and "server" in within

    expected = whole or server_only or ("read_only" in scope and not changes)
    assert may(limited, ability, **within) is expected  # type: ignore[arg-type]
    assert not may(limited, ability, **outside)  # type: ignore[arg-type]


def test_a_limited_grant_may_open_the_menu_but_not_manage_the_gateway() -> None:
    """What the menu shows is filtered; tokens and configuration cannot be."""
    limited = grant(servers=["s"])

    assert may(limited, "see")
    assert may(limited, "call")
    assert not may(limited, "grant")
    assert not may(limited, "audit")
    assert "a part of the catalog only" in refusal(limited, "configure")


def test_a_refusal_says_what_is_missing() -> None:
    """The caller reads who it is taken for and what it would need."""
    viewer = replace(grant(), role="viewer")

    assert refusal(viewer, "call") == "this needs the role 'agent', and 'ci' has 'viewer'"
    assert refusal(grant(servers=["a"]), "call", server="b") == "'ci' has no access to the server 'b'"
    assert "may only read" in refusal(grant(read_only=True), "call", read_only=False)
    assert "uncategorised" in refusal(grant(categories=["a"]), "see", category="")
    assert refusal(grant(), "configure") == ""


def test_the_local_user_may_do_everything() -> None:
    """Whoever can write the files of maitred is not kept from anything by it."""
    assert all(may(LOCAL_GRANT, ability, server="s", category="", read_only=False) for ability in ABILITIES)
