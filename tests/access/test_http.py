"""Who asks over HTTP: which tokens are taken, what nobody in particular may do, and what refusals say."""

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.access.house import opened, settings_of
from tests.admission import issuer
from tests.catalog.databases import new_catalog

from maitred.access.credentials import Credentials
from maitred.access.jwt import verifier_of
from maitred.access.suspended_principals import SuspendedPrincipals
from maitred.access.teams import PrincipalGroups
from maitred.access.token_store import Grants
from maitred.config.sections import check_address
from maitred.config.settings import AccessSettings, Http, Jwt
from maitred.errors import ConfigError, StoreError
from maitred.model.access import Grant, RefusedAccess, Role, Scope
from maitred.storage.sqlite import SqliteDatabase
from maitred.surfaces.http.app import application
from maitred.surfaces.http.auth import Guard, viewer_of

pytestmark = pytest.mark.anyio

ISSUED = Jwt(
    issuer=issuer.ISSUER,
    audience=(issuer.AUDIENCE,),
    jwks_url=f"{issuer.ISSUER}/keys",
    roles={"dev": "agent"},
)
KNOWN: dict[str, Grant | RefusedAccess] = {
    "good": Grant(principal="ci", role="agent", id="1"),
    "later": RefusedAccess(reason="the keys cannot be had", unavailable=True),
}


async def grant_of(token: str) -> Grant | RefusedAccess:
    if token == "broken":
        raise StoreError("c.db", "the disk is gone")
    return KNOWN.get(token, RefusedAccess(reason="this token is not known"))


async def who(request: Request) -> JSONResponse:
    grant = viewer_of(request).grant
    return JSONResponse([grant.principal, grant.role])


def ask(settings: Http, token: str = "", path: str = "/who") -> httpx2.Response:
    """Who a gateway of these settings takes the sender of a token for."""
    client = TestClient(Guard(Starlette(routes=[Route("/who", who)]), settings, grant_of))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return client.get(path, headers={"Host": "localhost", **headers})


# --- tokens, and nobody in particular ---------------------------------------------------------------------


@pytest.mark.parametrize("role", ["viewer", "agent", "operator", "admin"])
def test_on_loopback_whoever_sends_no_token_has_the_role_that_the_settings_say(role: Role) -> None:
    """As the user of this machine; any program of the machine can ask, so by default it is no admin."""
    assert ask(Http(anonymous=role)).json() == ["local", role]
    assert ask(Http()).json() == ["local", "operator"]


@pytest.mark.parametrize(
    "settings",
    [
        Http(anonymous="none"),
        Http(token="s3cret"),
        Http(token="s3cret", anonymous="admin"),
        Http(host="0.0.0.0", token="s3cret", allowed_hosts=("localhost",)),
        Http(host="0.0.0.0", jwt=ISSUED, anonymous="admin", allowed_hosts=("localhost",)),
    ],
)
def test_elsewhere_whoever_sends_no_token_is_refused(settings: Http) -> None:
    """Also where somebody on loopback would have a role."""
    answer = ask(settings)

    assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_under_the_name_of_a_proxy_everybody_needs_a_token() -> None:
    """Whoever comes through one seems to come from this machine, and does not."""
    settings = Http(allowed_hosts=("gw.example",))
    client = TestClient(Guard(Starlette(routes=[Route("/who", who)]), settings, grant_of))
    assert client.get("/who", headers={"Host": "gw.example"}).status_code == 401
    assert client.get("/who", headers={"Host": "127.0.0.1:8420"}).json() == ["local", "operator"]


def test_a_wrong_token_is_refused_even_where_none_is_needed() -> None:
    """Whoever sends one means to be somebody, and should know that it did not work."""
    answer = ask(Http(), "wrong")

    assert answer.status_code == 401
    assert answer.json()["message"].startswith("this token is not known; send a valid one as")
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'


def test_a_token_stands_for_its_principal() -> None:
    """That of the settings for one with the role admin, beside all others."""
    settings = Http(token="s3cret")

    assert ask(settings, "s3cret").json() == ["http", "admin"]
    assert ask(settings, "good").json() == ["ci", "agent"]
    assert ask(settings, "s3cre").status_code == 401


def test_nobody_is_let_in_while_tokens_cannot_be_checked() -> None:
    """It may do later with the same token, which the status says."""
    assert ask(Http(), "later").status_code == 503
    assert ask(Http(), "later").headers["retry-after"] == "5"
    assert ask(Http(), "broken").status_code == 503


def test_an_address_that_others_reach_needs_a_token_or_an_issuer_of_tokens() -> None:
    check_address(Http(host="0.0.0.0", jwt=ISSUED))
    check_address(Http(host="0.0.0.0", token="s3cret"))
    with pytest.raises(ConfigError, match=r"or set `http\.jwt`"):
        check_address(Http(host="0.0.0.0"))


@asynccontextmanager
async def admin(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a gateway who sends the token of the settings."""
    async with opened(settings_of(folder, Http(token="s3cret"))) as gateway:
        app = application(gateway, gateway.settings.http, PlainTextResponse("MCP"))
        sent = {"Authorization": "Bearer s3cret"}
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=sent) as http:
            yield http


async def test_a_token_ends_when_it_is_revoked(tmp_path: Path) -> None:
    """Made, used, revoked by its name, and refused with the day, all over HTTP."""
    async with admin(tmp_path) as http:
        made = (await http.post("/api/v1/tokens", json={"name": "temp", "role": "viewer"})).json()
        listed = (await http.get("/api/v1/tokens")).json()["tokens"]
        before = await http.get("/api/v1/tools/hot", headers={"Authorization": f"Bearer {made['token']}"})
        revoked = await http.delete("/api/v1/tokens/temp")
        after = await http.get("/api/v1/tools/hot", headers={"Authorization": f"Bearer {made['token']}"})
        again = await http.delete("/api/v1/tokens/temp")

    assert {k: v for k, v in made.items() if k != "token"} in listed
    assert made["token"] not in str(listed)
    assert (before.status_code, after.status_code, again.status_code) == (200, 401, 404)
    assert [(one["id"], one["state"]) for one in revoked.json()["tokens"]] == [(made["id"], "revoked")]
    assert "was revoked on" in after.json()["message"]
    assert again.json()["error"] == "token_not_found"


async def test_a_token_for_what_does_not_exist_is_not_made(tmp_path: Path) -> None:
    """All faults are told, with what may have been meant."""
    wanted = {"name": "typo", "role": "agent", "servers": ["file"], "categories": ["files_txt"]}
    async with admin(tmp_path) as http:
        answer = await http.post("/api/v1/tokens", json=wanted)

    assert answer.status_code == 422
    assert answer.json()["faults"] == [
        "there is no server 'file'; did you mean 'files'?",
        "there is no category 'files_txt'; did you mean 'files_text'?",
    ]


# --- an authorization server ------------------------------------------------------------------------------

METADATA = "/.well-known/oauth-protected-resource"


def test_a_refusal_leads_to_the_authorization_server() -> None:
    """By the address of the metadata, which anybody may read, at the root and below it for the endpoint."""
    settings = Http(jwt=ISSUED, anonymous="none")
    challenge = ask(settings).headers["www-authenticate"]
    found = [ask(settings, path=path) for path in (METADATA, f"{METADATA}/mcp")]

    assert challenge == f'Bearer resource_metadata="https://gateway.example{METADATA}/mcp"'
    assert 'error="invalid_token", resource_metadata=' in ask(settings, "wrong").headers["www-authenticate"]
    assert [answer.json() for answer in found] == 2 * [
        {
            "resource": issuer.AUDIENCE,
            "authorization_servers": [issuer.ISSUER],
            "bearer_methods_supported": ["header"],
            "resource_name": "maitred",
        }
    ]


def test_the_resource_is_where_it_was_asked_if_no_audience_is_an_address() -> None:
    settings = Http(jwt=replace(ISSUED, audience=("api://maitred",)))

    assert ask(settings, path=METADATA).json()["resource"] == "http://localhost/mcp"


def test_without_an_authorization_server_there_is_no_metadata() -> None:
    assert ask(Http(), path=METADATA).status_code == 404


@contextmanager
def key_server() -> Iterator[str]:
    """A server of keys on this machine; its address."""

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = issuer.key_set(issuer.public(issuer.rsa_key(), "k1"))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as its base has it
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/keys"
        server.shutdown()
        thread.join()


async def test_a_token_of_the_authorization_server_is_taken_by_its_keys_and_claims(tmp_path: Path) -> None:
    """What is configured is what decides; tokens of maitred are taken beside them."""
    database = SqliteDatabase(new_catalog(tmp_path))
    made = Grants(database)
    ours = await made.make("ci", "viewer")
    now = time.time()
    fresh: dict[str, Any] = {"exp": now + 60, "iat": now, "scope": "mcp:read", "mcp_servers": ["files"]}
    with key_server() as url:
        jwt = replace(ISSUED, jwks_url=url, servers_claim="mcp_servers", read_only_scope="mcp:read")
        credentials = Credentials(
            made,
            lambda access: verifier_of(jwt, access).grant_of,
            AccessSettings(),
            SuspendedPrincipals(database),
            PrincipalGroups(database),
        )
        good = await credentials.grant_of(issuer.token(**fresh))
        elsewhere = await credentials.grant_of(issuer.token(**fresh, aud="https://other.example"))
        stranger = await credentials.grant_of(issuer.token(**(fresh | {"roles": ["guest"]})))
        beside = await credentials.grant_of(ours.token)

    assert good == Grant(
        principal="oauth:ann",
        role="agent",
        scope=Scope(servers=frozenset({"files"}), read_only=True),
    )
    assert beside == ours.record.grant
    assert isinstance(elsewhere, RefusedAccess)
    assert "audience" in elsewhere.reason
    assert isinstance(stranger, RefusedAccess)
    assert "no role" in stranger.reason


async def test_a_gateway_whose_issuer_is_away_answers_others(tmp_path: Path) -> None:
    """Only tokens of the issuer have to wait."""
    jwt = replace(ISSUED, jwks_url="http://127.0.0.1:9/keys")
    async with opened(settings_of(tmp_path, Http(jwt=jwt))) as gateway:
        waiting = await gateway.grant_of(issuer.token())
        wrong = await gateway.grant_of("maitred_0123456789_" + 20 * "x")

    assert isinstance(waiting, RefusedAccess)
    assert waiting.unavailable
    assert isinstance(wrong, RefusedAccess)
    assert not wrong.unavailable


def test_what_the_refusal_says_is_json() -> None:
    assert set(json.loads(ask(Http(), "wrong").content)) == {"error", "message"}
