"""What a provider answers is believed only if all of it fits: one here says one wrong thing each time."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.admission import issuer

from maitred.access.oidc import OidcClient
from maitred.config.load import parse
from maitred.config.settings import SignIn
from maitred.errors import ConfigError, SignInError
from maitred.model.sign_in import SignedIn

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@dataclass(kw_only=True)
class OwnProvider:
    """A provider that answers well, but for what a test changes."""

    document: Json = field(default_factory=dict)
    claims: Json = field(default_factory=dict)
    tokens: Json = field(default_factory=dict)
    user: Json = field(default_factory=lambda: {"sub": "ann", "groups": ["desk"]})
    key: Any = None
    status: int = 200
    issuer: str = ""
    nonce: str = ""
    asked: list[tuple[Mapping[str, str], Mapping[str, str]]] = field(default_factory=list)
    """The header and the form of each request for tokens."""

    def answer(self, path: str) -> Json:
        if path.endswith("/openid-configuration"):
            names = {"authorization_endpoint": "auth?a=b", "token_endpoint": "token", "jwks_uri": "keys"}
            good: Json = {"issuer": self.issuer, "userinfo_endpoint": f"{self.issuer}/me"}
            good |= {name: f"{self.issuer}/{path}" for name, path in names.items()}
            return {**good, **self.document}
        if path == "/keys":
            found: Json = json.loads(issuer.key_set(issuer.public(issuer.rsa_key(), "k1")))
            return found
        if path == "/me":
            return self.user
        now = time.time()
        usual = {
            "iss": self.issuer,
            "aud": "us",
            "exp": now + 60,
            "iat": now,
            "nonce": self.nonce,
            "roles": None,
        }
        return {
            "access_token": "opaque",
            "id_token": issuer.token(self.key, **{**usual, **self.claims}),
            **self.tokens,
        }


@contextmanager
def serving(provider: OwnProvider) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            provider.asked.append((dict(self.headers), form))
            self._send(provider.status)

        def _send(self, status: int) -> None:
            body = json.dumps(provider.answer(self.path)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as its base has it
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        provider.issuer = provider.issuer or f"http://127.0.0.1:{server.server_port}"
        try:
            yield provider.issuer
        finally:  # a thread whose server is closed takes a whole core until the tests end
            server.shutdown()
            thread.join()


def client_of(address: str, secret: str = "") -> OidcClient:
    settings = SignIn(issuer=address, client_id="us", client_secret=secret, url="https://tools.example/")
    return OidcClient(settings, lambda text: text.removeprefix("kept:"))


async def sign_in(provider: OwnProvider, secret: str = "", **answer: str) -> SignedIn:
    with serving(provider) as address:
        client = client_of(address, secret)
        begun = await client.start()
        provider.nonce = begun.nonce
        return await client.finish({"state": begun.state, "code": "c0de", **answer}, begun)


async def test_a_good_answer_gives_the_person_with_the_groups_that_only_the_user_info_has() -> None:
    """The code is proven by the verifier of its challenge, and the client by its secret."""
    provider = OwnProvider(document={"end_session_endpoint": "https://login.example/end"})

    with serving(provider) as address:
        client = client_of(address, "kept:s e")
        begun = await client.start()
        provider.nonce = begun.nonce
        person = await client.finish({"state": begun.state, "code": "c0de"}, begun)

    assert person.claims["groups"] == ["desk"]
    assert person.claims["scope"] == "openid profile"
    assert "post_logout_redirect_uri=https%3A%2F%2Ftools.example%2Fui%2Fenter" in person.sign_out_url
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begun.url).query).items()}
    headers, form = provider.asked[0]
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert asked["a"] == "b"
    assert form["redirect_uri"] == asked["redirect_uri"] == "https://tools.example/ui/login/callback"
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"us:s%20e"


async def test_a_client_proves_itself_as_the_provider_takes_it() -> None:
    """In the form where the header is not taken, and by its name alone without a secret."""
    in_form = OwnProvider(document={"token_endpoint_auth_methods_supported": ["client_secret_post"]})
    public = OwnProvider()

    await sign_in(in_form, "kept:s")
    await sign_in(public)

    assert in_form.asked[0][1]["client_secret"] == "s"
    assert "Authorization" not in in_form.asked[0][0]
    assert public.asked[0][1]["client_id"] == "us"
    assert "client_secret" not in public.asked[0][1]


def at_hash(token: str) -> str:
    digest = hashlib.sha256(token.encode()).digest()
    return base64.urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()


async def test_several_audiences_and_a_hash_of_the_access_token_are_fine_if_they_fit() -> None:
    """As some providers have them."""
    claims = {"aud": ["us", "them"], "azp": "us", "at_hash": at_hash("opaque")}
    person = await sign_in(OwnProvider(claims=claims))
    assert person.claims["sub"] == "ann"


_NOW = time.time()
UNSIGNED = issuer.by_hand({"alg": "none"}, {"sub": "ann"})


@pytest.mark.parametrize(
    ("make", "answer", "reason"),
    [
        (lambda: OwnProvider(claims={"nonce": "other"}), {}, "nonce"),
        (lambda: OwnProvider(claims={"nonce": None}), {}, "nonce"),
        (lambda: OwnProvider(claims={"aud": "them"}), {}, "audience"),
        (lambda: OwnProvider(claims={"aud": ["us", "them"]}), {}, "azp"),
        (lambda: OwnProvider(claims={"azp": "them"}), {}, "azp"),
        (lambda: OwnProvider(claims={"iss": "https://evil.example"}), {}, "another issuer"),
        (lambda: OwnProvider(claims={"exp": _NOW - 3_600}), {}, "has expired"),
        (lambda: OwnProvider(claims={"iat": _NOW + 3_600}), {}, "not valid yet"),
        (lambda: OwnProvider(claims={"at_hash": at_hash("stolen")}), {}, "at_hash"),
        (lambda: OwnProvider(key=issuer.rsa_key(1)), {}, "signature is wrong"),
        (lambda: OwnProvider(tokens={"id_token": None}), {}, "no ID token"),
        (lambda: OwnProvider(tokens={"id_token": UNSIGNED}), {}, "algorithm"),
        (lambda: OwnProvider(user={"sub": "bob"}), {}, "another person"),
        (lambda: OwnProvider(status=400, tokens={"error": "invalid_grant"}), {}, "400: invalid_grant"),
        (lambda: OwnProvider(document={"issuer": "https://evil.example"}), {}, "calls itself"),
        (lambda: OwnProvider(document={"token_endpoint": "http://evil.example/"}), {}, "no token_endpoint"),
        (lambda: OwnProvider(document={"code_challenge_methods_supported": ["plain"]}), {}, "PKCE"),
        (lambda: OwnProvider(issuer="http://127.0.0.1:9"), {}, "cannot be reached"),
        (OwnProvider, {"state": "another"}, "another sign-in"),
        (OwnProvider, {"iss": "https://evil.example"}, "another provider"),
        (OwnProvider, {"code": ""}, "no code"),
        (OwnProvider, {"error": "access_denied", "error_description": "not you"}, "access_denied .not you."),
        (
            lambda: OwnProvider(document={"authorization_response_iss_parameter_supported": True}),
            {},
            "does not say which provider",
        ),
    ],
)  # fmt: skip
async def test_a_person_is_not_signed_in_if_one_thing_does_not_fit(
    make: Callable[[], OwnProvider], answer: dict[str, str], reason: str
) -> None:
    """And reads why, and what to do."""
    with pytest.raises(SignInError, match=reason) as error:
        await sign_in(make(), **answer)
    assert error.value.advice


async def test_a_provider_that_was_away_is_asked_again() -> None:
    """A failed sign-in leaves nothing behind."""
    provider = OwnProvider()
    with serving(provider) as address:
        client = client_of(address)
        provider.document = {"issuer": "https://evil.example"}
        with pytest.raises(SignInError):
            await client.start()
        provider.document = {}
        assert (await client.start()).url.startswith(address)


GOOD = "issuer: https://login.example.com, client_id: us, url: https://tools.example"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("issuer: https://a.example, client_id: us", "access.sign_in.url"),
        ("issuer: http://a.example, client_id: us, url: https://b.example", "issuer: must start with https"),
        ("issuer: https://a.example, client_id: us, url: https://b.example/x", "url: must have no path"),
        (f"{GOOD}, scopes: [profile]", "must have `openid`"),
        (f"{GOOD}, scopes: [openid, 'a b']", "single words"),
        (f"{GOOD}, sicret: x", "sicret: is not a known key"),
    ],
)  # fmt: skip
def test_faults_of_the_settings_are_named(text: str, fault: str) -> None:
    """With the key that has each."""
    with pytest.raises(ConfigError) as error:
        parse(Path("maitred.yaml"), f"access: {{groups: {{'*': {{role: viewer}}}}, sign_in: {{{text}}}}}")
    assert fault in str(error.value)


def test_a_sign_in_needs_roles_and_the_issuer_of_access_tokens() -> None:
    """Else no person could do anything, or two could have one name."""
    jwt = "{issuer: https://other.example, audience: [a], jwks_url: https://a.example, default_role: viewer}"
    for text, fault in (
        (f"access: {{sign_in: {{{GOOD}}}}}", "gives no person a role"),
        (f"access: {{sign_in: {{{GOOD}}}}}\nhttp: {{jwt: {jwt}}}", "must be that of `http.jwt`"),
    ):
        with pytest.raises(ConfigError) as error:
            parse(Path("maitred.yaml"), text)
        assert fault in str(error.value)
    assert parse(
        Path("maitred.yaml"), f"access: {{groups: {{a: {{role: admin}}}}, sign_in: {{{GOOD}}}}}"
    ).access.sign_in
