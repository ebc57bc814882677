"""What to paste into the files of clients: each text is whole, and is found where the client looks for it."""

import json
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from maitred.config.clients import CLIENTS as IMPORTED
from maitred.config.clients import discover
from maitred.surfaces.client_entries import CLIENTS, NAME, PLACEHOLDER, KnownClient, fold_name, start_command

WORDS = ("/opt/my tools/maitred", "serve", "--config", '/home/ann/a "b"\\c/größe.yaml')
ADDRESS = "http://127.0.0.1:8420/mcp"
FILES: Mapping[str, tuple[str, str]] = {
    "Claude Code": ("claude-code", ".claude.json"),
    "Claude Desktop": ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
    "Cursor": ("cursor", ".cursor/mcp.json"),
    "VS Code": ("vscode", ".config/Code/User/mcp.json"),
    "Codex": ("codex", ".codex/config.toml"),
    "Windsurf (Cascade)": ("windsurf", ".codeium/windsurf/mcp_config.json"),
    "Gemini CLI": ("gemini", ".gemini/settings.json"),
    "Zed": ("zed", ".config/zed/settings.json"),
}
"""The clients that `maitred import` reads, with their file on Linux."""
BY_TITLE = {one.title: one for one in CLIENTS}
each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.title)


def read(client: KnownClient, text: str) -> Any:
    """The entry in a text, as a program reads it."""
    value: Any = tomllib.loads(text) if client.form == "TOML" else json.loads(text)
    for key in (*client.keys, NAME):
        assert list(value) == [key]
        value = value[key]
    return value


@each_client
def test_the_entry_starts_this_gateway(client: KnownClient) -> None:
    """Each word arrives as it is, whatever characters it has."""
    entry = read(client, client.text(client.stdio(WORDS)))
    command = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
    assert command == list(WORDS)


@each_client
@pytest.mark.parametrize("needs_token", [False, True])
def test_the_entry_over_http_has_the_address_and_no_token(client: KnownClient, *, needs_token: bool) -> None:
    """Where a token is needed, the entry names the variable or the place for it."""
    if client.http is None:
        assert client.why_no_http
        return
    text = client.text(client.http(ADDRESS, needs_token))
    entry = read(client, text)
    assert ADDRESS in (entry.get("url"), entry.get("serverUrl"))
    assert "command" not in entry
    names_token = "MAITRED_TOKEN" in text or PLACEHOLDER in text
    assert names_token == needs_token


def test_the_command_of_claude_code_adds_the_same_entry() -> None:
    client = BY_TITLE["Claude Code"]
    assert client.command
    entry = client.stdio(WORDS)
    words = shlex.split(client.command(entry))
    assert words[:4] == ["claude", "mcp", "add-json", NAME]
    assert json.loads(words[4]) == entry
    assert words[5:] == ["--scope", "user"]


def test_the_table_has_every_client_that_is_imported() -> None:
    assert {name for name, _ in FILES.values()} == set(IMPORTED)
    assert FILES.keys() <= BY_TITLE.keys()


@pytest.mark.parametrize("title", FILES)
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_maitred_import_finds_the_entry_in_the_file_that_is_named(
    tmp_path: Path, title: str, way: str
) -> None:
    """The reader of clients' files, which was written apart, finds this gateway, or its address."""
    client, (name, path) = BY_TITLE[title], FILES[title]
    assert f"~/{path}" in [file for _, file in client.files]
    if way == "http" and client.http is None:
        return
    words = [sys.executable, "-m", "maitred", "serve"]
    entry = client.http(ADDRESS, True) if way == "http" and client.http else client.stdio(words)
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(client.text(entry), encoding="utf-8")
    (tmp_path / "cwd").mkdir()
    found = discover(
        home=tmp_path, cwd=tmp_path / "cwd", environ={"MAITRED_TOKEN": "x"}, platform="linux", clients=[name]
    )
    assert found.found == ()
    assert [problem.reason for problem in found.problems] == ["this is maitred itself"]


def test_names_of_clients_are_folded_and_belong_to_one_client() -> None:
    assert fold_name("Visual Studio Code") == fold_name("visual_studio-code")
    names = [name for one in CLIENTS for name in one.names]
    assert len(names) == len(set(names))
    assert len({one.title for one in CLIENTS}) == len(CLIENTS)


def test_the_command_names_the_program_if_there_is_one(tmp_path: Path) -> None:
    program, config = tmp_path / "maitred", tmp_path / "m.yaml"
    as_module: Sequence[str] = [sys.executable, "-m", "maitred", "serve", "--config", str(config)]
    assert start_command(program, config) == as_module
    program.write_text("")
    assert start_command(program, config) == [str(program), "serve", "--config", str(config)]
