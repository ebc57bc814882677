"""The page on logins is true: its table, its examples, and what it prints."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import anyio
import pytest
from tests.support.oauth_house import OAuthHouse, few_certificates, oauth_house, person

from maitred.config.load import load, parse
from maitred.config.sections import AuthEntry
from maitred.errors import ServerUnavailableError
from maitred.model.access import LOCAL_USER
from maitred.surfaces.cli import login as commands
from maitred.wiring import open_gateway

PAGE = (Path(__file__).parents[2] / "docs" / "oauth.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(PAGE) if kind == language]


QUICK, CHOSEN, PERSONAL, EXCHANGED = blocks("yaml")
(LOGIN,) = blocks("console")
(DOCUMENT,) = blocks("json")
NEEDED, TUNNEL = blocks("")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OAuthHouse]:
    monkeypatch.delenv("MAITRED_KEY", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(few_certificates(tmp_path)))
    monkeypatch.setattr("webbrowser.open", person)
    with oauth_house() as house:
        yield house


def test_the_quick_start_prints_what_the_page_says(
    house: OAuthHouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the configuration to a login, with what is told before it."""
    config = tmp_path / "maitred.yaml"
    config.write_text(QUICK.replace("https://tracker.example.com/mcp", house.url), encoding="utf-8")

    async def told() -> str:
        async with open_gateway(load(config)) as gateway:
            [report] = await gateway.sync(["tracker"], viewer=LOCAL_USER)
            return str(ServerUnavailableError("tracker", report.error))  # as it is told to who calls

    assert anyio.run(told).startswith(NEEDED.strip())
    _, expected = LOGIN.split("\n", 1)
    commands.login("tracker", config, no_browser=False, timeout=120)
    assert capsys.readouterr().out.endswith(expected)


def written(default: object) -> str:
    """A default as the page writes it."""
    if isinstance(default, bool):
        return str(default).lower()
    return str(list(default)) if isinstance(default, tuple) else str(default or "")


def test_the_table_has_every_choice_with_its_default() -> None:
    """And no other."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:`(.*?)`)? ?\|", PAGE, re.MULTILINE))
    assert rows == {field.name: written(field.default) for field in fields(AuthEntry)}


def test_the_examples_mean_what_the_page_says() -> None:
    """The document is that of a client which comes back to where maitred waits."""
    auth = parse(Path("maitred.yaml"), CHOSEN).servers["tracker"].auth
    assert auth is not None
    assert (auth.client_secret, auth.redirect_uri) == ("${TRACKER_SECRET}", "http://localhost:8421/callback")
    document = json.loads(DOCUMENT)
    assert document["redirect_uris"] == [AuthEntry.redirect_uri]
    meant = {"url": "https://a.example/mcp", "auth": {"client_metadata_url": document["client_id"]}}
    assert parse(Path("maitred.yaml"), json.dumps({"servers": {"a": meant}})).servers["a"].auth is not None
    assert "8421" in TUNNEL


def test_the_examples_of_principals_are_read_as_the_page_says() -> None:
    """A login for each user, and an exchange of callers' tokens."""
    personal = parse(Path("maitred.yaml"), PERSONAL).servers["tracker"]
    exchanged = parse(Path("maitred.yaml"), EXCHANGED).servers["inside"]

    assert personal.is_personal
    assert not personal.takes_callers_tokens
    assert exchanged.takes_callers_tokens
