"""A sign-in of a person at an OpenID provider: as it begins, and the person it ends with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class SignInStart:
    """One sign-in that has begun: where its browser goes, and what has to come back or is proven later."""

    url: str
    state: str
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class SignedIn:
    """A person as the provider describes them. `expires_at` counts seconds since 1970."""

    claims: Mapping[str, Any]
    expires_at: float
    sign_out_url: str = field(default="", repr=False)
    """Where the browser ends the session at the provider; empty if it offers none."""
