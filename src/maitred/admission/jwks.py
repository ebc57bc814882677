"""The keys with which an authorization server signs: fetched when needed, and again when they change.

A key that is not known may be a new one, so it leads to another fetch, but to one a minute at most, whoever
asks. Where a fetch fails the keys known so far hold on, since they were true a moment ago. How the keys are
fetched is handed in; `fetch_keys` is the way over HTTP.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import httpx2
import jwt
import structlog

log = structlog.get_logger(__name__)

FetchKeys = Callable[[], Awaitable[bytes]]
"""Gives the JSON Web Key Set as it is published; raises `KeysUnavailableError`."""

_MAX_BYTES: Final = 256 * 1024
_MAX_KEYS: Final = 100
_TIMEOUT_S: Final = 5.0
_RSA_BITS: Final = 2_048


class KeysUnavailableError(Exception):
    """The keys cannot be had now; the text is the reason."""


async def fetch_keys(url: str) -> bytes:
    """Fetch a key set over HTTP; redirects are not followed.

    Raises:
        KeysUnavailableError: It cannot be reached, does not answer with 200, or answers with too much.
    """
    try:
        with anyio.fail_after(_TIMEOUT_S):
            async with (
                httpx2.AsyncClient(timeout=_TIMEOUT_S) as client,
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

    `max_age_s` is after how long they are fetched again though nothing is missing, so that a key that was
    taken back stops to hold; `pause_s` the least time between two fetches for unknown keys, and `retry_s`
    after one that failed.
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
        self._made: dict[tuple[str, str], jwt.PyJWK | None] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._reason = ""
        self._lock = anyio.Lock()

    async def key(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        """The key of an id for an algorithm; without an id the only key there is. `None`: there is none.

        Raises:
            KeysUnavailableError: No keys could be fetched so far.
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
        if (kid, algorithm) not in self._made:
            self._made[kid, algorithm] = _made(self._keys[kid], algorithm)
        return self._made[kid, algorithm]

    async def _refresh(self, pause_s: float) -> None:
        """Fetch the keys, unless that was tried a moment ago, or by somebody else meanwhile."""
        async with self._lock:
            if self._clock() - self._tried_at < pause_s:
                return
            self._tried_at = self._clock()
            try:
                self._keys = _read(await self._fetch())
            except KeysUnavailableError as error:
                self._reason = str(error)
                log.warning("the keys of the issuer cannot be fetched", reason=self._reason)
                return
            self._made.clear()
            self._fetched_at = self._clock()


def _read(body: bytes) -> Mapping[str, Mapping[str, Any]]:
    """The keys of a set that can check signatures, by id. Symmetric keys are no use: everybody knows them."""
    try:
        listed = json.loads(body)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise KeysUnavailableError("what was fetched is not a JSON Web Key Set") from error
    if not isinstance(listed, list):
        raise KeysUnavailableError("what was fetched is not a JSON Web Key Set")
    keys: dict[str, Mapping[str, Any]] = {}
    for key in listed[:_MAX_KEYS]:
        if (
            isinstance(key, dict)
            and key.get("kty") in ("RSA", "EC", "OKP")
            and key.get("use") in (None, "sig")
        ):
            keys.setdefault(str(key.get("kid", "")), key)
    return keys


def _made(key: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """The key for an algorithm; `None` if it is meant for another, or is too weak or wrong."""
    if key.get("alg") not in (None, algorithm):
        return None
    try:
        made = jwt.PyJWK(dict(key), algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    bits = getattr(made.key, "key_size", _RSA_BITS)
    return None if key["kty"] == "RSA" and bits < _RSA_BITS else made
