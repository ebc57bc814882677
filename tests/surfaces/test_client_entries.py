"""What to paste into the files of clients: each text is whole, and is found where the client looks for it."""

import json
import re
import shlex
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from maitred.config.clients.discovery import discover
from maitred.config.clients.entries import NAME, PLACEHOLDER, start_command
from maitred.config.clients.files import UserMachine, parse_content
from maitred.config.clients.table import (
    CLIENT_IDS,
    CLIENTS_FILE,
    PLATFORMS,
    ClientEntry,
    KnownClient,
    Platform,
    client_named,
    find_client,
    fold_name,
    known_clients,
    read_entry,
    traits_of,
)
from maitred.config.clients.traits import UNKNOWN
from maitred.gateway.client_shapes import limit_of_traits
from maitred.meta_tools.menu import definitions
from maitred.model.access import LOCAL_GRANT, Surface, Viewer

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


# --- what is known of clients -----------------------------------------------------------------------------


@cache
def entries() -> dict[str, Any]:
    """The entries of `clients.yaml`, as a YAML parser reads the whole file."""
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(CLIENTS_FILE.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("client_id", CLIENT_IDS)
def test_each_entry_has_the_keys_and_types_that_the_file_explains(client_id: str) -> None:
    """The gateway itself does not check them, since that takes time at its start."""
    TypeAdapter(ClientEntry).validate_python(entries()[client_id])
    head = CLIENTS_FILE.read_text(encoding="utf-8").partition("\n\n")[0]
    for key in entries()[client_id].keys() | entries()[client_id].get("traits", {}).keys():
        assert re.search(rf"\b{key}\b", head), key


def test_all_entries_of_the_file_are_read() -> None:
    """Each is parsed alone; what a YAML parser sees in the file is the same."""
    assert list(entries()) == list(CLIENT_IDS) == [one.id for one in known_clients()]


def test_a_client_is_one_entry() -> None:
    """A made-up one is read, written, known and limited, and no module names it."""
    entry = {
        "title": "Mine",
        "names": ["My Client"],
        "files": ["<config>/mine/mcp.json"],
        "stdio": {"run": "{words}", "kind": "local"},
        "why_no_http": "It has none.",
        "then": "Nothing.",
        "traits": {"prefix": "m_", "most_name": 40, "deferral": {"defers": "all", "entry": {"eager": True}}},
    }
    client = read_entry(entry).client("mine")

    assert client.names == {"my-client"}
    assert client.stdio(["a", "b"]) == {"run": ["a", "b"], "kind": "local", "eager": True}
    assert client.traits.most_own_name == 38
    assert [file.path for file in client.files] == [
        "{XDG_CONFIG_HOME:~/.config}/mine/mcp.json",
        "~/Library/Application Support/mine/mcp.json",
        "{APPDATA:~/AppData/Roaming}/mine/mcp.json",
    ]


@each_client
def test_names_of_tools_and_answers_leave_room_for_something(client: KnownClient) -> None:
    """A limit that nothing fits would be a mistake in the file."""
    limit = limit_of_traits(client.traits)
    assert client.traits.most_own_name >= 40
    assert limit is None or limit.tokens >= 1_000


@pytest.mark.parametrize("name", ["Visual Studio Code", "visual-studio-code", "VISUAL_STUDIO CODE"])
def test_a_client_is_known_by_its_name_however_it_is_written(name: str) -> None:
    client = client_named(name)
    assert client is not None
    assert client.id == "vscode"


@pytest.mark.parametrize("name", ["", "title", "mcpServers", "maitred", "claude", "then", "x" * 100_000])
def test_a_word_of_the_file_is_no_client(name: str) -> None:
    assert client_named(name) is None


def test_a_client_over_http_or_on_the_command_line_has_no_traits() -> None:
    """What a caller of the HTTP API says of itself shapes nothing."""
    surfaces: tuple[Surface, ...] = ("http", "cli", "web", "")
    for surface in surfaces:
        assert traits_of(Viewer(grant=LOCAL_GRANT, client="claude-code", surface=surface)) is UNKNOWN
    assert traits_of(Viewer(grant=LOCAL_GRANT, client="claude-code", surface="mcp")).prefix


def test_the_menu_asks_to_be_loaded_by_the_marks_of_all_clients() -> None:
    """A client that is not known gets them, too: it may be one of those under another name."""
    marks: dict[str, Any] = {}
    for client in known_clients():
        marks |= client.traits.deferral.tool
    assert all(one["_meta"] == marks for one in definitions())


def test_the_page_has_the_true_limits_of_each_client() -> None:
    """Source: docs/connect.md, "What each client gets"."""
    page = (Path(__file__).parents[2] / "docs" / "connect.md").read_text(encoding="utf-8")
    table = page.split("| client | answers |")[1].split("\n\n")[0]
    for client in known_clients():
        traits, limit = client.traits, limit_of_traits(client.traits)
        title = re.escape(client.title)
        row = next((line for line in table.splitlines() if re.search(rf"\| .*\b{title}\b", line)), "")
        if traits.answers:
            assert f"{traits.answers.tokens or traits.answers.characters:,}" in row
            assert limit
            assert traits.answers.characters or f"{limit.tokens:,}" in row
        if traits.most_own_name < 64:
            assert re.search(rf"\b{traits.most_own_name}\b", row or table.splitlines()[-1]), client.id
