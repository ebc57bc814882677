"""The key `auth` of a server: what it may say, and what is told of the rest."""

import json
from pathlib import Path
from typing import Any

import pytest

from maitred.config.load import parse
from maitred.errors import ConfigError
from maitred.model.servers import OAuth


def auth_of(entry: Any, name: str = "maitred.yaml", **more: Any) -> OAuth | None:
    """The login of a server on HTTP."""
    server = {"url": "https://a.example/mcp", "auth": entry, **more}
    key = "mcpServers" if name.endswith(".json") else "servers"
    return parse(Path(name), json.dumps({key: {"a": server}})).servers["a"].auth


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        (None, None),
        ("oauth", OAuth()),
        ({}, OAuth()),
        (
            {"client_id": "us", "client_secret": "${S}", "scopes": ["r", "w"]},
            OAuth(client_id="us", client_secret="${S}", scopes=("r", "w")),
        ),
        (
            {"client_metadata_url": "https://us.example/c.json", "issuer": "https://login.example"},
            OAuth(client_metadata_url="https://us.example/c.json", issuer="https://login.example"),
        ),
        ({"redirect_uri": "http://localhost:8421/back"}, OAuth(redirect_uri="http://localhost:8421/back")),
    ],
)
def test_a_login_is_a_word_or_a_mapping(entry: Any, meant: OAuth | None) -> None:
    """Source: docs/oauth.md."""
    assert auth_of(entry) == meant


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("bearer", "servers.a.auth: must be `oauth`, or a mapping of its keys"),
        (["oauth"], "servers.a.auth: must be a mapping of keys to values"),
        ({"clientid": "us"}, "servers.a.auth.clientid: is not a known key; did you mean `client_id`?"),
        ({"client_secret": "${S}"}, "servers.a.auth.client_secret: needs `client_id`"),
        (
            {"client_id": "us", "client_metadata_url": "https://us.example/c"},
            "servers.a.auth.client_metadata_url: is for those who have no `client_id`",
        ),
        ({"client_metadata_url": "http://us.example/c"}, "must start with https:// and have a path"),
        ({"client_metadata_url": "https://us.example"}, "must start with https:// and have a path"),
        ({"redirect_uri": "https://us.example/back"}, "must be an http:// address of this machine"),
        ({"redirect_uri": "http://us.example/back"}, "must be an http:// address of this machine"),
        ({"redirect_uri": "http://127.0.0.1:99999/"}, "must be an http:// address of this machine"),
        ({"issuer": "login.example"}, "servers.a.auth.issuer: must start with http:// or https://"),
        ({"scopes": ["a b"]}, "servers.a.auth.scopes: must be a list of words without blanks"),
        ({"scopes": "a"}, "servers.a.auth.scopes: must be a list"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_place(entry: Any, told: str) -> None:
    """Source: docs/configuration.md."""
    with pytest.raises(ConfigError) as caught:
        auth_of(entry)
    assert told in str(caught.value)


def test_a_login_and_a_header_of_ones_own_exclude_each_other() -> None:
    """Only one of them could be sent. Source: docs/oauth.md."""
    with pytest.raises(ConfigError, match=r"servers\.a\.auth: sends the header Authorization itself"):
        auth_of("oauth", headers={"authorization": "Bearer x"})


def test_a_program_has_no_login() -> None:
    """Source: docs/oauth.md."""
    with pytest.raises(ConfigError, match=r"servers\.a\.auth: is for servers with `url`"):
        parse(Path("maitred.yaml"), "servers: {a: {command: a, auth: oauth}}")


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ("oauth", OAuth()),
        ("some-token", None),
        (7, None),
        ({"CLIENT_ID": "us", "CLIENT_SECRET": None, "colour": "red"}, OAuth(client_id="us")),
        ({"colour": "red"}, None),
    ],
)
def test_of_a_clients_file_is_taken_what_means_the_same(entry: Any, meant: OAuth | None) -> None:
    """The rest is that client's own. Source: docs/configuration.md."""
    assert auth_of(entry, "mcp.json") == meant


def test_a_secret_does_not_stand_in_what_is_printed() -> None:
    """Even one that was written out. Source: issue "Admission"."""
    assert "hunter2" not in repr(auth_of({"client_id": "us", "client_secret": "hunter2"}))
