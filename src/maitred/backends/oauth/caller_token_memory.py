"""Keeps in memory the tokens that callers sent to the gateway, and the tokens that those were exchanged for.

The gateway has checked each before it comes here. What is read of a token here is not checked again.
"""

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from cachetools import LRUCache
from pydantic_core import from_json

from maitred.config.redaction import SECRETS

_MOST: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class ExchangedToken:
    """A token of a server, good until `ends_at` in Unix seconds."""

    token: str = field(repr=False)
    ends_at: float
    scope: str = ""


class CallerTokens:
    """The last token that each principal sent, and `exchanged`: a token for each principal and server."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._tokens: LRUCache[str, str] = LRUCache(_MOST)
        self.exchanged: LRUCache[tuple[str, str], ExchangedToken] = LRUCache(_MOST)
        self._locks: LRUCache[tuple[str, str], anyio.Lock] = LRUCache(_MOST)

    def note(self, principal: str, token: str) -> bool:
        """Remember a token that was checked just now, and is this principal's; returns whether it is new."""
        if self._tokens.get(principal) == token:
            return False
        SECRETS.learn_named({"token": token})
        self._tokens[principal] = token
        return True

    def token_of(self, principal: str) -> str:
        """The principal's own token; empty if it has none that is good now."""
        token = self._tokens.get(principal, "")
        return token if token and end_of(token, 0.0) > self.clock() else ""

    def lock(self, place: tuple[str, str]) -> anyio.Lock:
        """The lock of a principal and a server, so that one call makes an exchange for all."""
        return self._locks.setdefault(place, anyio.Lock())


def claims_of(token: str) -> Mapping[str, Any] | None:
    """The claims of a token, unchecked; `None` if it is no JWT."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004  # header, claims, signature
        return None
    try:
        claims = from_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return claims if isinstance(claims, dict) else None


def audience_of(token: str) -> set[str] | None:
    """For whom a token is; `None` if it does not say that in a way that can be read here."""
    claims = claims_of(token)
    if claims is None or "aud" not in claims:
        return None
    audience = claims["aud"]
    return {str(one) for one in audience} if isinstance(audience, list) else {str(audience)}


def end_of(token: str, unknown: float) -> float:
    """When a token ends, in Unix seconds; `unknown` if it does not say that."""
    ends_at = (claims_of(token) or {}).get("exp")
    return float(ends_at) if isinstance(ends_at, int | float) and not isinstance(ends_at, bool) else unknown
