"""People whom an authorization server puts into groups: each gives its role on its own part, and no more."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.access.house import opened, settings_of
from tests.access.test_http import ISSUED, key_server
from tests.admission import issuer

from maitred.access.claims import ClaimMapping, claim_mapping, grant_from_claims
from maitred.config.load import parse
from maitred.config.settings import AccessSettings, GroupEntry, Http
from maitred.errors import ConfigError, NotAllowedError
from maitred.gateway import Gateway
from maitred.model.access import EVERYTHING, LOCAL_USER, Grant, RefusedAccess, Scope, Viewer, refusal
from maitred.model.profiles import Profile
from maitred.model.tools import ToolCall

pytestmark = pytest.mark.anyio

DESK = GroupEntry(role="agent", profile="desk")
FILES = GroupEntry(role="viewer", servers=("files",))
GROUPS = {"desk": DESK, "Files readers": FILES, "ops": GroupEntry(role="operator", servers=("files",))}
MEANING = ClaimMapping(role="", group_claims=("groups", "realm_access.roles"), groups=GROUPS)


def grant_of(meaning: ClaimMapping = MEANING, **claims: Any) -> Grant | RefusedAccess:
    return grant_from_claims({"sub": "ann", **claims}, meaning)


def granted(meaning: ClaimMapping = MEANING, **claims: Any) -> Grant:
    found = grant_of(meaning, **claims)
    assert isinstance(found, Grant)
    return found


@pytest.mark.parametrize(
    ("claims", "groups"),
    [
        ({"groups": ["desk", "staff"]}, ("desk",)),
        ({"groups": "staff desk"}, ("desk",)),
        ({"groups": "Files readers"}, ("Files readers",)),
        ({"groups": ["Files readers"], "realm_access": {"roles": ["desk"]}}, ("Files readers", "desk")),
        ({"realm_access.roles": ["ops", 7, None]}, ("ops",)),
    ],
    ids=str,
)
def test_groups_are_read_from_lists_texts_and_nested_claims(claims: Any, groups: tuple[str, ...]) -> None:
    """The grant says which groups of the configuration the person is in."""
    assert granted(**claims).groups == groups


@pytest.mark.parametrize(
    "claims", [{}, {"groups": ["staff"]}, {"groups": 7}, {"groups": {"desk": True}}], ids=str
)
def test_a_person_in_no_known_group_is_refused(claims: Any) -> None:
    """Nothing is given by default."""
    assert isinstance(grant_of(**claims), RefusedAccess)


def test_a_group_may_be_known_by_another_claim_and_one_is_for_everybody() -> None:
    """A claim such as the department counts for its own entry alone."""
    groups = {"*": GroupEntry(role="viewer"), "money": replace(DESK, claim="org.unit", value="Finance")}
    meaning = replace(MEANING, groups=groups)

    finance = granted(meaning, org={"unit": "Finance"})
    other = granted(meaning, groups=["money", "Finance"])

    assert finance.groups == ("*", "money")
    assert (finance.role, other.role) == ("agent", "viewer")
    assert other.groups == ("*",)


def test_a_strong_role_on_one_part_is_none_on_another() -> None:
    """An operator of one server stays an agent, or nothing, elsewhere."""
    both = granted(groups=["desk", "ops"])

    assert both.role == "operator"
    assert not refusal(both, "watch", server="files")
    assert "needs the role 'operator'" in refusal(both, "watch", server="tickets")
    assert "a part of the catalog only" in refusal(both, "watch")
    assert not refusal(both, "call", server="tickets", category="x", read_only=False)
    assert "'viewer'" in refusal(granted(groups=["Files readers"]), "call", server="files")
    assert refusal(granted(groups="desk"), "watch")


def test_a_role_on_everything_makes_weaker_parts_needless() -> None:
    """Whatever other groups say."""
    meaning = replace(MEANING, role="roles", roles={"boss": "admin"})

    assert granted(meaning, roles=["boss"], groups=["desk", "ops"]) == Grant(
        principal="oauth:ann", role="admin", scope=EVERYTHING, groups=("desk", "ops")
    )


def test_limits_of_the_token_hold_beside_groups() -> None:
    """What the token says of servers limits every group."""
    meaning = replace(MEANING, servers="mcp_servers")

    limited = granted(meaning, groups=["desk", "ops"], mcp_servers=["tickets"])

    assert refusal(limited, "watch", server="files")
    assert limited.scope.server_limit == frozenset({"tickets"})
    assert granted(groups=["Files readers", "ops"]).scope.server_limit == frozenset({"files"})
    assert granted(groups=["desk", "ops"]).scope.server_limit is None


@asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Gateway]:
    profiles = {"desk": Profile(tools=("tickets/list_*",))}
    async with opened(replace(settings_of(folder), profiles=profiles)) as gateway:
        yield gateway


async def test_a_person_sees_what_their_groups_give_together(tmp_path: Path) -> None:
    """And calls only what a group with the role agent gives."""
    ann = Viewer(grant=granted(groups=["desk", "Files readers"]))
    async with desk(tmp_path) as gateway:
        seen = {tool.name for tool in gateway.visible_tools(ann)}
        files = [offer.key.server for offer in gateway.offers(ann).list("resource")]
        one = {tool.name for tool in gateway.visible_tools(Viewer(grant=granted(groups=["desk"])))}
        answer = await gateway.call(ToolCall(name="tickets__list_tickets", arguments={}), viewer=ann)
        with pytest.raises(NotAllowedError, match="needs the role 'agent'"):
            await gateway.call(ToolCall(name="files__read_note", arguments={}), viewer=ann)
        with pytest.raises(NotAllowedError, match="not in the profile 'desk'"):
            await gateway.call(ToolCall(name="tickets__close_ticket", arguments={}), viewer=ann)

    assert one == {"tickets__list_tickets"}
    assert files == ["tickets"]
    assert seen == {"tickets__list_tickets", "files__read_note", "files__write_note"}
    assert "tickets/list_tickets" in str(answer)


def settings(text: str) -> AccessSettings:
    return parse(Path("maitred.yaml"), text).access


def test_groups_are_read_from_the_file() -> None:
    """With all that a group may say."""
    text = """
profiles: {desk: {servers: [tickets]}}
access:
  groups_claim: [groups, realm_access.roles]
  groups:
    desk: {role: agent, profile: desk}
    money: {role: viewer, claim: department, value: Finance, servers: [books], read_only: true}
"""
    access = settings(text)
    meaning = claim_mapping(None, access)

    assert access.groups["desk"] == DESK
    found = grant_from_claims({"sub": "ann", "department": "Finance"}, meaning)
    assert isinstance(found, Grant)
    assert found.scope.parts[0].scope == Scope(servers=frozenset({"books"}), read_only=True)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("groups: {a: {}}", "access.groups.a.role"),
        ("groups: {a: {role: boss}}", "access.groups.a.role"),
        ("groups: {a: {role: agent, profile: dusk}}", "there is no profile 'dusk'; did you mean 'desk'"),
        ("groups: {'*': {role: agent, claim: x}}", "leave out `claim`"),
        ("groups_claim: [], groups: {a: {role: agent}}", "needs a `claim`"),
        ("groups: {a: {role: agent, team: x}}", "team: is not a known key"),
    ],
)
def test_faults_of_groups_are_named(text: str, fault: str) -> None:
    """With the key that has each."""
    with pytest.raises(ConfigError) as error:
        parse(Path("maitred.yaml"), f"profiles: {{desk: {{servers: [tickets]}}}}\naccess: {{{text}}}")
    assert fault.lower() in str(error.value).lower()


async def test_what_groups_give_changes_while_the_gateway_runs(tmp_path: Path) -> None:
    """A group that is taken out of the file gives nothing from then on."""
    now = time.time()
    token = issuer.token(exp=now + 60, iat=now, roles=[], groups=["desk"])
    with key_server() as url:
        http = Http(jwt=replace(ISSUED, jwks_url=url))
        settings = settings_of(tmp_path, http, AccessSettings(groups={"desk": FILES}))
        async with opened(settings) as gateway:
            before = await gateway.grant_of(token)
            await gateway.configure(replace(settings, access=AccessSettings()), viewer=LOCAL_USER)
            after = await gateway.grant_of(token)

    assert isinstance(before, Grant)
    assert before.groups == ("desk",)
    assert isinstance(after, RefusedAccess)
