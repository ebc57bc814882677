"""Servers where each principal has its own login: commands, questions of a call, and the pages in between."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.interaction.harness import write_settings
from tests.support.callers import Answering
from tests.support.gateway_http import over_http
from tests.support.oauth_house import OAuthHouse, few_certificates, oauth_house, person
from tests.support.viewers import agent

from maitred.access.tokens import TokenRequest
from maitred.config.load import load
from maitred.errors import ConfigError, ServerUnavailableError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Scope, Viewer
from maitred.model.asking import ELICIT
from maitred.model.tools import ToolCall
from maitred.surfaces.cli import login as commands
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

LONG_S = 120.0
NAME = "guarded"
CALL = ToolCall(name=f"{NAME}__whisper", arguments={"text": "hello"})


@pytest.fixture(scope="module")
def building() -> Iterator[OAuthHouse]:
    with oauth_house() as house:
        yield house


@pytest.fixture
def house(
    building: OAuthHouse, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> OAuthHouse:
    building.reset()
    monkeypatch.delenv("MAITRED_KEY", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(few_certificates(tmp_path_factory.getbasetemp())))
    monkeypatch.setattr("webbrowser.open", person)
    return building


@pytest.fixture
def config(house: OAuthHouse, tmp_path: Path) -> Path:
    return write_settings(tmp_path, {NAME: {"url": house.url, "auth": {"per": "user"}}})


def log_in(config: Path, **options: Any) -> None:
    commands.login(NAME, config, timeout=LONG_S, **options)


async def whisper(gateway: Gateway, viewer: Viewer, caller: Any = None) -> str:
    with anyio.fail_after(LONG_S):
        more = {"caller": caller} if caller else {}
        return str((await gateway.call(CALL, viewer=viewer, **more))["content"][0]["text"])


async def refusal(gateway: Gateway, viewer: Viewer, caller: Any = None) -> str:
    with pytest.raises(ServerUnavailableError) as caught:
        await whisper(gateway, viewer, caller)
    return str(caught.value)


async def test_a_login_is_that_of_its_principal_alone(
    house: OAuthHouse, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has none is told the command; logging one out leaves the others. Source: docs/oauth.md."""
    await anyio.to_thread.run_sync(log_in, config)
    async with open_gateway(load(config)) as gateway:
        assert await whisper(gateway, LOCAL_USER) == "psst: hello"
        told = await refusal(gateway, agent("ann"))
        assert "it needs a login of 'ann': run `maitred login guarded --for ann`." in told
        await anyio.to_thread.run_sync(lambda: log_in(config, for_principal="ann"))
        assert await whisper(gateway, agent("ann")) == "psst: hello"
        await anyio.to_thread.run_sync(lambda: commands.logout(NAME, config))
        assert "run `maitred login guarded`" in await refusal(gateway, LOCAL_USER)
        assert "--for oauth:ann" in await refusal(gateway, agent("oauth:ann"))

    said = capsys.readouterr().out
    assert "Logged in to guarded for local: 1 tool." in said
    assert "Logged in to guarded for ann." in said
    assert "Logged out of guarded for local." in said
    assert len(house.sent("/token", "authorization_code")) == 2


async def test_the_gateways_own_login_lists_tools_and_serves_nobody(house: OAuthHouse, config: Path) -> None:
    """So tools are known before the first person logs in. Source: docs/oauth.md."""
    await anyio.to_thread.run_sync(lambda: log_in(config, of_gateway=True))
    async with open_gateway(load(config)) as gateway:
        assert CALL.name in gateway.catalog(LOCAL_USER).by_name
        assert "it needs a login of 'local'" in await refusal(gateway, LOCAL_USER)


async def test_the_local_person_is_asked_and_the_call_goes_on(house: OAuthHouse, config: Path) -> None:
    """The browser comes back to a port of this machine; no HTTP is needed. Source: docs/oauth.md."""
    await anyio.to_thread.run_sync(lambda: log_in(config, of_gateway=True))
    async with open_gateway(load(config)) as gateway, anyio.create_task_group() as tasks:

        class Opening(Answering):
            async def ask(self, method: str, params: Any) -> dict[str, Any]:
                tasks.start_soon(anyio.to_thread.run_sync, person, params["url"])
                return await super().ask(method, params)

        caller = Opening({ELICIT: {"action": "accept"}}, principal="local")
        assert await whisper(gateway, LOCAL_USER, caller) == "psst: hello"
        assert await whisper(gateway, LOCAL_USER, caller) == "psst: hello"

    [(_, question), (_, told)] = caller.asked
    assert question["mode"] == "url"
    assert told == {"elicitationId": question["elicitationId"]}


async def test_who_declines_or_cannot_come_back_is_told_the_command(house: OAuthHouse, config: Path) -> None:
    """Source: docs/oauth.md."""
    await anyio.to_thread.run_sync(lambda: log_in(config, of_gateway=True))
    async with open_gateway(load(config)) as gateway:
        declining = Answering({ELICIT: {"action": "decline"}})
        assert "(the login was declined)" in await refusal(gateway, LOCAL_USER, declining)
        assert "run `maitred login guarded --for ann`" in await refusal(gateway, agent("ann"), declining)
        assert len(declining.asked) == 1  # nobody but the local person has a way back without HTTP


def test_a_server_with_one_login_for_all_takes_none_for_a_principal(
    house: OAuthHouse, tmp_path: Path
) -> None:
    """Source: docs/cli.md."""
    config = write_settings(tmp_path, {NAME: {"url": house.url, "auth": "oauth"}})
    with pytest.raises(ConfigError, match="it has one login for all"):
        log_in(config, for_principal="ann")


# --- over HTTP --------------------------------------------------------------------------------------------


class Browser:
    """Somebody with a browser, who continues on the page that the question leads to."""

    def __init__(self) -> None:
        self.pages: list[str] = []
        self.last = httpx2.Response(500)

    def open(self, address: str) -> None:
        with httpx2.Client(verify=False, follow_redirects=True) as browser:
            self.pages.append(browser.get(address).text)
            self.last = browser.post(address)


@asynccontextmanager
async def client(
    url: str, token: str, mode: Literal["legacy", "auto"], browser: Browser
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with anyio.create_task_group() as tasks:

        async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            assert isinstance(params, types.ElicitRequestURLParams)
            tasks.start_soon(anyio.to_thread.run_sync, browser.open, params.url)
            return types.ElicitResult(action="accept")

        async with (
            httpx2.AsyncClient(headers=headers, timeout=LONG_S, verify=False) as http,
            Client(
                streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=elicit
            ) as own,
        ):
            yield own


@asynccontextmanager
async def served(config: Path) -> AsyncIterator[tuple[Gateway, str]]:
    async with open_gateway(load(config), serves=True) as gateway, over_http(gateway) as url:
        gateway.take_logins_at(url.removesuffix("/mcp"))
        yield gateway, url


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_over_http_is_asked_in_both_eras(
    house: OAuthHouse, config: Path, mode: Literal["legacy", "auto"]
) -> None:
    """The page names the principal, and the call goes on after the login. Source: docs/oauth.md."""
    await anyio.to_thread.run_sync(lambda: log_in(config, of_gateway=True))
    async with served(config) as (gateway, url):
        wanted = TokenRequest(name="ann", role="agent", scope=Scope())
        token = (await gateway.make_token(wanted, LOCAL_USER)).token
        browser = Browser()
        with anyio.fail_after(LONG_S):
            async with client(url, token, mode, browser) as own:
                answer = await own.call_tool(CALL.name, dict(CALL.arguments))
        assert "it needs a login of 'ben'" in await refusal(gateway, agent("ben"))

    assert answer.content[0].text == "psst: hello"  # type: ignore[union-attr]
    assert "<b>guarded</b> for <b>ann</b>" in browser.pages[0]
    assert browser.last.status_code == 200


async def test_a_ticket_and_a_state_are_good_once_and_for_one_browser(
    house: OAuthHouse, config: Path
) -> None:
    """Whoever sees the address later, or has the state alone, gets nothing. Source: docs/security.md."""
    await anyio.to_thread.run_sync(lambda: log_in(config, of_gateway=True))
    async with served(config) as (gateway, _), httpx2.AsyncClient(verify=False) as mine:
        opened: list[str] = []

        class Waiting(Answering):
            async def ask(self, method: str, params: Any) -> dict[str, Any]:
                opened.append(params["url"])
                await finish(params["url"])
                return await super().ask(method, params)

        async def finish(address: str) -> None:
            page = (await mine.post(address)).headers["location"]
            back = (await mine.get(page)).headers["location"]
            async with httpx2.AsyncClient(verify=False) as other:
                assert (await other.get(back)).status_code == 400
                assert (await other.get(address)).status_code == 404
                assert (await other.post(address)).status_code == 404
            forged = re.sub("state=[^&]+", "state=guessed", back)
            assert (await mine.get(forged)).status_code == 400
            assert (await mine.get(back)).status_code == 200
            assert (await mine.get(back)).status_code == 400

        caller = Waiting({ELICIT: {"action": "accept"}})
        assert await whisper(gateway, agent("ann"), caller) == "psst: hello"
        assert (await mine.get(opened[0])).status_code == 404


async def test_where_people_sign_in_an_address_is_for_its_principal_alone(
    house: OAuthHouse, config: Path
) -> None:
    """Who persuades another person to open it gets nothing. Source: docs/security.md."""
    sign_in = {"issuer": "https://login.example", "client_id": "maitred", "url": "http://127.0.0.1:1"}
    servers = {NAME: {"url": house.url, "auth": {"per": "user"}}}
    write_settings(config.parent, servers, access={"sign_in": sign_in, "groups": {"*": {"role": "viewer"}}})
    await anyio.to_thread.run_sync(lambda: log_in(config, of_gateway=True))
    async with served(config) as (gateway, url):
        grants = [TokenRequest(name=name, role="viewer", scope=Scope()) for name in ("ann", "bob")]
        ann, bob = [(await gateway.make_token(one, LOCAL_USER)).token for one in grants]
        seen: list[int] = []

        class Waiting(Answering):
            async def ask(self, method: str, params: Any) -> dict[str, Any]:
                address = params["url"]
                async with httpx2.AsyncClient(verify=False) as stranger:
                    for asked in (await stranger.get(address), await stranger.post(address)):
                        assert asked.headers["location"].startswith("/ui/enter?next=%2Fui%2Flogins%2F")
                async with browser_of(bob, url) as wrong:
                    for asked in (await wrong.get(address), await wrong.post(address)):
                        assert "for <b>ann</b>, and you are signed in here as <b>bob</b>" in asked.text
                        seen.append(asked.status_code)
                async with browser_of(ann, url) as own:
                    assert "<b>guarded</b> for <b>ann</b>" in (await own.get(address)).text
                    page = (await own.post(address)).headers["location"]
                    back = (await own.get(page)).headers["location"]
                    assert (await own.get(back)).status_code == 200
                return await super().ask(method, params)

        assert await whisper(gateway, agent("ann"), Waiting({ELICIT: {"action": "accept"}})) == "psst: hello"
    assert seen == [403, 403]


@asynccontextmanager
async def browser_of(token: str, url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser whose person has entered the pages."""
    here = url.removesuffix("/mcp")
    async with httpx2.AsyncClient(verify=False) as browser:
        await browser.post(f"{here}/ui/enter", data={"token": token}, headers={"origin": here})
        yield browser
