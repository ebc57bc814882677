"""The keys of an issuer: fetched when needed, rotated, and never fetched too often."""

from typing import Any

import anyio
import jwt
import pytest
from tests.admission.issuer import ec_key, key_set, public, rsa_key

from maitred.access.jwt import KeySet, KeysUnavailableError, fetch_keys

pytestmark = pytest.mark.anyio


class Issuer:
    """Publishes keys, counts how often they are fetched, and can be down; its clock stands still."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.body = key_set(*keys)
        self.fetched = 0
        self.up = True
        self.now = 0.0

    async def fetch(self) -> bytes:
        self.fetched += 1
        await anyio.lowlevel.checkpoint()
        if not self.up:
            raise KeysUnavailableError("it is down")
        return self.body

    def keys(self) -> KeySet:
        return KeySet(self.fetch, clock=lambda: self.now)


async def test_keys_are_fetched_once_and_used_again() -> None:
    """However many ask at the same time."""
    issuer = Issuer(public(rsa_key(), "a"))
    keys = issuer.keys()
    found: list[jwt.PyJWK | None] = []

    async def ask() -> None:
        found.append(await keys.key("a", "RS256"))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)

    assert issuer.fetched == 1
    assert len(set(map(id, found))) == 1
    assert found[0] is not None


async def test_a_new_key_is_fetched_when_a_token_names_it() -> None:
    """Once a minute at most, whatever tokens are sent."""
    issuer = Issuer(public(rsa_key(), "old"))
    keys = issuer.keys()
    await keys.key("old", "RS256")
    issuer.body = key_set(public(rsa_key(), "old"), public(rsa_key(1), "new"))

    for _ in range(10):
        assert await keys.key("new", "RS256") is None
    assert issuer.fetched == 1
    issuer.now = 60
    assert await keys.key("new", "RS256") is not None
    for number in range(100):
        assert await keys.key(f"no {number}", "RS256") is None
    assert issuer.fetched == 2


async def test_a_key_that_was_taken_back_stops_to_hold() -> None:
    """When the keys are fetched again, which they are though nothing is missing."""
    issuer = Issuer(public(rsa_key(), "a"), public(rsa_key(1), "b"))
    keys = issuer.keys()
    assert await keys.key("b", "RS256") is not None
    issuer.body = key_set(public(rsa_key(), "a"))
    issuer.now = 599
    assert await keys.key("b", "RS256") is not None
    issuer.now = 600

    assert await keys.key("b", "RS256") is None


async def test_while_the_issuer_is_down_known_keys_hold_and_it_is_not_stormed() -> None:
    """It is asked again after a few seconds."""
    issuer = Issuer(public(rsa_key(), "a"))
    keys = issuer.keys()
    issuer.up = False
    for _ in range(10):
        with pytest.raises(KeysUnavailableError, match="it is down"):
            await keys.key("a", "RS256")
    assert issuer.fetched == 1
    issuer.up, issuer.now = True, 5
    assert await keys.key("a", "RS256") is not None

    issuer.up, issuer.now = False, 10_000
    for _ in range(10):
        assert await keys.key("a", "RS256") is not None
    assert issuer.fetched == 3


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"keys": 1}', b"x", b"[" * 100_000])
async def test_what_is_no_key_set_is_told(body: bytes) -> None:
    """A page of an error, for instance."""
    issuer = Issuer()
    issuer.body = body

    with pytest.raises(KeysUnavailableError, match="not a JSON Web Key Set"):
        await issuer.keys().key("a", "RS256")


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        ({"kty": "oct", "k": "AAAA", "kid": "a"}, "HS256"),
        (public(rsa_key(), "a", use="enc"), "RS256"),
        (public(rsa_key(), "a", alg="PS256"), "RS256"),
        (public(ec_key(), "a"), "RS256"),
        (public(rsa_key(), "a"), "ES256"),
        (public(rsa_key(0, 1_024), "a"), "RS256"),
        ({"kty": "RSA", "kid": "a"}, "RS256"),
        ({"kty": "RSA", "n": "!", "e": 5, "kid": "a"}, "RS256"),
        ({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "a"}, "ES256"),
        ("not a key", "RS256"),
    ],
    ids=[
        "symmetric",
        "for encryption",
        "another algorithm",
        "another kind",
        "kind unlike algorithm",
        "short",
        "no numbers",
        "no number",
        "no point",
        "no object",
    ],
)
async def test_a_key_that_does_not_fit_is_no_key(key: Any, algorithm: str) -> None:
    """Symmetric, for encryption, for another algorithm, too weak, or broken."""
    assert await Issuer(key).keys().key("a", algorithm) is None


async def test_without_an_id_the_only_key_is_meant() -> None:
    """And none where there are two."""
    assert await Issuer(public(rsa_key(), "a")).keys().key("", "RS256") is not None
    assert await Issuer(public(rsa_key(), "a"), public(rsa_key(1), "b")).keys().key("", "RS256") is None


async def answering(response: bytes, *, path: str = "/") -> bytes:
    """What fetching from a server on this machine that answers with these bytes gives."""

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(response)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            try:
                return await fetch_keys(f"http://127.0.0.1:{port}{path}")
            finally:
                tasks.cancel_scope.cancel()
    raise AssertionError


def response(body: bytes, status: str = "200 OK", extra: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body


async def test_keys_are_fetched_over_http() -> None:
    """As they are published."""
    assert await answering(response(b'{"keys": []}')) == b'{"keys": []}'


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (response(b"", "404 Not Found"), "answered with 404"),
        (response(b"", "302 Found", "Location: http://127.0.0.1:1/\r\n"), "answered with 302"),
        (response(b"x" * 300_000), "answered with more than"),
        (b"nonsense\r\n\r\n", "cannot be reached"),
        (b"", "cannot be reached"),
    ],
)
async def test_what_goes_wrong_in_fetching_is_told(answer: bytes, reason: str) -> None:
    """A redirect is not followed, and an endless answer not read to its end."""
    with pytest.raises((KeysUnavailableError, ExceptionGroup)) as caught:
        await answering(answer)
    error = caught.value.exceptions[0] if isinstance(caught.value, ExceptionGroup) else caught.value

    assert reason in str(error)


async def test_an_address_that_is_none_is_told() -> None:
    """Whoever wrote it reads which."""
    with pytest.raises(KeysUnavailableError, match="cannot be reached"):
        await fetch_keys("http://127.0.0.1:1/")
    with pytest.raises(KeysUnavailableError, match="cannot be reached"):
        await fetch_keys("nonsense")
