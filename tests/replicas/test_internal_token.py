"""A token between replicas opens one thing once: no client, no other replica and no later time can use it."""

import base64
import json

import pytest

from maitred.replicas.internal_token import VALID_S, InternalTokenError, InternalTokens

KEY = b"k" * 32
BODY = b'{"kind":"x"}'


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def replica(name: str, clock: Clock, key: bytes = KEY) -> InternalTokens:
    return InternalTokens(name, lambda: key, clock=clock)


def changed(token: str, **claims: object) -> str:
    """The token with other claims, and the signature that it had."""
    text, _, signature = token.partition(".")
    has = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    body = base64.urlsafe_b64encode(json.dumps(has | claims).encode()).decode().rstrip("=")
    return f"{body}.{signature}"


def test_the_receiver_takes_a_token_once_and_for_its_body_alone() -> None:
    clock = Clock()
    token = replica("a", clock).make("b", BODY)
    receiver = replica("b", clock)
    claims = receiver.check(token)
    assert claims.sender == "a"
    claims.check_body(BODY)
    with pytest.raises(InternalTokenError, match="another body"):
        claims.check_body(BODY + b" ")
    with pytest.raises(InternalTokenError, match="used before"):
        receiver.check(token)


@pytest.mark.parametrize("token", ["", ".", "a.b", "mtr_0123456789abcdef", "é.é", "e30.AAAA"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InternalTokenError):
        replica("b", Clock()).check(token)


def test_a_token_of_another_receiver_time_or_key_is_refused() -> None:
    """It lives for a minute at most, whatever its claims say, and a changed claim ends it."""
    clock = Clock()
    sender, receiver = replica("a", clock), replica("b", clock)
    with pytest.raises(InternalTokenError, match="another replica"):
        receiver.check(sender.make("c", BODY))
    with pytest.raises(InternalTokenError, match="MAITRED_KEY"):
        receiver.check(replica("a", clock, key=b"x" * 32).make("b", BODY))
    late, forged = sender.make("b", BODY), sender.make("c", BODY)
    with pytest.raises(InternalTokenError, match="signature"):
        receiver.check(changed(forged, aud="b"))
    with pytest.raises(InternalTokenError, match="signature"):
        receiver.check(changed(late, exp=int(clock.now) + 10 * VALID_S))
    clock.now += VALID_S
    with pytest.raises(InternalTokenError, match="expired"):
        receiver.check(late)


def test_used_tokens_are_forgotten_when_they_have_expired() -> None:
    clock = Clock()
    sender, receiver = replica("a", clock), replica("b", clock)
    for _ in range(50):
        receiver.check(sender.make("b", BODY))
        clock.now += VALID_S / 2
    assert len(receiver._used) <= 3
