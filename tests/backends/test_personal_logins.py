"""Tokens of several principals at one server: each request carries those of its own principal, always.

The server and its authorization server answer in this process. What came with which call is recorded there.
"""

import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import httpx2
import pytest
from mcp_types.version import LATEST_MODERN_VERSION
from starlette.types import Receive, Scope, Send
from tests.backends.rig import LONG_S, RESOLVE, call, text_of

from maitred.backends.base import NOT_ASKED
from maitred.backends.http import HttpBackend, Refusals, TokenAuth
from maitred.backends.oauth.client import LoginTarget
from maitred.backends.oauth.grants import LoginGrant
from maitred.backends.oauth.tokens import OAuthTokens
from maitred.backends.oauth.vault import Vault
from maitred.backends.pool import BackendPool
from maitred.config.settings import Limits
from maitred.errors import ServerError
from maitred.model.access import LOCAL
from maitred.model.servers import OAuth, ServerSpec
from maitred.model.sharing import Sharer
from maitred.storage.sqlite import SqliteDatabase
from maitred.storage.tables import metadata

pytestmark = pytest.mark.anyio

ORIGIN = "https://office.example"
REFUSED = "refused"
PRINCIPALS = (LOCAL, "ann", "ben", "oauth:ann")
SPEC = ServerSpec(
    name="office",
    transport="http",
    url=f"{ORIGIN}/mcp",
    era="stateless",
    registered=True,  # so that renewals go by the guarded transport, which is that of this process
    auth=OAuth(client_id="maitred", per="user"),
)


class Office:
    """An MCP server and its authorization server. A refresh token is good once; a second use is recorded."""

    def __init__(self) -> None:
        self.access: dict[str, str] = {}
        self.refresh: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        self.served: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.renewals = 0
        self.used_again: list[str] = []
        self.is_ill = False
        self._count = 0

    def issue(self, principal: str) -> dict[str, Any]:
        self._count += 1
        access, refresh = f"access-{self._count}", f"refresh-{self._count}"
        self.access[access] = self.refresh[refresh] = self.owners[access] = self.owners[refresh] = principal
        return {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600}

    def end_access(self, principal: str) -> None:
        self.access = {token: owner for token, owner in self.access.items() if owner != principal}

    def end_login(self, principal: str) -> None:
        self.end_access(principal)
        self.refresh = {token: owner for token, owner in self.refresh.items() if owner != principal}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        if scope["path"] == "/token":
            status, answer = self._renew({k: v[0] for k, v in parse_qs(body.decode()).items()})
        else:
            status, answer = self._serve(json.loads(body), headers.get("authorization", ""))
        raw = b"" if answer is None else json.dumps(answer).encode()
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": kind})
        await send({"type": "http.response.body", "body": raw})

    def _renew(self, form: dict[str, str]) -> tuple[int, Any]:
        if self.is_ill:
            return 503, {}
        token = form["refresh_token"]
        owner = self.refresh.pop(token, None)
        if owner is None:
            self.used_again.append(token)
            return 400, {"error": "invalid_grant"}
        assert form["resource"] == SPEC.url
        self.renewals += 1
        return 200, self.issue(owner)

    def _serve(self, message: dict[str, Any], authorization: str) -> tuple[int, Any]:
        token = authorization.removeprefix("Bearer ")
        method, params = message["method"], message.get("params") or {}
        if method == "tools/call":
            seen = self.served if token in self.access else self.refused
            seen.append((params["arguments"]["who"], self.owners.get(token, "")))
        if token not in self.access:
            return 401, {}
        if "id" not in message:
            return 202, None
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": self._result(method, token)}

    def _result(self, method: str, token: str) -> dict[str, Any]:
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover":
            about = {"name": "office", "version": "1"}
            versions = [LATEST_MODERN_VERSION]
            return {
                **cached,
                "supportedVersions": versions,
                "capabilities": {"tools": {}},
                "serverInfo": about,
            }
        if method == "tools/list":
            return {**cached, "tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]}
        text = {"type": "text", "text": self.access[token]}
        return {"resultType": "complete", "content": [text]}


class House:
    """A pool of a gateway with this one server, and the logins of all principals."""

    def __init__(self, office: Office, database: SqliteDatabase, key_path: Path) -> None:
        self.office = office
        self._database, self._key_path = database, key_path
        self._lines: dict[str, httpx2.AsyncClient] = {}
        self.pool = BackendPool(self._backend, max_starting=8, on_close=lambda: None, shares=False)

    def _transport(self) -> httpx2.AsyncBaseTransport:
        return httpx2.ASGITransport(self.office)

    def vault(self, principal: str) -> Vault:
        return Vault(self._database, self._key_path, principal=principal)

    def target(self, principal: str) -> LoginTarget:
        vault = self.vault(principal)
        return LoginTarget(
            spec=SPEC, principal=principal, resolve=RESOLVE, store=vault, make_transport=self._transport
        )

    def _backend(self, spec: ServerSpec) -> HttpBackend:
        return HttpBackend(
            spec,
            resolve=RESOLVE,
            limits=Limits(),
            make_transport=self._transport,
            tokens_of=lambda principal: OAuthTokens(self.target(principal)),
        )

    async def log_in(self, principal: str, *, lasts_s: float = 3600.0) -> None:
        tokens = self.office.issue(principal)
        grant = LoginGrant(
            url=SPEC.url,
            access_token=tokens["access_token"],
            refresh_token=tokens["refresh_token"],
            expires_at=time.time() + lasts_s,
            client={"client_id": "maitred", "redirect_uris": ["http://127.0.0.1/callback"]},
            issuer={
                "issuer": ORIGIN,
                "authorization_endpoint": f"{ORIGIN}/authorize",
                "token_endpoint": f"{ORIGIN}/token",
                "response_types_supported": ["code"],
            },
            resource={"resource": SPEC.url, "authorization_servers": [ORIGIN]},
        )
        await self.vault(principal).save(SPEC.name, grant.to_bytes())

    async def log_out(self, principal: str) -> None:
        await self.vault(principal).forget(SPEC.name)

    @asynccontextmanager
    async def lines(self) -> AsyncIterator[None]:
        """Requests without sessions, so that thousands take seconds: a client for each principal."""
        async with AsyncExitStack() as stack:
            for principal in PRINCIPALS:
                tokens = OAuthTokens(self.target(principal))
                auth = TokenAuth(tokens, Refusals(SPEC, SPEC.url, tokens))
                client = httpx2.AsyncClient(transport=self._transport(), verify=False, auth=auth)
                self._lines[principal] = await stack.enter_async_context(client)
            yield

    async def whoami_by_line(self, principal: str) -> str:
        """The same as `whoami` by a request alone."""
        params = {"name": "whoami", "arguments": {"who": principal}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await self._lines[principal].post(SPEC.url, json=message)
        if not answer.is_success:
            return REFUSED
        return str(answer.json()["result"]["content"][0]["text"])

    async def whoami(self, principal: str) -> str:
        """Whose account a call of a principal reaches; why none, if it cannot be made."""
        request = call("whoami", who=principal)
        try:
            async with self.pool.connection(SPEC.name, Sharer(principal=principal)) as connection:
                answer = await connection.call_tool("whoami", request, timeout_s=60, caller=NOT_ASKED)
                return text_of(answer)
        except ServerError as error:
            return str(error)


@asynccontextmanager
async def living(folder: Path) -> AsyncIterator[House]:
    path = folder / "catalog.db"
    path.touch()
    database = SqliteDatabase(path)
    await database.write(metadata.create_all)
    house = House(Office(), database, folder / "catalog.db.key")
    async with house.pool as pool:
        await pool.configure({SPEC.name: SPEC}, {})
        yield house


Whoami = Callable[[str], Awaitable[str]]


async def act(
    house: House, principal: str, whoami: Whoami, dice: random.Random, outcomes: Counter[str]
) -> None:
    """One random thing that happens to a principal."""
    roll = dice.random()
    if roll < 0.965:
        told = await whoami(principal)
        known = told == REFUSED or "maitred login office" in told or "cannot be renewed now" in told
        outcomes["answered" if told == principal else "refused" if known else told] += 1
    elif roll < 0.975:
        await house.log_in(principal, lasts_s=dice.choice([3600.0, 0.0]))
    elif roll < 0.98:
        await house.log_out(principal)
        await house.log_in(principal)
    elif roll < 0.99:
        house.office.end_access(principal)
    elif roll < 0.9925:
        house.office.end_login(principal)
        await house.log_in(principal)
    elif roll < 0.995:
        await house.log_out(principal)
    else:
        house.office.is_ill = not house.office.is_ill and dice.random() < 0.3
    for _ in range(dice.randrange(3)):
        await anyio.lowlevel.checkpoint()


async def interleaved(house: House, whoami: Whoami, steps: int) -> Counter[str]:
    """Let random things happen to all principals at once; returns how calls ended."""
    dice, outcomes, left = random.Random(20261127), Counter[str](), steps

    async def go_on(principal: str) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await act(house, principal, whoami, dice, outcomes)

    for principal in PRINCIPALS:
        await house.log_in(principal)
    with anyio.fail_after(10 * LONG_S):
        async with anyio.create_task_group() as tasks:
            for principal in PRINCIPALS * 4:
                tasks.start_soon(go_on, principal)
    return outcomes


@pytest.mark.parametrize(("sessions", "steps"), [(False, 10_000), (True, 1_000)])
async def test_no_call_ever_carries_the_token_of_another_principal(
    tmp_path: Path, sessions: bool, steps: int
) -> None:
    """Random steps of four principals at once, with logins, logouts, renewals and failures between.

    10,000 of them with requests alone, and fewer through the pool and its sessions, which take longer. One
    has the name of another behind the prefix of subjects of an issuer. Source: issue "Teams".
    """
    async with living(tmp_path) as house, house.lines():
        outcomes = await interleaved(house, house.whoami if sessions else house.whoami_by_line, steps)
        office = house.office

    seen = office.served + office.refused
    assert [pair for pair in seen if pair[1] not in ("", pair[0])] == []
    assert set(outcomes) == {"answered", "refused"}
    assert {who for who, _ in office.served} == set(PRINCIPALS)
    assert outcomes["answered"] > steps / 2
    assert office.renewals > steps / 500
