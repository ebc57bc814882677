"""Tokens of an authorization server: only good ones get in, and they give what their claims say."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from tests.admission.issuer import (
    AUDIENCE,
    ISSUER,
    NOW,
    by_hand,
    claims,
    ec_key,
    ed_key,
    key_set,
    public,
    rsa_key,
    token,
)

from maitred.access.claims import ClaimMapping, grant_from_claims
from maitred.access.jwt import JwtPolicy, JwtVerifier, KeySet, KeysUnavailableError
from maitred.model.access import EVERYTHING, Grant, RefusedAccess, Scope

pytestmark = pytest.mark.anyio

MEANING = ClaimMapping(roles={"dev": "agent", "ops": "operator"})
KEYS = key_set(public(rsa_key(), "k1"), public(ec_key(), "ec"), public(ed_key(), "ed"))
PEM = (
    rsa_key()
    .public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
)


async def published() -> bytes:
    return KEYS


def verifier(**policy: Any) -> JwtVerifier:
    settings = {"issuer": ISSUER, "audiences": (AUDIENCE,), "claims": MEANING, **policy}
    return JwtVerifier(JwtPolicy(**settings), KeySet(published, clock=lambda: 0.0), clock=lambda: NOW)


@pytest.mark.parametrize(
    ("key", "kid", "algorithm"),
    [
        (rsa_key(), "k1", "RS256"), (rsa_key(), "k1", "PS256"),
        (ec_key(), "ec", "ES256"), (ed_key(), "ed", "EdDSA"),
    ],
    ids=["RS256", "PS256", "ES256", "EdDSA"],
)  # fmt: skip
async def test_a_good_token_gives_its_bearer_what_its_claims_mean(key: Any, kid: str, algorithm: str) -> None:
    """With every kind of key; the principal cannot be taken for one of ours."""
    grant = await verifier().grant_of(token(key, kid=kid, algorithm=algorithm))

    assert grant == Grant(principal="oauth:ann", role="agent", scope=EVERYTHING)


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": ["other", AUDIENCE]}, {"exp": NOW - 29}, {"nbf": NOW + 29}, {"iat": NOW + 29}, {"iat": None},
        {"header": {"typ": "at+jwt"}}, {"header": {"typ": "application/AT+JWT"}},
    ],
    ids=str,
)  # fmt: skip
async def test_a_token_is_taken_within_the_skew_and_in_every_usual_form(changed: dict[str, Any]) -> None:
    """Clocks differ by seconds, and audiences come as lists."""
    assert isinstance(await verifier().grant_of(token(**changed)), Grant)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (token(iss="https://evil.example"), "from another issuer"),
        (token(iss=ISSUER + "/"), "from another issuer"),
        (token(aud="https://other.example"), "not made for this gateway"),
        (token(aud=AUDIENCE + "x"), "not made for this gateway"),
        (token(aud=None), "no claim 'aud'"),
        (token(exp=None), "no claim 'exp'"),
        (token(iss=None), "no claim 'iss'"),
        (token(sub=None), "no claim 'sub'"),
        (token(sub=""), "no subject"),
        (token(exp=NOW - 31), "has expired"),
        (token(nbf=NOW + 31), "not valid yet"),
        (token(iat=NOW + 31), "not valid yet"),
        (token(roles=["stranger"]), "gives no role here"),
        (token(roles=None), "gives no role here"),
        (token(rsa_key(1)), "signature is wrong"),
        (token(kid="k2"), "not signed with a key that its issuer publishes"),
        (token(kid=None), "not signed with a key that its issuer publishes"),
        (token(ec_key(), kid="k1", algorithm="ES256"), "not signed with a key"),
        (token(algorithm="RS512"), "an algorithm that is not allowed"),
        (token(header={"crit": ["x"], "x": 1}), "can be read|not an access token"),
        (token(header={"typ": "logout+jwt"}), "not an access token"),
        (token()[:-4] + "AAAA", "signature is wrong"),
        (by_hand({"alg": "none", "kid": "k1"}, claims()), "an algorithm that is not allowed"),
        (by_hand({"alg": "NONE", "kid": "k1"}, claims()), "an algorithm that is not allowed"),
        (by_hand({"alg": "HS256", "kid": "k1"}, claims(), PEM), "an algorithm that is not allowed"),
        (by_hand({"alg": "RS256", "kid": "k1"}, claims(), PEM), "signature is wrong"),
        (by_hand({"alg": "RS256", "kid": "k1"}, claims()), "signature is wrong"),
        (by_hand({"alg": ["RS256"], "kid": "k1"}, claims(), PEM), "an algorithm that is not allowed"),
        (by_hand({"alg": "RS256", "kid": 1}, claims()), "can be read"),
        ("é.\ud83d.c", "can be read"),
        ("", "can be read"),
        ("a.b.c", "can be read"),
        ("maitred_0123456789_" + "x" * 43, "can be read"),
        ("a" * 1_000_000, "can be read"),
        (token()[:-10].rsplit(".", 1)[0], "can be read"),
    ],
    ids=lambda value: value if " " in value else "token",  # tokens differ in each process
)
async def test_a_bad_token_is_refused_with_the_reason(bad: str, reason: str) -> None:
    """Every part of it can be wrong; nothing of it is trusted before its signature is."""
    answer = await verifier().grant_of(bad)

    assert isinstance(answer, RefusedAccess)
    assert any(words in answer.reason for words in reason.split("|"))
    assert not answer.unavailable


@pytest.mark.parametrize("exp", ["tomorrow", True, 10**400, [NOW], {}])
async def test_a_time_that_is_none_is_no_time(exp: Any) -> None:
    """Signed nonsense is nonsense."""
    answer = await verifier().grant_of(token(exp=exp))

    assert isinstance(answer, RefusedAccess)


@pytest.mark.parametrize("wrong", ["none", "HS256", "RS128"])
def test_an_algorithm_without_a_public_key_cannot_be_allowed(wrong: str) -> None:
    """Whoever writes it into the configuration is told."""
    with pytest.raises(ValueError, match=f"{wrong} cannot be allowed"):
        JwtPolicy(issuer=ISSUER, audiences=(AUDIENCE,), algorithms=frozenset({"RS256", wrong}))


@pytest.mark.parametrize(("issuer", "audiences"), [("", ("a",)), ("i", ()), ("i", ("",))])
def test_without_issuer_or_audience_no_token_can_be_checked(issuer: str, audiences: tuple[str, ...]) -> None:
    """A token for anybody is a token for nobody."""
    with pytest.raises(ValueError, match="needed to check tokens"):
        JwtPolicy(issuer=issuer, audiences=audiences)


async def test_while_the_keys_cannot_be_had_the_caller_is_told_to_try_again() -> None:
    """It is not the token that is wrong."""

    async def down() -> bytes:
        raise KeysUnavailableError("it is down")

    policy = JwtPolicy(issuer=ISSUER, audiences=(AUDIENCE,))
    answer = await JwtVerifier(policy, KeySet(down), clock=lambda: NOW).grant_of(token())

    assert answer == RefusedAccess(
        reason="the token cannot be checked now, try again later", unavailable=True
    )


# --- what claims mean -------------------------------------------------------------------------------------


def role(meaning: ClaimMapping, **given: Any) -> str:
    grant = grant_from_claims({"sub": "ann", **given}, meaning)
    return grant.role if isinstance(grant, Grant) else ""


def test_the_strongest_of_the_roles_counts() -> None:
    """As a list, as a text, inside another claim, or under a name with dots."""
    nested = ClaimMapping(role="realm.roles", roles=MEANING.roles)

    assert role(MEANING, roles=["dev", "ops", "x", 5]) == "operator"
    assert role(MEANING, roles="dev ops") == "operator"
    assert role(nested, realm={"roles": ["dev"]}) == "agent"
    assert role(nested, **{"realm.roles": ["ops"]}) == "operator"
    assert role(nested, realm="dev") == ""
    assert role(MEANING, roles={"dev": 1}) == ""


def test_without_a_known_role_the_default_is_given() -> None:
    """Where the operator set one."""
    assert role(ClaimMapping(default_role="viewer"), roles=["x"]) == "viewer"
    assert role(ClaimMapping(default_role="viewer", roles={"dev": "agent"}), roles=["dev"]) == "agent"


@pytest.mark.parametrize(
    ("given", "scope"),
    [
        ({"servers": ["a", "b"], "areas": "x y"}, Scope(servers=frozenset("ab"), categories=frozenset("xy"))),
        ({"servers": "*", "areas": ["*"]}, EVERYTHING),
        ({"servers": "*"}, Scope(categories=frozenset())),
        ({}, Scope(servers=frozenset(), categories=frozenset())),
        ({"servers": "*", "areas": "*", "scope": "openid ro"}, Scope(read_only=True)),
    ],
)
def test_claims_limit_what_may_be_used(given: dict[str, Any], scope: Scope) -> None:
    """A token that lacks a claim that is asked for gets nothing of it."""
    meaning = ClaimMapping(default_role="agent", servers="servers", categories="areas", read_only="ro")
    grant = grant_from_claims({"sub": "ann", **given}, meaning)

    assert isinstance(grant, Grant)
    assert grant.scope == scope


def test_a_reason_holds_nothing_of_the_token() -> None:
    """It may end up in a log."""
    assert json.dumps(token())[10:40] not in str(grant_from_claims({"sub": 1}, MEANING))
