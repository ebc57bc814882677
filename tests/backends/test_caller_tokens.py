"""Tokens that callers bring: exchanged for those of a server (RFC 8693), or forwarded by policy."""

import json
import random
from base64 import b64decode, urlsafe_b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import httpx2
import pytest
from starlette.types import Receive, Scope, Send
from tests.backends.rig import RESOLVE

from maitred.backends.base import ConnectError, LoginNeededError
from maitred.backends.oauth.caller_token_memory import CallerTokens
from maitred.backends.oauth.caller_tokens import ACCESS_TOKEN, GRANT_TYPE, ExchangedTokens, ForwardedTokens
from maitred.backends.oauth.client import LoginTarget
from maitred.backends.oauth.vault import Vault
from maitred.model.servers import OAuth, ServerSpec, TokenExchange
from maitred.storage.sqlite import SqliteDatabase

pytestmark = pytest.mark.anyio

ORIGIN = "https://inside.example"
EXCHANGE = TokenExchange(
    token_url="https://issuer.example/token",
    client_id="maitred",
    client_secret="a secret: of ours",
    audience="inside",
    scopes=("read",),
)
SPEC = ServerSpec(name="inside", transport="http", url=f"{ORIGIN}/mcp", registered=True)


def jwt(subject: str, **claims: Any) -> str:
    """A token as the gateway has checked it already; the signature is not looked at again."""

    def part(value: Any) -> str:
        return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'ES256'})}.{part({'sub': subject, 'exp': 2e9, **claims})}.c2ln"


class Issuer:
    """An authorization server that exchanges tokens. `answer` replaces what it says."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: tuple[int, dict[str, Any]] | None = None
        self.lasts_s = 3_600.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = {key: values[0] for key, values in parse_qs((await receive())["body"].decode()).items()}
        self.forms.append(form)
        self.headers.append({key.decode(): value.decode() for key, value in scope["headers"]})
        await anyio.lowlevel.checkpoint()
        subject = json.loads(b64decode(form["subject_token"].split(".")[1] + "=="))["sub"]
        token = jwt(subject, aud="inside", number=len(self.forms))
        status, answer = self.answer or (200, {"access_token": token, "expires_in": self.lasts_s})
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


class Rig:
    """The tokens of one gateway, and the issuer that it exchanges them at."""

    def __init__(self) -> None:
        self.issuer, self.clock = Issuer(), Clock()
        self.callers = CallerTokens(self.clock)

    def target(self, principal: str, auth: OAuth, **fields: Any) -> LoginTarget:
        return LoginTarget(
            spec=replace(SPEC, auth=auth, **fields),
            principal=principal,
            resolve=RESOLVE,
            store=Vault(SqliteDatabase(Path("none.db")), Path("none.key")),
            make_transport=lambda: httpx2.ASGITransport(self.issuer),
        )

    def exchanged(self, principal: str, exchange: TokenExchange = EXCHANGE) -> ExchangedTokens:
        return ExchangedTokens(self.target(principal, OAuth(exchange=exchange)), self.callers)

    def forwarded(self, *hosts: str, **fields: Any) -> ForwardedTokens:
        auth = OAuth(forward=True, forward_to=hosts)
        return ForwardedTokens(self.target("oauth:ann", auth, **fields), self.callers)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def subject(token: str) -> str:
    return str(json.loads(b64decode(token.split(".")[1] + "=="))["sub"])


async def test_an_exchange_is_asked_for_once_and_for_this_server(rig: Rig) -> None:
    """Many calls at once share it, and it names the server and the audience. Source: RFC 8693, RFC 8707."""
    rig.callers.note("oauth:ann", jwt("ann"))
    tokens, got = rig.exchanged("oauth:ann"), set[str]()

    async def one() -> None:
        got.add(await tokens.token())

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one)

    assert {subject(token) for token in got} == {"ann"}
    assert rig.issuer.forms == [
        {
            "grant_type": GRANT_TYPE,
            "subject_token": jwt("ann"),
            "subject_token_type": ACCESS_TOKEN,
            "requested_token_type": ACCESS_TOKEN,
            "resource": f"{ORIGIN}/mcp",
            "audience": "inside",
            "scope": "read",
        }
    ]
    pair = b64decode(rig.issuer.headers[0]["authorization"].removeprefix("Basic ")).decode()
    assert pair == "maitred:a+secret%3A+of+ours"


async def test_a_token_is_exchanged_again_when_it_ends_or_is_refused(rig: Rig) -> None:
    """Source: docs/oauth.md."""
    rig.issuer.lasts_s = 100.0
    rig.callers.note("oauth:ann", jwt("ann"))
    tokens = rig.exchanged("oauth:ann")
    first = await tokens.token()
    assert await tokens.token() == first
    rig.clock.now += 95
    second = await tokens.token()
    assert second != first
    assert await tokens.renewed(second) not in (first, second)
    assert len(rig.issuer.forms) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        ((400, {"error": "invalid_grant"}), LoginNeededError, r"was not exchanged \(invalid_grant\)"),
        ((503, {}), ConnectError, "the exchange answered HTTP 503"),
        ((200, {"access_token": jwt("ann", aud="other")}), ConnectError, "not for this server alone"),
        ((200, {"access_token": jwt("ann")}), ConnectError, "not for this server alone"),
    ],
)
async def test_an_exchange_that_gives_no_fitting_token_is_refused(
    rig: Rig, answer: tuple[int, dict[str, Any]], kind: type[Exception], told: str
) -> None:
    """The last answer is the caller's own token, which is not for the server. Source: docs/security.md."""
    rig.callers.note("oauth:ann", jwt("ann"))
    rig.issuer.answer = answer
    with pytest.raises(kind, match=told):
        await rig.exchanged("oauth:ann").token()


async def test_who_brings_no_token_that_is_good_gets_none(rig: Rig) -> None:
    """Not even what was got for its last one. Source: docs/oauth.md."""
    rig.callers.note("oauth:ann", jwt("ann", exp=1e9 + 60))
    await rig.exchanged("oauth:ann").token()
    rig.clock.now += 61
    for principal in ("oauth:ann", "oauth:ben", "local"):
        with pytest.raises(LoginNeededError, match=f"'{principal}' has none that is good now"):
            await rig.exchanged(principal).token()


async def test_no_principal_gets_what_was_exchanged_for_another(rig: Rig) -> None:
    """10,000 random steps at once, with new tokens and refusals between. Source: issue "Teams"."""
    dice, left, wrong = random.Random(8693), 10_000, list[str]()
    names = ("ann", "ben", "cat")

    async def go_on(name: str) -> None:
        nonlocal left
        tokens, last = rig.exchanged(f"oauth:{name}"), ""
        while left > 0:
            left -= 1
            if dice.random() < 0.02:
                rig.callers.note(f"oauth:{name}", jwt(name, number=left))
            if dice.random() < 0.02:
                rig.clock.now += 1_000
            last = await (tokens.renewed(last) if dice.random() < 0.02 else tokens.token())
            if subject(last) != name:
                wrong.append(last)
            if dice.random() < 0.3:
                await anyio.lowlevel.checkpoint()

    for name in names:
        rig.callers.note(f"oauth:{name}", jwt(name))
    async with anyio.create_task_group() as tasks:
        for name in names * 4:
            tasks.start_soon(go_on, name)

    assert wrong == []
    assert len(rig.issuer.forms) > 100


@pytest.mark.parametrize(
    ("hosts", "url", "audience", "told"),
    [
        ((), f"{ORIGIN}/mcp", ORIGIN, "the operator adds it to `http.jwt.forward_to`"),
        (("other.example",), f"{ORIGIN}/mcp", ORIGIN, "not sent to inside.example"),
        (("inside.example",), "http://inside.example/mcp", "http://inside.example", "without https"),
        (("inside.example",), f"{ORIGIN}/mcp", "https://gateway.example", "is not for it: its audience"),
        (("inside.example",), f"{ORIGIN}/mcp", f"{ORIGIN}.evil.example", "is not for it: its audience"),
    ],
)
async def test_a_token_is_forwarded_by_policy_alone(
    rig: Rig, hosts: tuple[str, ...], url: str, audience: str, told: str
) -> None:
    """To a host of the list alone, by https, and if it is for that server. Source: docs/security.md."""
    rig.callers.note("oauth:ann", jwt("ann", aud=["https://gateway.example", audience]))
    with pytest.raises(ConnectError, match=told):
        await rig.forwarded(*hosts, url=url).token()


@pytest.mark.parametrize("url", [f"{ORIGIN}/mcp", "http://127.0.0.1:9/mcp"])
async def test_a_token_that_may_be_forwarded_is_the_callers_last(rig: Rig, url: str) -> None:
    """Without https on this machine only. Source: docs/oauth.md."""
    host = url.split("/")[2].partition(":")[0]
    tokens = rig.forwarded("127.0.0.1", host, url=url)
    for number in (1, 2):
        token = jwt("ann", aud=["gateway", url], number=number)
        rig.callers.note("oauth:ann", token)
        assert await tokens.token() == token
    with pytest.raises(LoginNeededError, match="it refuses the token of 'oauth:ann'"):
        await tokens.renewed(token)
