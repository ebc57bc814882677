"""Tokens by which one replica proves to another who it is: for one receiver and one body, and short-lived.

A token is two parts in base64 with a dot between: claims in JSON, and their HMAC-SHA-256. Its key derives
from `MAITRED_KEY`, which all replicas share and no client has.
"""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

VALID_S: Final = 60
"""How long a token is valid after it was made."""
_SKEW_S: Final = 30
"""How far the clock of the sender may be ahead."""
_DIGEST_CHARS: Final = 64


class InternalTokenError(Exception):
    """A token is refused; the text says why, for the sender alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InternalClaims:
    """What a valid token says: who sent it, and the SHA-256 of the body that it is for."""

    sender: str
    digest: str
    nonce: str
    expires: int

    def check_body(self, body: bytes) -> None:
        """Compare a body with the one that was signed.

        Raises:
            InternalTokenError: It is another one.
        """
        if not hmac.compare_digest(hashlib.sha256(body).hexdigest(), self.digest):
            raise InternalTokenError("the token was made for another body")


class InternalTokens:
    """Makes tokens of one replica, and checks those that it gets. `key` is called when it is first needed."""

    def __init__(
        self, replica: str, key: Callable[[], bytes], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._replica = replica
        self._key = key
        self._clock = clock
        self._used: dict[str, int] = {}
        self._order: deque[str] = deque()

    def make(self, receiver: str, body: bytes) -> str:
        """A token for one receiver and one body."""
        now = int(self._clock())
        claims = {
            "iss": self._replica,
            "aud": receiver,
            "iat": now,
            "exp": now + VALID_S,
            "jti": secrets.token_hex(16),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        text = _encode(json.dumps(claims, separators=(",", ":")).encode())
        return f"{text}.{_encode(self._sign(text))}"

    def check(self, token: str) -> InternalClaims:
        """The claims of a token, before the body was read. It counts as used from now on.

        Raises:
            InternalTokenError: It is forged, of another time, for another replica, or was used before.
        """
        text, dot, signature = token.partition(".")
        if not dot or not hmac.compare_digest(_decode(signature), self._sign(text)):
            raise InternalTokenError("its signature is wrong; give all replicas the same MAITRED_KEY")
        claims = _claims_of(text)
        if claims["aud"] != self._replica:
            raise InternalTokenError("it is for another replica")
        now, made, expires = self._clock(), claims["iat"], claims["exp"]
        if not made - _SKEW_S <= now < expires <= made + VALID_S:
            raise InternalTokenError("it has expired; are the clocks of the replicas right?")
        self._use(claims["jti"], expires, now)
        return InternalClaims(
            sender=claims["iss"], digest=claims["sha256"], nonce=claims["jti"], expires=expires
        )

    def sign_answer(self, nonce: str, answer: bytes) -> bytes:
        """A signature of the answer to the request whose token has this nonce."""
        return self._sign(f"answer {nonce} {hashlib.sha256(answer).hexdigest()}").hex().encode()

    def check_answer(self, token: str, signature: bytes, answer: bytes) -> None:
        """Check that a replica with the key answers the request with this token, which this one made.

        Raises:
            InternalTokenError: It comes from something else at that address.
        """
        nonce = _claims_of(token.partition(".")[0])["jti"]
        if not hmac.compare_digest(signature, self.sign_answer(nonce, answer)):
            raise InternalTokenError("what answers there is no replica with this MAITRED_KEY")

    def _use(self, nonce: str, expires: int, now: float) -> None:
        while self._order and self._used[self._order[0]] <= now:
            del self._used[self._order.popleft()]
        if nonce in self._used:
            raise InternalTokenError("it was used before")
        self._used[nonce] = expires
        self._order.append(nonce)

    def _sign(self, text: str) -> bytes:
        return hmac.digest(self._key(), text.encode("utf-8", "replace"), "sha256")


def _claims_of(text: str) -> dict[str, Any]:
    """The claims of a text whose signature is right, so that only a replica can have made it."""
    claims = json.loads(_decode(text))
    kinds = {"iss": str, "aud": str, "iat": int, "exp": int, "jti": str, "sha256": str}
    if not isinstance(claims, dict) or not all(
        isinstance(claims.get(name), kind) for name, kind in kinds.items()
    ):
        raise InternalTokenError("its claims are not those of this version")
    if len(claims["sha256"]) != _DIGEST_CHARS:
        raise InternalTokenError("it is for no body")
    return claims


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
