"""Logins by OAuth against a real authorization server: what is sent, and what is told when it fails."""

import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from tests.backends.oauth_rig import LONG_S, NAME, browse, choosing, logged_in, whisper_once
from tests.support.oauth_house import DOCUMENT, METADATA, RESOURCE, OAuthHouse, Page

from maitred.backends.oauth.client import LoginTarget
from maitred.backends.oauth.login import log_in
from maitred.errors import LoginError

pytestmark = pytest.mark.anyio


async def why_not(access: LoginTarget, going: Callable[[str], Awaitable[None]] = browse) -> str:
    """Why a login fails."""
    with pytest.raises(LoginError) as caught:
        await logged_in(access, going)
    return caught.value.reason


# --- the flow ---------------------------------------------------------------------------------------------


async def test_a_login_sends_a_verifier_and_the_resource_and_opens_the_server(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """PKCE (S256) and RFC 8707; the server checks the audience. Source: issue "Admission"."""
    grant = await logged_in(access)

    [asked] = house.asked
    [exchange] = house.sent("/token")
    assert asked.resource == exchange.body["resource"] == house.url
    assert len(asked.code_challenge) == 43
    assert 43 <= len(exchange.body["code_verifier"]) <= 128
    assert asked.code_challenge != exchange.body["code_verifier"]
    assert grant.url == house.url
    assert await whisper_once(access) == "psst: hello"


async def test_a_person_is_sent_to_one_page_only(access: LoginTarget) -> None:
    """One browser tab. Source: notes on other gateways."""
    pages: list[str] = []

    async def going(page: str) -> None:
        pages.append(page)
        await browse(page)

    await logged_in(access, going)

    assert len(pages) == 1
    assert urlsplit(parse_qs(urlsplit(pages[0]).query)["redirect_uri"][0]).hostname == "127.0.0.1"


async def test_without_a_client_of_ones_own_one_is_registered(house: OAuthHouse, access: LoginTarget) -> None:
    """Dynamic registration. Source: issue "Admission"."""
    await logged_in(access)

    [registered] = house.sent("/register")
    assert registered.body["client_name"] == "maitred"
    assert house.sent("/token")[0].body["client_id"] in house.clients


async def test_a_document_of_the_client_is_used_where_the_server_reads_such(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """Client-id metadata documents come before registration. Source: issue "Admission"."""
    await anyio.to_thread.run_sync(house.knows_documents)
    await logged_in(choosing(access, client_metadata_url=DOCUMENT))

    assert house.sent("/register") == []
    assert house.sent("/token")[0].body["client_id"] == DOCUMENT


async def test_with_a_document_that_the_server_does_not_read_a_client_is_registered(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """Dynamic registration is the fallback. Source: issue "Admission"."""
    await logged_in(choosing(access, client_metadata_url=DOCUMENT))

    assert len(house.sent("/register")) == 1
    assert house.sent("/token")[0].body["client_id"] != DOCUMENT


async def test_a_client_that_the_operator_registered_is_used_and_its_secret_not_kept(
    house: OAuthHouse, access: LoginTarget, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    """The secret is a reference, which is resolved each time. Source: docs/oauth.md."""
    monkeypatch.setenv("GUARDED_SECRET", "s3cret")
    back = f"http://127.0.0.1:{free_port}/back"
    registered = {"client_id": "ours", "client_secret": "s3cret", "redirect_uris": [back], "scope": "use"}
    body = (await post(house, registered)).json()
    ours = choosing(access, client_id=body["client_id"], client_secret="${GUARDED_SECRET}", redirect_uri=back)
    house.clients[body["client_id"]].client_secret = "s3cret"
    house.clients[body["client_id"]].token_endpoint_auth_method = "client_secret_basic"
    house.posts.clear()
    grant = await logged_in(ours)

    [exchange] = house.sent("/token")
    assert exchange.headers["authorization"].startswith("Basic ")
    assert house.sent("/register") == []
    assert b"s3cret" not in grant.to_bytes()
    house.end_access()
    assert await whisper_once(ours) == "psst: hello"


async def post(house: OAuthHouse, registered: dict[str, Any]) -> httpx2.Response:
    async with httpx2.AsyncClient(verify=False) as client:
        return await client.post(f"{house.origin}/register", json=registered)


@pytest.fixture
def free_port() -> int:
    """A port where nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def test_scopes_of_the_configuration_are_asked_for(house: OAuthHouse, access: LoginTarget) -> None:
    """Instead of those that the server lists. Source: docs/oauth.md."""
    await anyio.to_thread.run_sync(house.knows_documents)
    house.clients[DOCUMENT].scope = "use more"
    grant = await logged_in(choosing(access, client_metadata_url=DOCUMENT, scopes=("use", "more")))

    assert house.asked[0].scopes == ["use", "more"]
    assert grant.scope == "use more"


# --- what goes wrong at the login -------------------------------------------------------------------------


async def test_an_answer_with_another_state_is_refused_and_the_right_one_counts(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """Somebody else's page cannot slip in a code of theirs. Source: RFC 9700."""
    statuses: list[int] = []

    async def going(page: str) -> None:
        back = parse_qs(urlsplit(page).query)["redirect_uri"][0]
        async with httpx2.AsyncClient(verify=False) as client:
            got = [
                await client.get(back + more) for more in ("?code=theirs&state=theirs", "?code=theirs", "")
            ]
            got += [await client.post(back), await client.get(back.replace("/callback", "/favicon.ico"))]
            statuses.extend(one.status_code for one in got)
        await browse(page)

    await logged_in(access, going)

    assert statuses == [400, 400, 400, 404, 404]
    assert [post.body["code"] for post in house.sent("/token")] != ["theirs"]


async def test_a_person_who_says_no_is_told_so(house: OAuthHouse, access: LoginTarget) -> None:
    """With the words of the authorization server. Source: maitred."""
    house.refuses = True

    assert await why_not(access) == ("the authorization server answered access_denied: the person said no")
    assert await access.store.load(NAME) is None


async def test_a_person_who_does_not_come_back_is_not_waited_for_for_ever(access: LoginTarget) -> None:
    """Source: maitred."""

    async def nowhere(_: str) -> None:
        """Close the tab."""

    with anyio.fail_after(LONG_S), pytest.raises(LoginError, match=r"browser did not return within 0\.05 s"):
        await log_in(access, nowhere, timeout_s=0.05)


async def test_an_authorization_server_without_pkce_is_refused(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """The protocol wants that. Source: MCP 2025-11-25, authorization."""
    metadata = await anyio.to_thread.run_sync(house.metadata)
    del metadata["code_challenge_methods_supported"]
    house.pages[METADATA] = Page(metadata)

    assert await why_not(access) == "its authorization server does not protect logins by PKCE (S256)"
    assert house.asked == []


async def test_metadata_that_lead_into_the_private_network_are_not_followed(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """A server may name any authorization server; only its own host may be a private one. Source: peers."""
    for elsewhere, why in (
        ("https://127.0.0.2:1/", "127.0.0.2 leads to 127.0.0.2, which is a loopback address"),
        ("http://169.254.169.254/", "169.254.169.254 is not the server itself, and its address has no https"),
        ("https://169.254.169.254/", "metadata"),
    ):
        house.pages[RESOURCE] = Page({"resource": house.url, "authorization_servers": [elsewhere]})
        assert why in await why_not(access)


async def test_an_issuer_that_the_operator_did_not_name_is_refused(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """`auth.issuer` pins the authorization server. Source: docs/oauth.md."""
    told = await why_not(choosing(access, issuer="https://login.example.com"))
    assert told == f"it names {house.origin} for logins, and `auth.issuer` names another server"
    assert (await logged_in(choosing(access, issuer=f"{house.origin}/"))).access_token


async def test_what_a_token_endpoint_answers_is_not_repeated(house: OAuthHouse, access: LoginTarget) -> None:
    """It may hold tokens. Source: issue "Admission"."""
    for page in (
        Page({"access_token": "t0ken", "token_type": "Strange", "refresh_token": "t0ken"}),
        Page({"hint": "t0ken"}, status=500),
    ):
        house.pages["/token"] = page
        assert "t0ken" not in await why_not(access)


async def test_a_server_that_wants_no_login_is_told_as_such(house: OAuthHouse, access: LoginTarget) -> None:
    """Source: maitred."""
    elsewhere = replace(access, spec=replace(access.spec, url=f"{house.origin}/nothing"))

    assert await why_not(elsewhere) == (
        f"{house.origin}/nothing answered HTTP 404 and asks for no login; is `url` right?"
    )
