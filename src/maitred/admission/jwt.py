"""Access tokens of an authorization server (OAuth 2.1): a JWT in, the grant of its bearer out, or why none.

maitred is a resource server here: it makes no tokens, and takes only those that were made for it (audience)
by the issuer it trusts, signed with a key of that issuer by an algorithm the operator allows. What the claims
mean, that is which role and which part of the catalog, is the operator's choice as well, and what a token
does not say it does not get.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import jwt

from maitred.admission.jwks import KeySet, KeysUnavailableError, fetch_keys
from maitred.config.settings import Jwt
from maitred.model.access import ROLES, Grant, Refused, Role, Scope

ALGORITHMS: Final = frozenset({
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
})  # fmt: skip
"""Algorithms that may be allowed: all have a public key, which the issuer publishes."""
PREFIX: Final = "oauth:"
"""Before the subject in the name of a principal, so that no subject is taken for a principal of ours."""
_TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
_MAX_TOKEN: Final = 16_384
_MAX_TIME: Final = 1e12


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What claims mean. A claim is named by its path, dots between the steps (`realm_access.roles`).

    `roles` gives roles for values of the claim `role`; the strongest counts, `default_role` where none is
    known, and without that nobody is let in. `servers` and `categories` name claims that list what the bearer
    may use, `*` for all; where they are set, a token without them gets nothing. Whoever has the value
    `read_only` in the claim `scope` may only read. Claims are lists, or texts with spaces between the values.
    """

    role: str = "roles"
    roles: Mapping[str, Role] = field(default_factory=dict)
    default_role: Role | None = None
    servers: str = ""
    categories: str = ""
    scope: str = "scope"
    read_only: str = ""


@dataclass(frozen=True, kw_only=True)
class JwtPolicy:
    """Which tokens are taken: the issuer word for word, any of the audiences, and so many seconds of skew.

    Raises:
        ValueError: An algorithm without a public key is to be allowed, or the issuer or audience is missing.
    """

    issuer: str
    audiences: tuple[str, ...]
    algorithms: frozenset[str] = frozenset({"RS256", "PS256", "ES256", "EdDSA"})
    skew_s: float = 30.0
    claims: Claims = field(default_factory=Claims)

    def __post_init__(self) -> None:
        if not self.issuer or not self.audiences or not all(self.audiences):
            raise ValueError("an issuer and at least one audience are needed to check tokens")
        if wrong := sorted(self.algorithms - ALGORITHMS):
            raise ValueError(
                f"{', '.join(wrong)} cannot be allowed; there are {', '.join(sorted(ALGORITHMS))}"
            )


class JwtVerifier:
    """Checks tokens. `clock` is the time in seconds since 1970."""

    def __init__(self, policy: JwtPolicy, keys: KeySet, *, clock: Callable[[], float] = time.time) -> None:
        self.policy = policy
        self._keys = keys
        self._clock = clock

    async def grant_of(self, token: str) -> Grant | Refused:
        """What the bearer of a token is given, or why nothing."""
        try:
            header = jwt.get_unverified_header(token) if len(token) <= _MAX_TOKEN else {}
        except (jwt.PyJWTError, ValueError, RecursionError):
            header = {}
        if reason := self._header_fault(header):
            return Refused(reason=reason)
        try:
            key = await self._keys.key(header.get("kid", ""), header["alg"])
        except KeysUnavailableError:
            return Refused(reason="the token cannot be checked now, try again later", unavailable=True)
        if key is None:
            return Refused(reason="the token is not signed with a key that its issuer publishes")
        claims = self._claims(token, key)
        if isinstance(claims, Refused):
            return claims
        if reason := self._time_fault(claims):
            return Refused(reason=reason)
        return granted(claims, self.policy.claims)

    def _header_fault(self, header: Mapping[str, Any]) -> str:
        if not header or not isinstance(header.get("kid", ""), str):
            return "this is not a token that can be read"
        if str(header.get("alg")) not in self.policy.algorithms:
            return "the token is signed by an algorithm that is not allowed here"
        if "crit" in header or str(header.get("typ") or "").lower() not in _TYPES:
            return "the token is not an access token"
        return ""

    def _claims(self, token: str, key: jwt.PyJWK) -> Mapping[str, Any] | Refused:
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=self.policy.audiences,
                issuer=self.policy.issuer,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_exp": False,  # times are checked by the clock that was handed in
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.MissingRequiredClaimError as error:
            return Refused(reason=f"the token has no claim {error.claim!r}")
        except jwt.InvalidIssuerError:
            return Refused(reason="the token comes from another issuer")
        except jwt.InvalidAudienceError:
            return Refused(reason="the token was not made for this gateway (audience)")
        except (jwt.PyJWTError, ValueError, RecursionError):
            return Refused(reason="the token is damaged, or its signature is wrong")
        return claims

    def _time_fault(self, claims: Mapping[str, Any]) -> str:
        now, skew = self._clock(), self.policy.skew_s
        times = {name: claims[name] for name in ("exp", "nbf", "iat") if claims.get(name) is not None}
        if "exp" not in times or not all(map(_is_time, times.values())):
            return "the token has a time that is none"
        if times["exp"] + skew <= now:
            return "the token has expired"
        if times.get("nbf", 0) - skew > now or times.get("iat", 0) - skew > now:
            return "the token is not valid yet"
        return ""


def verifier_of(settings: Jwt) -> JwtVerifier:
    """What checks tokens as the settings say; keys are fetched for the first."""
    claims = Claims(
        role=settings.role_claim,
        roles=settings.roles,
        default_role=settings.default_role,
        servers=settings.servers_claim,
        categories=settings.categories_claim,
        read_only=settings.read_only_scope,
    )
    policy = JwtPolicy(issuer=settings.issuer, audiences=settings.audience, claims=claims)
    return JwtVerifier(policy, KeySet(partial(fetch_keys, settings.jwks_url)))


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_TIME


def granted(claims: Mapping[str, Any], meaning: Claims) -> Grant | Refused:
    """What checked claims give, by what they mean; the subject must be a text."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        return Refused(reason="the token has no subject")
    roles = [meaning.roles[value] for value in _values(claims, meaning.role) if value in meaning.roles]
    role = max(roles, key=ROLES.index, default=meaning.default_role)
    if role is None:
        return Refused(reason="the token gives no role here; whoever runs the gateway maps claims to roles")
    scope = Scope(
        servers=_limit(claims, meaning.servers),
        categories=_limit(claims, meaning.categories),
        read_only=bool(meaning.read_only) and meaning.read_only in _values(claims, meaning.scope),
    )
    return Grant(principal=PREFIX + subject, role=role, scope=scope)


def _limit(claims: Mapping[str, Any], path: str) -> frozenset[str] | None:
    if not path:
        return None
    values = _values(claims, path)
    return None if "*" in values else frozenset(values)


def _values(claims: Mapping[str, Any], path: str) -> Sequence[str]:
    """The texts of a claim; a claim whose own name has dots is found too."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return found.split()
    return [value for value in found if isinstance(value, str)] if isinstance(found, list) else []
