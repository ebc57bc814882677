"""What claims of a person mean: a role, a part of the catalog, and the groups of the configuration.

The operator maps claims; a missing claim grants nothing. A person who is in several groups has what each of
them gives, with the role of each on its own part, and no more: a strong role on one part is none on another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from maitred.config.settings import AccessSettings, GroupEntry, Jwt
from maitred.model.access import EVERYTHING, ROLES, Grant, RefusedAccess, Role, Scope, ScopePart

PREFIX: Final = "oauth:"
"""Prefix of the principal's name, before the subject: a subject can never equal a principal of maitred."""
EVERY_GROUP: Final = "*"
"""The entry of `access.groups` for all persons whom the authorization server knows."""


@dataclass(frozen=True, kw_only=True)
class ClaimMapping:
    """What claims mean. A claim is named by its path, with dots between the steps (`realm_access.roles`).

    `roles` maps values of the claim `role` to roles; the strongest counts. `groups` maps the values of
    `group_claims` to roles on parts of the catalog. Where neither gives anything, `default_role` counts, and
    without one the token is refused. `servers` and `categories` name the claims that list what the bearer may
    use, `*` for all. If they are set, a token without the claim gets nothing. A bearer with the value
    `read_only` in the claim `scope` may only read. A claim is a list, or a text with spaces between the
    values. `remembered` are groups that a grant names though no entry is for them.
    """

    role: str = "roles"
    roles: Mapping[str, Role] = field(default_factory=dict)
    default_role: Role | None = None
    servers: str = ""
    categories: str = ""
    scope: str = "scope"
    read_only: str = ""
    group_claims: tuple[str, ...] = ()
    groups: Mapping[str, GroupEntry] = field(default_factory=dict)
    remembered: frozenset[str] = frozenset()


def claim_mapping(jwt: Jwt | None, access: AccessSettings) -> ClaimMapping:
    """What the settings say of claims: `jwt` of those in access tokens, `access` of groups."""
    meaning = ClaimMapping(
        role="",
        group_claims=access.groups_claim,
        groups=access.groups,
        remembered=frozenset(group for team in access.teams.values() for group in team.groups),
    )
    if jwt is None:
        return meaning
    return replace(
        meaning,
        role=jwt.role_claim,
        roles=jwt.roles,
        default_role=jwt.default_role,
        servers=jwt.servers_claim,
        categories=jwt.categories_claim,
        read_only=jwt.read_only_scope,
    )


def grant_from_claims(claims: Mapping[str, Any], meaning: ClaimMapping) -> Grant | RefusedAccess:
    """The grant that checked claims give, by their meaning; the subject must be a text."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        return RefusedAccess(reason="the token has no subject")
    groups = frozenset(value for path in meaning.group_claims for value in _group_names(claims, path))
    mine = [name for name, entry in meaning.groups.items() if _is_in(name, entry, groups, claims)]
    parts = _parts(claims, meaning, mine)
    if not parts and meaning.default_role:
        parts = [ScopePart(group="", role=meaning.default_role, scope=EVERYTHING)]
    if not parts:
        return RefusedAccess(
            reason="the token gives no role here; the operator of the gateway maps claims to roles"
        )
    scope = Scope(
        servers=_limit(claims, meaning.servers),
        categories=_limit(claims, meaning.categories),
        read_only=bool(meaning.read_only) and meaning.read_only in values_of(claims, meaning.scope),
        parts=() if len(parts) == 1 and parts[0].scope == EVERYTHING else tuple(parts),
    )
    named = {*mine, *(groups & meaning.remembered)}
    return Grant(principal=PREFIX + subject, role=parts[0].role, scope=scope, groups=tuple(sorted(named)))


def _parts(claims: Mapping[str, Any], meaning: ClaimMapping, mine: Sequence[str]) -> list[ScopePart]:
    """What roles and groups give, the strongest role first, without what another of them gives as well."""
    roles = [meaning.roles[value] for value in values_of(claims, meaning.role) if value in meaning.roles]
    given = [(name, meaning.groups[name]) for name in mine]
    parts = [ScopePart(group=name, role=entry.role, scope=_scope_of(entry)) for name, entry in given]
    if roles:
        parts.append(ScopePart(group="", role=max(roles, key=ROLES.index), scope=EVERYTHING))
    parts.sort(key=lambda part: (-ROLES.index(part.role), part.scope != EVERYTHING))
    whole = next((number for number, part in enumerate(parts) if part.scope == EVERYTHING), len(parts))
    return parts[: whole + 1]


def _scope_of(entry: GroupEntry) -> Scope:
    return Scope(
        servers=None if entry.servers is None else frozenset(entry.servers),
        categories=None if entry.categories is None else frozenset(entry.categories),
        read_only=entry.read_only,
        profiles=(entry.profile,) if entry.profile else (),
    )


def _is_in(name: str, entry: GroupEntry, groups: frozenset[str], claims: Mapping[str, Any]) -> bool:
    """Whether a person is in a group: by the claims of groups, or by the claim that its entry names."""
    if name == EVERY_GROUP:
        return True
    value = entry.value or name
    return value in (_group_names(claims, entry.claim) if entry.claim else groups)


def _group_names(claims: Mapping[str, Any], path: str) -> Sequence[str]:
    """The values of a claim, and a text also as a whole: names of groups may have spaces."""
    whole = _claim(claims, path)
    return [*values_of(claims, path), *([whole] if isinstance(whole, str) else [])]


def _limit(claims: Mapping[str, Any], path: str) -> frozenset[str] | None:
    if not path:
        return None
    values = values_of(claims, path)
    return None if "*" in values else frozenset(values)


def values_of(claims: Mapping[str, Any], path: str) -> Sequence[str]:
    """The texts of a claim, which is a list, or one text with spaces between its values."""
    value = _claim(claims, path)
    if isinstance(value, str):
        return value.split()
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """The value of a claim; one whose own name contains dots is found too."""
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
    return value
