"""Files of clients before and after `connect` and `disconnect`, and what is refused.

Source: docs/connect.md.
"""

import json
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.config.homes import put

from maitred.config.clients.connection import (
    ClientState,
    look_at,
    plan_connect,
    plan_disconnect,
    write_connection,
    write_disconnection,
)
from maitred.config.clients.files import UserMachine
from maitred.config.clients.table import find_client, known_clients
from maitred.config.clients.text_edit import ClientText
from maitred.config.edit import add_servers
from maitred.config.load import parse
from maitred.errors import ConfigError

WORDS = ["/opt/maitred", "serve"]
SMALL_TOML = 'model = "o5"\n\n[mcp_servers.s0]\ncommand = "0"\n'
Look = Callable[[str], ClientState]


@pytest.fixture
def look(home: Path, cwd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda name: look_at(UserMachine(home, cwd, {}, "linux"), find_client(name))


def connect(state: ClientState, *take_out: str) -> None:
    write_connection(plan_connect(state, state.client.stdio(WORDS), take_out))


def refused(state: ClientState, *take_out: str) -> str:
    with pytest.raises(ConfigError) as error:
        connect(state, *take_out)
    return str(error.value)


JSONC = """\
// Settings of Zed
{
    "theme": "One, \\"dark\\"", /* and { so on */
    "context_servers": {
        // the clock
        "time": { "command": "uvx" }, // mine
        "files": {
            "command": "npx" // the "newest"
        } // the last one
    },
}
"""


def test_comments_and_trailing_commas_stay_where_they_are(home: Path, look: Look) -> None:
    path = put(home / ".config/zed/settings.json", JSONC)
    connect(look("zed"))
    assert path.read_text() == JSONC.replace(
        """\
        } // the last one
""",
        """\
        }, // the last one
        "maitred": {
            "command": "/opt/maitred",
            "args": [
                "serve"
            ]
        }
""",
    )


def test_a_server_that_is_moved_leaves_with_its_own_comment_alone(home: Path, look: Look) -> None:
    path = put(home / ".config/zed/settings.json", JSONC)
    connect(look("zed"), "files")
    text = path.read_text()
    assert "npx" not in text
    assert '        "time": { "command": "uvx" }, // mine\n        "maitred": {\n' in text
    assert "// the clock" in text


TOML = """\
model = "o5" # [mcp_servers.not]

[mcp_servers.docs]
command = "npx"
args = [
  "-y", # yes
]

[mcp_servers.docs.env]
A = "1"

[tui]
theme = "dark"
"""


def test_a_table_of_codex_is_put_behind_the_other_servers(home: Path, look: Look) -> None:
    path = put(home / ".codex/config.toml", TOML)
    connect(look("codex"))
    table = '\n[mcp_servers.maitred]\ncommand = "/opt/maitred"\nargs = ["serve"]\n'
    assert path.read_text() == TOML.replace('A = "1"\n', f'A = "1"\n{table}')


def test_connecting_codex_again_and_again_adds_no_lines(home: Path, look: Look) -> None:
    path = put(home / ".codex/config.toml", SMALL_TOML)
    connect(look("codex"))
    once = path.read_text()
    for number in range(3):
        state = look("codex")
        write_connection(plan_connect(state, state.client.stdio([*WORDS, "--profile", str(number)])))
    connect(look("codex"))
    assert path.read_text() == once


def test_a_server_of_codex_leaves_with_all_its_tables(home: Path, look: Look) -> None:
    path = put(home / ".codex/config.toml", TOML)
    connect(look("codex"), "docs")
    assert "npx" not in path.read_text()
    assert path.read_text().startswith('model = "o5" # [mcp_servers.not]\n\n[tui]\ntheme = "dark"\n')


YAML = """\
name: mine
version: 1.0.0
schema: v1
mcpServers:
- name: time   # the clock
  command: uvx
# before the next
- name: git
  command: git-server
rules: []
"""


def test_an_item_of_continue_is_put_behind_the_others(home: Path, look: Look) -> None:
    path = put(home / ".continue/config.yaml", YAML)
    connect(look("continue"), "time")
    assert path.read_text() == YAML.replace("- name: time   # the clock\n  command: uvx\n", "").replace(
        "rules", "- name: maitred\n  command: /opt/maitred\n  args: [serve]\nrules"
    )


@pytest.mark.parametrize(
    "remarks", ["  # mine: all", "\n  # mine: all", "\n\n    # mine: all\n", " # a\n# b"]
)
def test_remarks_beside_and_below_the_key_of_continue_stay(home: Path, look: Look, remarks: str) -> None:
    """Also when the last server leaves, and when an entry that a person pasted is taken out."""
    text = f"name: mine\nmcpServers:{remarks}\n  - name: a\n    command: npx\nrules: []\n"
    path = put(home / ".continue/config.yaml", text)

    connect(look("continue"), "a")

    assert list(look("continue").names) == ["maitred"]
    assert all(line in path.read_text().splitlines() for line in remarks.split("\n")[1:])
    write_disconnection(plan_disconnect(look("continue")))
    assert path.read_text() == text

    pasted = put(path, text.replace("name: a", "name: maitred").replace("npx", "/opt/maitred"))
    write_disconnection(plan_disconnect(look("continue")))
    assert pasted.read_text() == f"name: mine\nmcpServers: []{remarks}\nrules: []\n"


@pytest.mark.parametrize("part", ["connection.ClientText", "connection.servers_in", "text_edit.yaml_text"])
def test_what_is_not_known_of_a_file_is_a_fault_of_that_client(
    home: Path, look: Look, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A mistake of ours in one kind of file keeps no other client from being connected."""

    def break_down(*_: object, **__: object) -> object:
        raise LookupError(part)

    monkeypatch.setattr(f"maitred.config.clients.{part}", break_down)
    put(home / ".continue/config.yaml", YAML)

    assert "layout is not known to maitred" in refused(look("continue"))


@pytest.mark.parametrize("client", known_clients(), ids=lambda one: one.id)
def test_a_new_file_is_made_for_its_owner_alone_and_taken_away_again(
    home: Path, look: Look, client: Any
) -> None:
    there = set(home.rglob("*"))
    connect(look(client.id))
    state = look(client.id)
    assert list(state.own) == ["maitred"]
    assert state.path.stat().st_mode & 0o077 == 0
    assert plan_connect(state, client.stdio(WORDS)).is_empty
    write_disconnection(plan_disconnect(state))
    assert set(home.rglob("*")) == there


def test_what_the_client_changed_since_stays_and_moved_servers_come_back(home: Path, look: Look) -> None:
    servers = {"time": {"command": "uvx", "env": {"A": "ü"}}, "git": {"command": "g"}}
    path = put(home / ".cursor/mcp.json", {"mcpServers": servers})
    connect(look("cursor"), "time", "git")
    data = json.loads(path.read_text())
    data["theme"] = "dark"
    data["mcpServers"]["git"] = {"command": "another"}
    put(path, data)
    undo = plan_disconnect(look("cursor"))
    assert undo.way.startswith("merged")
    write_disconnection(undo)
    there = {"git": {"command": "another"}, "time": servers["time"]}
    assert json.loads(path.read_text()) == {"mcpServers": there, "theme": "dark"}


def test_connecting_twice_still_gives_the_first_file_back(home: Path, look: Look) -> None:
    path = put(home / ".cursor/mcp.json", {"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}})
    before = path.read_bytes()
    connect(look("cursor"), "a")
    state = look("cursor")
    write_connection(plan_connect(state, state.client.stdio(["/new/maitred", "serve"]), ["b"]))
    assert list(json.loads(path.read_text())["mcpServers"]) == ["maitred"]
    write_disconnection(plan_disconnect(look("cursor")))
    assert path.read_bytes() == before


def test_moved_servers_come_back_after_a_rewrite_and_a_second_connection(home: Path, look: Look) -> None:
    servers = {"a": {"command": "a"}, "b": {"command": "b"}}
    path = put(home / ".cursor/mcp.json", {"mcpServers": servers})
    connect(look("cursor"), "a", "b")
    put(path, {**json.loads(path.read_text()), "numStartups": 7})
    state = look("cursor")
    write_connection(plan_connect(state, state.client.stdio([*WORDS, "--profile", "p"])))
    undo = plan_disconnect(look("cursor"))
    assert "byte for byte" not in undo.way
    write_disconnection(undo)
    assert json.loads(path.read_text()) == {"mcpServers": servers, "numStartups": 7}


def test_an_entry_that_was_there_before_the_first_connection_is_taken_out(home: Path, look: Look) -> None:
    path = put(home / ".cursor/mcp.json", {"mcpServers": {"gate": {"command": "maitred", "args": ["serve"]}}})
    connect(look("cursor"))
    write_disconnection(plan_disconnect(look("cursor")))
    assert json.loads(path.read_text()) == {"mcpServers": {}}


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("client", ["cursor", "codex"])
def test_any_sequence_of_connections_and_rewrites_loses_no_server(
    home: Path, look: Look, client: str, seed: int
) -> None:
    """A server that left with a move comes back; what the client wrote meanwhile stays."""
    chance = random.Random(seed)
    is_json = client == "cursor"
    path = home / (".cursor/mcp.json" if is_json else ".codex/config.toml")
    first = put(path, '{"mcpServers": {"s0": {"command": "0"}}}\n' if is_json else SMALL_TOML).read_bytes()
    expected, is_touched = {"s0": "0"}, False
    for step in range(1, 9):
        state = look(client)
        others = [name for name in state.names if name not in state.own]
        if chance.random() < 0.5:
            words = [*WORDS, *(["--profile", str(step)] if chance.random() < 0.5 else [])]
            out = [name for name in others if chance.random() < 0.5]
            write_connection(plan_connect(state, state.client.stdio(words), out))
        elif state.own or state.is_remembered:
            is_touched = is_touched or chance.random() < 0.7
            name, value = chance.choice([f"s{step}", *others]), f"{step}"
            if is_touched:
                text = ClientText(state.client, path, path.read_text())
                out = list(state.own) if chance.random() < 0.2 else []
                path.write_text(text.changed({name: {"command": value}}, out))
                expected[name] = value
    state = look(client)
    if not state.own and not state.is_remembered:
        return
    undo = plan_disconnect(state)
    write_disconnection(undo)
    left = look(client)
    found = {one.name: one.entry["command"] for one in left.servers}
    assert (found, left.own, left.is_remembered) == (expected, [], False)
    if undo.way.startswith("byte for byte"):
        assert is_touched or path.read_bytes() == first


def test_the_last_copies_of_a_file_are_kept_for_the_owner_alone(
    home: Path, look: Look, tmp_path: Path
) -> None:
    path = put(home / ".cursor/mcp.json", {"mcpServers": {}})
    before = path.read_bytes()
    for _ in range(15):
        connect(look("cursor"))
        write_disconnection(plan_disconnect(look("cursor")))
    copies = sorted((tmp_path / "state/maitred/clients").glob("cursor-*"))
    assert len(copies) == 20
    assert copies[-2].read_bytes() == before
    assert {copy.stat().st_mode & 0o777 for copy in copies} == {0o600}


def test_an_entry_that_a_person_pasted_is_taken_out(home: Path, look: Look) -> None:
    servers = {"a": {"command": "a"}, "gate": {"command": "maitred", "args": ["serve"]}}
    path = put(home / ".cursor/mcp.json", {"mcpServers": servers})
    undo = plan_disconnect(look("cursor"))
    assert list(undo.removed) == ["gate"]
    write_disconnection(undo)
    assert json.loads(path.read_text()) == {"mcpServers": {"a": {"command": "a"}}}
    with pytest.raises(ConfigError, match="has no entry of this gateway"):
        plan_disconnect(look("cursor"))


def test_a_link_stays_a_link_and_permissions_stay(home: Path, look: Look) -> None:
    target = put(home / "dotfiles/cursor.json", {"mcpServers": {}})
    target.chmod(0o640)
    link = home / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to(os.path.relpath(target, link.parent))
    connect(look("cursor"))
    assert link.is_symlink()
    assert "maitred" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o640
    write_disconnection(plan_disconnect(look("cursor")))
    assert (link.is_symlink(), json.loads(target.read_text())) == (True, {"mcpServers": {}})


def test_a_file_that_changed_since_the_preview_is_not_written(home: Path, look: Look) -> None:
    path = put(home / ".cursor/mcp.json", {"mcpServers": {}})
    state = look("cursor")
    change = plan_connect(state, state.client.stdio(WORDS))
    put(path, {"mcpServers": {"new": {"command": "x"}}})
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="has changed since you looked at it"):
        write_connection(change)
    assert path.read_bytes() == before
    assert not look("cursor").is_remembered


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"mcpServers": {"a" 1}}', "is not valid json"),
        (b'{"mcpServers": ["a"]}', "`mcpServers` must be an object"),
        (b"[1]", "its top level must be an object"),
        (b'{"mcpServers": {"\xff": 1}}', "it is not UTF-8 text"),
        ('{"mcpServers": {}}'.encode("utf-16"), "it is not UTF-8 text"),
        (b'{"mcpServers": {}, "mcpServers": {"a": {}}}', "has the key `mcpServers` twice"),
        (b'{"mcpServers": {"maitred": {"command": "other"}}}', "has another server of the name `maitred`"),
    ],
)
def test_a_broken_file_is_refused_and_stays(home: Path, look: Look, content: bytes, reason: str) -> None:
    path = put(home / ".cursor/mcp.json", "")
    path.write_bytes(content)
    assert reason in refused(look("cursor"))
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { a = { command = "a" } }\n',
        '[mcp_servers]\na = { command = "a" }\nmaitred.command = "x"\n',
        "mcp_servers = 1\n",
        "[mcp_servers\n",
    ],
)
def test_a_layout_of_toml_that_allows_no_change_is_refused(home: Path, look: Look, text: str) -> None:
    path = put(home / ".codex/config.toml", text)
    assert refused(look("codex"))
    assert path.read_text() == text


def test_a_read_only_file_is_left_to_its_owner(home: Path, look: Look) -> None:
    path = put(home / ".cursor/mcp.json", {"mcpServers": {}})
    path.chmod(0o444)
    before = path.read_bytes()
    assert "is read-only" in refused(look("cursor"))
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (before, 0o444)


def test_a_folder_and_a_link_to_nothing_are_refused(home: Path, look: Look) -> None:
    (home / ".cursor/mcp.json").mkdir(parents=True)
    assert "is no regular file" in refused(look("cursor"))
    (home / ".kiro/settings").mkdir(parents=True)
    (home / ".kiro/settings/mcp.json").symlink_to(home / "nothing")
    assert "is a symbolic link to a file that does not exist" in refused(look("kiro"))


def test_of_concurrent_writers_one_wins_and_the_others_are_refused(home: Path, look: Look) -> None:
    """Each writes another entry, worked out from the same file."""
    path = put(home / ".cursor/mcp.json", {"mcpServers": {}})
    before, state = path.read_bytes(), look("cursor")
    changes = [plan_connect(state, {"command": f"/{n}/maitred", "args": ["serve"]}) for n in range(8)]
    start, won, lost = threading.Barrier(len(changes)), list[str](), list[str]()

    def write(number: int) -> None:
        start.wait()
        try:
            write_connection(changes[number])
            won.append(f"/{number}/maitred")
        except ConfigError as error:
            lost.append(str(error))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(changes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert json.loads(path.read_text())["mcpServers"]["maitred"]["command"] == won[0]
    assert list(path.parent.iterdir()) == [path]
    write_disconnection(plan_disconnect(look("cursor")))
    assert path.read_bytes() == before


def test_a_long_state_file_is_changed_in_time(home: Path, look: Look) -> None:
    """As `~/.claude.json` of a long-time user."""
    history = [{"display": f"question {number} {{", "pasted": {}} for number in range(20_000)]
    path = put(home / ".claude.json", {"history": history, "mcpServers": {}, "projects": {"/p": {}}})
    before = path.read_bytes()
    connect(look("claude-code"))
    assert json.loads(path.read_text())["mcpServers"]["maitred"]["alwaysLoad"] is True
    write_disconnection(plan_disconnect(look("claude-code")))
    assert path.read_bytes() == before


def test_a_thousand_servers_are_moved_in_time(home: Path, look: Look, tmp_path: Path) -> None:
    """Each file is read a few times, and not once for each server: that took minutes."""
    servers = {f"s{number}": {"command": "x"} for number in range(1_000)}
    path = put(home / ".cursor/mcp.json", {"mcpServers": servers})
    start = time.monotonic()
    add_servers(tmp_path / "maitred.yaml", servers)
    connect(look("cursor"), *servers)
    assert time.monotonic() - start < 60
    assert list(json.loads(path.read_text())["mcpServers"]) == ["maitred"]
    assert list(parse(tmp_path / "maitred.yaml", (tmp_path / "maitred.yaml").read_text()).servers) == list(
        servers
    )


@pytest.mark.parametrize("layout", [None, 2])
@pytest.mark.parametrize("out", [["a"], ["c"], ["a", "b"], ["b", "c"], ["a", "c"], ["a", "b", "c"]])
def test_servers_that_leave_together_leave_the_others(
    home: Path, look: Look, layout: int | None, out: list[str]
) -> None:
    servers = {name: {"command": name} for name in "abc"}
    path = home / ".cursor/mcp.json"
    put(path, json.dumps({"mcpServers": servers, "x": 1}, indent=layout))
    connect(look("cursor"), *out)
    left = json.loads(path.read_text())
    assert left["mcpServers"].keys() - {"maitred"} == servers.keys() - set(out)
    assert left["x"] == 1


def test_a_file_of_two_names_is_refused_before_it_is_written(home: Path, look: Look) -> None:
    """It is replaced, so the other name would keep what it had."""
    path = put(home / ".cursor/mcp.json", {"mcpServers": {}})
    before = path.read_bytes()
    os.link(path, home / "other.json")
    assert "hard link" in refused(look("cursor"))
    assert (path.read_bytes(), path.samefile(home / "other.json")) == (before, True)
