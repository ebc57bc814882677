"""Check the section `access`: groups of people, teams, and the provider by which people sign in.

`access_faults` sees the section alone; `access_conflicts` what it needs of other sections.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from maitred.config.sections import is_safe_url
from maitred.config.settings import AccessSettings, Http, SignIn
from maitred.wording import did_you_mean

Faults = Iterator[tuple[Sequence[str], str]]
_ANYBODY: Final = "*"


def access_faults(section: AccessSettings) -> Faults:
    """Yield the faults of the section: the keys below it, and a text."""
    for name, group in section.groups.items():
        if name == _ANYBODY and (group.claim or group.value):
            yield ["groups", name], "is everybody who has a token or signs in; leave out `claim` and `value`"
        elif name != _ANYBODY and not group.claim and not section.groups_claim:
            yield ["groups", name], "needs a `claim`, since `groups_claim` names none"
    for name, team in section.teams.items():
        if not team.groups and not team.principals:
            yield ["teams", name], "has no members; name `groups` or `principals`"
    if section.sign_in is not None:
        for key, fault in _sign_in_faults(section.sign_in):
            yield ["sign_in", key], fault


def _sign_in_faults(section: SignIn) -> Iterator[tuple[str, str]]:
    for key, url in (("issuer", section.issuer), ("url", section.url)):
        if not is_safe_url(url):
            yield key, "must start with https:// (http:// only on this machine)"
        elif "@" in urlsplit(url).netloc or urlsplit(url).query or urlsplit(url).fragment:
            yield key, "must be the address alone, without a name, a password, or anything after `?` or `#`"
        elif key == "url" and urlsplit(url).path not in ("", "/"):
            yield key, "must have no path: the pages are at `/ui/` below it"
    if "openid" not in section.scopes:
        yield "scopes", "must have `openid`, without which a provider does not say who signed in"
    if any(len(scope.split()) != 1 for scope in section.scopes):
        yield "scopes", "must be a list of single words"


def access_conflicts(access: AccessSettings, http: Http, profiles: Mapping[str, Any]) -> Faults:
    """Yield what does not fit together: whole keys, and a text."""
    jwt, sign_in = http.jwt, access.sign_in
    gives_roles = bool(access.groups or (jwt and (jwt.roles or jwt.default_role)))
    if jwt is not None and not gives_roles:
        hint = "fill `roles`, set `default_role`, or fill `access.groups`"
        yield ["http", "jwt", "roles"], f"names no role, so no token is accepted; {hint}"
    if sign_in is not None and jwt is None and not gives_roles:
        yield ["access", "sign_in"], "gives no person a role; fill `access.groups` (`'*'` is everybody)"
    if sign_in is not None and jwt is not None and jwt.issuer != sign_in.issuer:
        text = "must be that of `http.jwt`, since a person is known by a name of one issuer"
        yield ["access", "sign_in", "issuer"], text
    for name, group in access.groups.items():
        if group.profile and group.profile not in profiles:
            hint = did_you_mean(group.profile, profiles, lead="; ")
            yield ["access", "groups", name, "profile"], f"there is no profile {group.profile!r}{hint}"
