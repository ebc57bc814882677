"""Tokens after the login: renewed once for everybody, unreadable at rest, and gone after a logout."""

import json
import logging
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tests.backends.oauth_rig import NAME, NEEDED, Whisper, logged_in, whisper_once, whispering
from tests.backends.rig import RESOLVE, options
from tests.catalog.databases import key_beside
from tests.support.oauth_house import OAuthHouse, Page

from maitred.backends.base import ConnectError, LoginNeededError
from maitred.backends.http import HttpBackend
from maitred.backends.oauth.client import LoginTarget
from maitred.backends.oauth.grants import LoginGrant
from maitred.backends.oauth.login import log_out
from maitred.backends.oauth.vault import Vault
from maitred.config.settings import Http, Limits
from maitred.errors import ServerUnavailableError
from maitred.model.servers import OAuth, ServerSpec
from maitred.storage.sqlite import SqliteDatabase
from maitred.surfaces.http.serve import serve_http

pytestmark = pytest.mark.anyio


# --- renewal ----------------------------------------------------------------------------------------------


async def test_a_token_whose_time_is_over_is_renewed_before_it_is_sent(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """The refresh token rotates, and the new one is kept. Source: issue "Admission"."""
    house.lifetime_s = 1
    await logged_in(access)
    house.lifetime_s = 3600
    before = len(house.paths)
    assert await whisper_once(access) == "psst: hello"

    [renewal] = house.sent("/token", "refresh_token")
    assert renewal.body["resource"] == house.url
    assert house.paths[before] == "/token"
    house.end_access()
    assert await whisper_once(access) == "psst: hello"
    assert len(house.sent("/token", "refresh_token")) == 2


async def test_calls_at_the_same_time_renew_once(house: OAuthHouse, access: LoginTarget) -> None:
    """A rotating refresh token is good for one use. Source: issue "Admission"."""
    await logged_in(access)
    said: list[str] = []
    async with whispering(access) as whisper:
        house.end_access()
        async with anyio.create_task_group() as tasks:

            async def one() -> None:
                said.append(await whisper())

            for _ in range(8):
                tasks.start_soon(one)

    assert said == ["psst: hello"] * 8
    assert len(house.sent("/token", "refresh_token")) == 1


async def test_two_gateways_at_the_same_time_renew_once(
    house: OAuthHouse, access: LoginTarget, tmp_path: Path
) -> None:
    """They share the catalog, and nothing else. Source: issue "Admission"."""
    await logged_in(access)
    other = replace(
        access, store=Vault(SqliteDatabase(tmp_path / "catalog.db"), key_beside(tmp_path / "catalog.db"))
    )

    async def said(whisper: Whisper) -> None:
        assert await whisper() == "psst: hello"

    async with whispering(access) as first, whispering(other) as second:
        house.end_access()
        async with anyio.create_task_group() as tasks:
            for whisper in (first, second):
                tasks.start_soon(said, whisper)

    assert len(house.sent("/token", "refresh_token")) == 1


async def test_a_login_that_ended_is_told_with_what_to_run_and_a_new_one_is_taken_up(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """In the open session, without a restart; nobody opens a browser. Source: issue "Admission"."""
    await logged_in(access)
    async with whispering(access) as whisper:
        house.end_access()
        house.refresh.clear()
        for _ in range(2):
            with pytest.raises(ServerUnavailableError, match=NEEDED):
                await whisper()
        assert len(house.sent("/token", "refresh_token")) == 1
        await logged_in(access)
        assert len(house.asked) == 2
        assert await whisper_once(access) == "psst: hello"


async def test_an_authorization_server_that_is_ill_costs_nobody_the_login(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """It is told as such, and the login is good when the server is well again. Source: maitred."""
    await logged_in(access)
    house.end_access()
    house.pages["/token"] = Page({"oops": True}, status=503)
    with pytest.raises(ConnectError) as caught:
        await whisper_once(access)
    assert not isinstance(caught.value, LoginNeededError)
    told = "its login cannot be renewed now: its authorization server answered HTTP 503"
    assert str(caught.value) == told
    del house.pages["/token"]
    assert await whisper_once(access) == "psst: hello"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"url": "http://127.0.0.1:1/mcp"}, "its address has changed since the login"),
        ({"auth": OAuth(client_id="ours")}, "its `auth.client_id` has changed since the login"),
    ],
)
async def test_the_tokens_of_a_login_go_to_no_other_server(
    house: OAuthHouse, access: LoginTarget, change: dict[str, Any], why: str
) -> None:
    """Whoever changes the address in the configuration has to log in there. Source: maitred."""
    await logged_in(access)

    with pytest.raises(LoginNeededError) as caught:
        await whisper_once(replace(access, spec=replace(access.spec, **change)))
    assert str(caught.value) == f"{why}: {NEEDED}"


async def test_a_login_that_may_too_little_is_told_with_the_scope(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """With all scopes that the next login must ask for, or it would lose one. Source: SEP-2350."""
    await logged_in(access)
    advice = {
        'scope="more"': r"lacks the scope 'more': set .*\.auth\.scopes to \[use, more\] and run",
        'realm="x"': r"lacks a scope that the server does not name: .*, beside \[use\], and run",
    }
    async with whispering(access) as whisper:
        for named, told in advice.items():
            challenge = f'Bearer error="insufficient_scope", {named}'
            house.pages["/mcp"] = Page({}, status=403, headers={"www-authenticate": challenge})
            with pytest.raises(ServerUnavailableError, match=told):
                await whisper()
            del house.pages["/mcp"]


# --- at rest, and the end ---------------------------------------------------------------------------------


async def test_no_token_can_be_read_in_a_file_or_in_what_is_printed(
    house: OAuthHouse, access: LoginTarget, tmp_path: Path
) -> None:
    """Encrypted at rest; the key can be read by its owner only. Source: issue "Admission"."""
    grant = await logged_in(access)
    secret = [grant.access_token, grant.refresh_token, house.sent("/token")[0].body["client_id"]]

    for body in contents(tmp_path, {"catalog.db", "catalog.db.key"}):
        assert [one for one in secret if one.encode() in body] == []
    kept = await access.store.load(NAME)
    assert kept is not None
    assert json.loads(kept.body)["access_token"] == grant.access_token
    assert [one for one in secret if one in repr((grant, kept, access))] == []


def contents(folder: Path, names: set[str]) -> list[bytes]:
    """What is in all files of a folder, these among them; that of the key is its owner's alone."""
    files = [path for path in folder.iterdir() if path.is_file()]
    assert {path.name for path in files} >= names
    assert stat.S_IMODE((folder / "catalog.db.key").stat().st_mode) == 0o600
    return [path.read_bytes() for path in files]


async def test_no_token_is_logged(
    house: OAuthHouse, access: LoginTarget, caplog: pytest.LogCaptureFixture
) -> None:
    """At a login, a call and a renewal, however much is logged. Source: issue "Admission"."""
    caplog.set_level(logging.DEBUG)
    grants = [await logged_in(access)]
    house.end_access()
    assert await whisper_once(access) == "psst: hello"
    kept = await access.store.load(NAME)
    assert kept is not None
    grants.append(LoginGrant.from_bytes(kept.body))

    secret = [one for grant in grants for one in (grant.access_token, grant.refresh_token)]
    assert len(set(secret)) == 4
    assert caplog.text
    assert [one for one in secret if one in caplog.text] == []


async def test_a_logout_forgets_the_tokens_and_ends_them_there(
    house: OAuthHouse, access: LoginTarget
) -> None:
    """Revocation (RFC 7009) where the server offers it. Source: issue "Admission"."""
    grant = await logged_in(access)

    assert await log_out(access) == ""
    [revoked] = house.sent("/revoke")
    assert revoked.body["token"] == grant.refresh_token
    assert not house.access
    assert not house.refresh
    assert await access.store.load(NAME) is None
    with pytest.raises(LoginNeededError, match=NEEDED):
        await whisper_once(access)
    assert await log_out(access) is None


async def test_a_logout_says_when_the_tokens_stay_good(house: OAuthHouse, access: LoginTarget) -> None:
    """They are forgotten here all the same. Source: maitred."""
    await logged_in(access)
    house.pages["/revoke"] = Page({}, status=503)

    assert await log_out(access) == "its authorization server answered HTTP 503"
    assert await access.store.load(NAME) is None


async def test_a_refused_login_is_the_reason_whatever_the_server_says_to_the_other_era() -> None:
    """The gateway probes both eras; the second may be refused for another reason. Source: SEP-2352."""
    address, ready, stop = list[str](), anyio.Event(), anyio.Event()

    async def server(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        body = (await receive()).get("body", b"")
        status = 401 if b"server/discover" in body else 400
        await Response(status_code=status)(scope, receive, send)

    def listens(url: str) -> None:
        address.append(url)
        ready.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(serve_http, server, Http(port=0), stop=stop, ready=listens))
        await ready.wait()
        spec = ServerSpec(name=NAME, transport="http", url=f"{address[0]}/mcp", auth=OAuth())
        backend = HttpBackend(spec, resolve=RESOLVE, limits=Limits(), tokens_of=lambda _: Ended())
        with pytest.raises(LoginNeededError, match=r"maitred login"):
            async with backend.connect(options()):
                pass
        stop.set()


class Ended:
    """The token of a login that the server has ended."""

    scope = ""
    remedy = "run `maitred login`"

    async def token(self) -> str:
        return "old"

    async def renewed(self, refused: str) -> str:
        raise LoginNeededError(f"its login has ended: {NEEDED}" if refused else "")
