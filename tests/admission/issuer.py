"""An authorization server for tests: keys, key sets, and tokens of every kind."""

import base64
import hashlib
import hmac
import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://issuer.example"
AUDIENCE = "https://gateway.example/mcp"
NOW = 1_800_000_000.0


@cache
def rsa_key(number: int = 0, bits: int = 2_048) -> rsa.RSAPrivateKey:
    """A private key; the same number is the same key."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def public(key: Any, kid: str, **fields: Any) -> dict[str, Any]:
    """A key as it stands in a key set."""
    kinds = {
        rsa.RSAPrivateKey: RSAAlgorithm,
        ec.EllipticCurvePrivateKey: ECAlgorithm,
        ed25519.Ed25519PrivateKey: OKPAlgorithm,
    }
    kind: Any = next(algorithm for known, algorithm in kinds.items() if isinstance(key, known))
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid, **fields}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def claims(**changed: Any) -> dict[str, Any]:
    """Good claims, changed; those that are `None` left out."""
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 600, "iat": NOW - 10, "roles": ["dev"]}
    return {k: v for k, v in {**good, **changed}.items() if v is not None}


def token(
    key: Any = None, *, kid: str | None = "k1", algorithm: str = "RS256", header: Any = None, **changed: Any
) -> str:
    """A signed token."""
    headers = {**({"kid": kid} if kid is not None else {}), **(header or {})}
    return jwt.encode(claims(**changed), key or rsa_key(), algorithm=algorithm, headers=headers)


def by_hand(header: dict[str, Any], payload: Any, secret: bytes = b"") -> str:
    """A token that no honest library makes, with an HMAC for a signature where there is a secret."""

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    signed = part(json.dumps(header).encode()) + b"." + part(json.dumps(payload).encode())
    signature = hmac.digest(secret, signed, hashlib.sha256) if secret else b""
    return (signed + b"." + part(signature)).decode()
