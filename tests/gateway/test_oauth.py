"""Servers that want a login, behind a running gateway: what a caller is told, and the commands that help.

And where a server on HTTP may lead: addresses are looked at, and redirects not followed to another host.
"""

import io
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.console import Console
from tests.interaction.harness import write_settings
from tests.support.oauth_house import OAuthHouse, Page, few_certificates, oauth_house, person

from maitred.config.load import load
from maitred.config.settings import Settings
from maitred.errors import ConfigError, LoginError, MaitredError, ServerUnavailableError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolCall
from maitred.surfaces.cli import login as commands
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

LONG_S = 120.0
NAME = "guarded"


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
    return building


@pytest.fixture
def tabs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tabs that were opened; a person agrees in each."""
    opened: list[str] = []

    def open_tab(page: str) -> bool:
        opened.append(page)
        return person(page)

    monkeypatch.setattr("webbrowser.open", open_tab)
    return opened


@pytest.fixture
def config(house: OAuthHouse, tmp_path: Path) -> Path:
    return write_settings(tmp_path, {NAME: {"url": house.url, "auth": "oauth"}})


def log_in(config: Path, server: str = NAME, *, no_browser: bool = False, timeout: float = LONG_S) -> None:
    commands.login(server, config, no_browser=no_browser, timeout=timeout)


async def whisper(gateway: Gateway) -> str:
    call = ToolCall(name=f"{NAME}__whisper", arguments={"text": "hello"})
    with anyio.fail_after(LONG_S):
        return str((await gateway.call(call, viewer=LOCAL_USER))["content"][0]["text"])


async def test_a_gateway_asks_for_a_login_and_goes_on_after_one_elsewhere(
    house: OAuthHouse, config: Path, tabs: list[str]
) -> None:
    """It opens no browser itself, and needs no restart. Source: issue "Admission"."""
    async with open_gateway(load(config)) as gateway:
        needed = f"it needs a login: run `maitred login {NAME}`"
        for _ in range(4):
            [report] = await gateway.sync([NAME], viewer=LOCAL_USER)
            assert report.error.startswith(needed)
        assert house.paths == []
        await anyio.to_thread.run_sync(log_in, config)
        [report] = await gateway.sync([NAME], viewer=LOCAL_USER)
        assert report.error == ""
        assert await whisper(gateway) == "psst: hello"
        await ended_and_begun_again(house, gateway, config)
    assert len(tabs) == 2


async def ended_and_begun_again(house: OAuthHouse, gateway: Gateway, config: Path) -> None:
    """The login ends there, a call says so as often as it is tried, and another login is taken up."""
    house.end_access()
    house.refresh.clear()
    for _ in range(4):
        with pytest.raises(ServerUnavailableError, match=rf"run `maitred login {NAME}`"):
            await whisper(gateway)
    await anyio.to_thread.run_sync(log_in, config)
    assert await whisper(gateway) == "psst: hello"


def test_a_login_and_a_logout_say_what_they_did_and_no_token(
    house: OAuthHouse, config: Path, tabs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One tab, one line; the address in case no browser came up. Source: docs/oauth.md."""
    log_in(config)
    tokens = [*house.access, *house.refresh]
    commands.logout(NAME, config)
    commands.logout(NAME, config)
    said = capsys.readouterr()

    assert said.out.endswith(
        f"Logged in to {NAME}: 1 tool.\nLogged out of {NAME}.\nThere is no login to {NAME}.\n"
    )
    assert f"If your browser shows nothing, open this address to log in to {NAME}:" in said.err
    assert len(tabs) == 1
    assert tabs[0] in said.err
    assert len(tokens) == 2
    assert [token for token in tokens if token in said.out + said.err] == []
    assert house.refresh == {}


class Reader(io.StringIO):
    """A person who reads what a command prints, and types the address that it names."""

    def write(self, text: str) -> int:
        if found := re.search(r"http://\S+/authorize\S+", text):
            threading.Thread(target=person, args=[found[0]], daemon=True).start()
        return super().write(text)


def test_without_a_browser_the_address_is_printed_and_can_be_opened_anywhere(
    house: OAuthHouse, config: Path, tabs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without a screen. Source: docs/oauth.md."""
    reader = Reader()
    monkeypatch.setattr(commands, "err", Console(file=reader, soft_wrap=True, highlight=False))
    log_in(config, no_browser=True)

    assert tabs == []
    assert reader.getvalue().startswith(f"Open this address to log in to {NAME}:\n{house.origin}/authorize?")
    assert len(house.sent("/token")) == 1


def test_a_login_of_a_server_that_was_removed_can_be_forgotten(
    house: OAuthHouse, config: Path, tabs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that never was is told as such. Source: maitred."""
    log_in(config)
    write_settings(config.parent, {"other": {"url": house.url}})
    commands.logout(NAME, config)

    assert f"Logged out of {NAME}." in capsys.readouterr().out
    with pytest.raises(ConfigError, match="there is no server 'guarded'"):
        commands.logout(NAME, config)


def test_a_wrong_key_is_told_and_another_login_mends_it(
    house: OAuthHouse, config: Path, tabs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway does not crash of it. Source: issue "Admission"."""
    log_in(config)
    monkeypatch.setenv("MAITRED_KEY", "A" * 43 + "=")

    async def reported() -> str:
        async with open_gateway(load(config)) as gateway:
            [report] = await gateway.sync([NAME], viewer=LOCAL_USER)
            return str(report.error)

    assert "was not encrypted with the key in MAITRED_KEY" in anyio.run(reported)
    log_in(config)
    assert anyio.run(reported) == ""


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"timeout": 0.05}, LoginError, "the browser did not return within 0.05 s."),
        ({"server": "gaurded"}, ConfigError, "there is no server 'gaurded'; did you mean 'guarded'?"),
        ({"server": "open"}, ConfigError, "servers.open: set `auth: oauth` to log in to it"),
    ],
)
def test_a_login_that_cannot_be_says_why(
    house: OAuthHouse,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    kind: type[MaitredError],
    told: str,
) -> None:
    """Source: docs/oauth.md."""
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    entry = {"url": house.url}
    write_settings(config.parent, {NAME: {**entry, "auth": "oauth"}, "open": entry})

    with pytest.raises(kind, match=re.escape(told)):
        log_in(config, **options)


def test_a_browser_that_cannot_be_opened_leaves_the_address(
    house: OAuthHouse, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: maitred."""
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    with pytest.raises(LoginError):
        log_in(config, timeout=0.05)
    assert (
        f"\nOpen this address to log in to {NAME}:\n{house.origin}/authorize?"
        in "\n" + capsys.readouterr().err
    )


async def test_a_server_that_answers_401_is_told_with_the_ways_in(house: OAuthHouse, tmp_path: Path) -> None:
    """Source: issue "Admission"."""
    config = write_settings(tmp_path, {NAME: {"url": house.url}})
    async with open_gateway(load(config)) as gateway:
        [report] = await gateway.sync([NAME], viewer=LOCAL_USER)

    assert (
        f"{house.url} answered HTTP 401: it wants credentials; set servers.{NAME}.auth to oauth and run"
        f" `maitred login {NAME}`, or set `headers`"
    ) in report.error


# --- where a server on HTTP may lead ----------------------------------------------------------------------


@pytest.fixture
def inside() -> Iterator[socket.socket]:
    """Something on another host of this network, which nobody outside may reach."""
    with socket.create_server(("127.0.0.2", 0)) as listener:
        listener.setblocking(False)
        yield listener


def known(config: Path, **changes: Any) -> Settings:
    """The settings, with other fields of the server's specification."""
    settings = load(config)
    return replace(settings, servers={NAME: replace(settings.servers[NAME], **changes)})


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_to_another_host_is_not_followed_and_told(
    house: OAuthHouse, tmp_path: Path, inside: socket.socket, status: int
) -> None:
    """Though the server itself may be anywhere: its operator named it. Source: notes/peers.md."""
    target = f"http://127.0.0.2:{inside.getsockname()[1]}/latest/meta-data"
    house.pages["/mcp"] = Page(status=status, headers={"location": f"{target}?secret=1"})
    config = write_settings(tmp_path, {NAME: {"url": house.url}})
    async with open_gateway(load(config)) as gateway:
        [report] = await gateway.sync([NAME], viewer=LOCAL_USER)

    assert report.error.startswith(f"{house.url} redirects to {target}, which the gateway does not follow;")
    with pytest.raises(BlockingIOError):
        inside.accept()


async def test_a_registered_server_reaches_no_forbidden_address_unless_exempted(
    house: OAuthHouse, config: Path, tabs: list[str]
) -> None:
    """A call to its known tool says which address and why. Source: issue "Admission"."""
    await anyio.to_thread.run_sync(log_in, config)
    async with open_gateway(load(config)) as gateway:
        assert await whisper(gateway) == "psst: hello"
        await gateway.configure(known(config, registered=True), viewer=LOCAL_USER)
        house.paths.clear()
        with pytest.raises(ServerUnavailableError) as caught:
            await whisper(gateway)
        assert house.paths == []
        await gateway.configure(known(config, registered=True, exempted=("127.0.0.0/8",)), viewer=LOCAL_USER)
        assert await whisper(gateway) == "psst: hello"

    told = "127.0.0.1 leads to 127.0.0.1, which is a loopback address; it is not connected to"
    assert str(caught.value).startswith(
        f"Server {NAME!r} is not available: {house.url} cannot be reached: {told}"
    )
