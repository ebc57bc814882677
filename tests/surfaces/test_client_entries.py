"""What to paste into the files of clients: each text is whole, and is found where the client looks for it."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from maitred.config.clients.discovery import discover
from maitred.config.clients.entries import NAME, PLACEHOLDER, start_command
from maitred.config.clients.files import UserMachine, parse_content
from maitred.config.clients.table import (
    PLATFORMS,
    KnownClient,
    Platform,
    find_client,
    fold_name,
    known_clients,
)

WORDS = ("/opt/my tools/maitred", "serve", "--config", '/home/ann/a "b"\\c/größe.yaml')
ADDRESS = "http://127.0.0.1:8420/mcp"
each_client = pytest.mark.parametrize("client", known_clients(), ids=lambda one: one.title)


def read(client: KnownClient, text: str) -> Any:
    """The entry in a text, as a program reads it."""
    servers = parse_content(client.form, text)[client.key]
    if client.is_list:
        (entry,) = servers
        assert entry.pop("name") == NAME
        return entry
    assert list(servers) == [NAME]
    return servers[NAME]


@each_client
def test_the_entry_starts_this_gateway(client: KnownClient) -> None:
    """Each word arrives as it is, whatever characters it has."""
    entry = read(client, client.text(client.stdio(WORDS)))
    command = entry.get("command", entry.get("cmd"))
    assert (command if isinstance(command, list) else [command, *entry["args"]]) == list(WORDS)


@each_client
@pytest.mark.parametrize("needs_token", [False, True])
def test_the_entry_over_http_has_the_address_and_no_token(client: KnownClient, *, needs_token: bool) -> None:
    """Where a token is needed, the entry names the variable or the place for it."""
    if client.http is None:
        assert client.why_no_http
        return
    text = client.text(client.http(ADDRESS, needs_token))
    entry = read(client, text)
    assert ADDRESS in (entry.get("url"), entry.get("serverUrl"), entry.get("uri"))
    assert not {"command", "cmd"} & entry.keys()
    names_token = "MAITRED_TOKEN" in text or PLACEHOLDER in text
    assert names_token == needs_token


def test_the_command_of_claude_code_adds_the_same_entry() -> None:
    client = find_client("claude-code")
    assert client.command
    entry = client.stdio(WORDS)
    words = shlex.split(client.command(entry))
    assert words[:4] == ["claude", "mcp", "add-json", NAME]
    assert json.loads(words[4]) == entry
    assert words[5:] == ["--scope", "user"]


@each_client
@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_maitred_import_finds_the_entry_in_each_file_that_is_named(
    tmp_path: Path, client: KnownClient, way: str, platform: Platform
) -> None:
    """The reader of clients' files finds this gateway, or its address, wherever the page says to put it."""
    if way == "http" and client.http is None:
        return
    words = [sys.executable, "-m", "maitred", "serve"]
    entry = client.http(ADDRESS, True) if way == "http" and client.http else client.stdio(words)
    at = UserMachine(tmp_path, tmp_path / "cwd", {"MAITRED_TOKEN": "x"}, platform)
    paths = [path for file in client.files if file.is_written for path in file.paths(at)]
    assert paths
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(client.text(entry), encoding="utf-8")
    found = discover(**at._asdict(), clients=[client.id])
    assert found.found == ()
    assert [problem.path for problem in found.problems] == paths
    assert {problem.reason for problem in found.problems} == {"this is maitred itself"}


def test_names_of_clients_are_folded_and_belong_to_one_client() -> None:
    assert fold_name("Visual Studio Code") == fold_name("visual_studio-code")
    names = [name for one in known_clients() for name in one.names]
    assert len(names) == len(set(names))
    assert (
        len({one.title for one in known_clients()})
        == len({one.id for one in known_clients()})
        == len(known_clients())
    )


def test_the_command_names_the_program_if_there_is_one(tmp_path: Path) -> None:
    program, config = tmp_path / "maitred", tmp_path / "m.yaml"
    as_module: Sequence[str] = [sys.executable, "-m", "maitred", "serve", "--config", str(config)]
    assert start_command(program, config) == as_module
    program.write_text("")
    assert start_command(program, config) == [str(program), "serve", "--config", str(config)]
