"""Verify tokens (JWT, OAuth 2.1) of an authorization server. `maitred.access.claims` gives them a meaning.

maitred is a resource server: it creates no such token. It takes tokens for its own audience, from the trusted
issuer, signed with a key of that issuer and an allowed algorithm. The issuer's keys are fetched when needed.
An unknown key causes another fetch, at most one a minute, and a failed fetch leaves the known keys valid.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
import httpx2
import jwt
import structlog

from maitred.access.claims import ClaimMapping, claim_mapping, grant_from_claims
from maitred.config.settings import AccessSettings, Jwt
from maitred.model.access import Grant, RefusedAccess
from maitred.tls import tls_context

log = structlog.get_logger(__name__)

FetchKeys = Callable[[], Awaitable[bytes]]
"""Returns the JSON Web Key Set as published; raises `KeysUnavailableError`."""

_MAX_BYTES: Final = 256 * 1024
_MAX_KEYS: Final = 100
_TIMEOUT_S: Final = 5.0
_RSA_BITS: Final = 2_048


class KeysUnavailableError(Exception):
    """The keys are not available now; the text is the reason."""


async def fetch_keys(url: str) -> bytes:
    """Fetch a key set over HTTP; redirects are not followed.

    Raises:
        KeysUnavailableError: The issuer cannot be reached, does not answer with 200, or answers with too
            much.
    """
    try:
        with anyio.fail_after(_TIMEOUT_S):
            async with (
                httpx2.AsyncClient(timeout=_TIMEOUT_S, verify=tls_context()) as client,
                client.stream("GET", url, headers={"Accept": "application/json"}) as response,
            ):
                if response.status_code != httpx2.codes.OK:
                    raise KeysUnavailableError(f"{url} answered with {response.status_code}")
                body = b""
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > _MAX_BYTES:
                        raise KeysUnavailableError(f"{url} answered with more than {_MAX_BYTES:,} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise KeysUnavailableError(f"{url} cannot be reached ({type(error).__name__})") from error
    return body


class KeySet:
    """The keys of one issuer; for one event loop.

    Args:
        fetch: Returns the key set as published.
        max_age_s: Keys are fetched again after so many seconds, so that a withdrawn key becomes invalid.
        pause_s: Least number of seconds between two fetches for unknown keys.
        retry_s: Seconds to wait after a fetch that failed.
    """

    def __init__(
        self,
        fetch: FetchKeys,
        *,
        clock: Callable[[], float] = time.monotonic,
        max_age_s: float = 600.0,
        pause_s: float = 60.0,
        retry_s: float = 5.0,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._max_age_s = max_age_s
        self._pause_s = pause_s
        self._retry_s = retry_s
        self._keys: Mapping[str, Mapping[str, Any]] | None = None
        self._keys_by_use: dict[tuple[str, str], jwt.PyJWK | None] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._reason = ""
        self._lock = anyio.Lock()

    async def key(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        """The key of an id for an algorithm, or `None`. Without an id: the only key, if there is just one.

        Raises:
            KeysUnavailableError: No fetch of the keys has succeeded yet.
        """
        if self._keys is None or self._clock() - self._fetched_at >= self._max_age_s:
            await self._refresh(self._retry_s)
        if self._keys is not None and kid and kid not in self._keys:
            await self._refresh(self._pause_s)
        if self._keys is None:
            raise KeysUnavailableError(self._reason)
        if not kid and len(self._keys) == 1:
            kid = next(iter(self._keys))
        if kid not in self._keys:
            return None
        if (kid, algorithm) not in self._keys_by_use:
            self._keys_by_use[kid, algorithm] = _make_key(self._keys[kid], algorithm)
        return self._keys_by_use[kid, algorithm]

    async def _refresh(self, pause_s: float) -> None:
        """Fetch the keys, unless the last attempt is recent or another task has just fetched them."""
        async with self._lock:
            if self._clock() - self._tried_at < pause_s:
                return
            self._tried_at = self._clock()
            try:
                self._keys = _parse_keys(await self._fetch())
            except KeysUnavailableError as error:
                self._reason = str(error)
                log.warning("the keys of the issuer cannot be fetched", reason=self._reason)
                return
            self._keys_by_use.clear()
            self._fetched_at = self._clock()


def _parse_keys(body: bytes) -> Mapping[str, Mapping[str, Any]]:
    """The keys of a set that can check signatures, by id; no symmetric keys, since this set is public."""
    try:
        entries = json.loads(body)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise KeysUnavailableError("what was fetched is not a JSON Web Key Set") from error
    if not isinstance(entries, list):
        raise KeysUnavailableError("what was fetched is not a JSON Web Key Set")
    keys: dict[str, Mapping[str, Any]] = {}
    for key in entries[:_MAX_KEYS]:
        if (
            isinstance(key, dict)
            and key.get("kty") in ("RSA", "EC", "OKP")
            and key.get("use") in (None, "sig")
        ):
            keys.setdefault(str(key.get("kid", "")), key)
    return keys


def _make_key(key: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """The key for an algorithm; `None` if the key is meant for another one, is too weak, or is invalid."""
    if key.get("alg") not in (None, algorithm):
        return None
    try:
        jwk = jwt.PyJWK(dict(key), algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    bits = getattr(jwk.key, "key_size", _RSA_BITS)
    return None if key["kty"] == "RSA" and bits < _RSA_BITS else jwk


ALGORITHMS: Final = frozenset({
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
})  # fmt: skip
"""Algorithms that the operator may allow. Each has a public key, which the issuer publishes."""
_TYPES: Final = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
_MAX_TOKEN: Final = 16_384
_MAX_TIME: Final = 1e12


@dataclass(frozen=True, kw_only=True)
class JwtPolicy:
    """Which tokens are accepted: the exact issuer, one of the audiences, a clock difference up to `skew_s`.

    Raises:
        ValueError: An algorithm has no public key, or the issuer or the audience is missing.
    """

    issuer: str
    audiences: tuple[str, ...]
    algorithms: frozenset[str] = frozenset({"RS256", "PS256", "ES256", "EdDSA"})
    skew_s: float = 30.0
    claims: ClaimMapping = field(default_factory=ClaimMapping)

    def __post_init__(self) -> None:
        if not self.issuer or not self.audiences or not all(self.audiences):
            raise ValueError("an issuer and at least one audience are needed to check tokens")
        if wrong := sorted(self.algorithms - ALGORITHMS):
            raise ValueError(
                f"{', '.join(wrong)} cannot be allowed; there are {', '.join(sorted(ALGORITHMS))}"
            )


class JwtVerifier:
    """Verifies tokens. `clock` returns seconds since 1970."""

    def __init__(self, policy: JwtPolicy, keys: KeySet, *, clock: Callable[[], float] = time.time) -> None:
        self.policy = policy
        self._keys = keys
        self._clock = clock

    async def grant_of(self, token: str) -> Grant | RefusedAccess:
        """The grant of a token's bearer, or why the token is refused."""
        claims = await self.claims_of(token)
        return claims if isinstance(claims, RefusedAccess) else grant_from_claims(claims, self.policy.claims)

    async def claims_of(self, token: str) -> Mapping[str, Any] | RefusedAccess:
        """The claims of a token that is good, or why the token is refused."""
        try:
            header = jwt.get_unverified_header(token) if len(token) <= _MAX_TOKEN else {}
        except (jwt.PyJWTError, ValueError, RecursionError):
            header = {}
        if reason := self._header_fault(header):
            return RefusedAccess(reason=reason)
        try:
            key = await self._keys.key(header.get("kid", ""), header["alg"])
        except KeysUnavailableError:
            return RefusedAccess(reason="the token cannot be checked now, try again later", unavailable=True)
        if key is None:
            return RefusedAccess(reason="the token is not signed with a key that its issuer publishes")
        claims = self._claims(token, key)
        if isinstance(claims, RefusedAccess):
            return claims
        if reason := self._time_fault(claims):
            return RefusedAccess(reason=reason)
        return claims

    def _header_fault(self, header: Mapping[str, Any]) -> str:
        if not header or not isinstance(header.get("kid", ""), str):
            return "this is not a token that can be read"
        if str(header.get("alg")) not in self.policy.algorithms:
            return "the token is signed by an algorithm that is not allowed here"
        if "crit" in header or str(header.get("typ") or "").lower() not in _TYPES:
            return "the token is not an access token"
        return ""

    def _claims(self, token: str, key: jwt.PyJWK) -> Mapping[str, Any] | RefusedAccess:
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=self.policy.audiences,
                issuer=self.policy.issuer,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_exp": False,  # checked below by `clock`
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.MissingRequiredClaimError as error:
            return RefusedAccess(reason=f"the token has no claim {error.claim!r}")
        except jwt.InvalidIssuerError:
            return RefusedAccess(reason="the token comes from another issuer")
        except jwt.InvalidAudienceError:
            return RefusedAccess(reason="the token was not made for this gateway (audience)")
        except (jwt.PyJWTError, ValueError, RecursionError):
            return RefusedAccess(reason="the token is damaged, or its signature is wrong")
        return claims

    def _time_fault(self, claims: Mapping[str, Any]) -> str:
        now, skew = self._clock(), self.policy.skew_s
        times = {name: claims[name] for name in ("exp", "nbf", "iat") if claims.get(name) is not None}
        if "exp" not in times or not all(map(_is_time, times.values())):
            return "the token has an invalid time"
        if times["exp"] + skew <= now:
            return "the token has expired"
        if times.get("nbf", 0) - skew > now or times.get("iat", 0) - skew > now:
            return "the token is not valid yet"
        return ""


def verifier_of(settings: Jwt, access: AccessSettings) -> JwtVerifier:
    """A verifier for these settings; it fetches the keys when the first token arrives."""
    claims = claim_mapping(settings, access)
    policy = JwtPolicy(issuer=settings.issuer, audiences=settings.audience, claims=claims)
    return JwtVerifier(policy, KeySet(partial(fetch_keys, settings.jwks_url)))


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_TIME
