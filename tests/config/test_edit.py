"""`maitred.config.edit`: servers go into a file and out of it, and everything else stays as it was."""

import json
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maitred.config.edit import add_server, add_servers, remove_server
from maitred.config.load import load, parse
from maitred.errors import ConfigError

NEW = {"command": "npx", "args": ["-y", "@scope/new"], "env": {"TOKEN": "${TOKEN}"}}
COMMENTED = """\
# Servers of the team.
servers:
    # What time is it?
    time:
        command: 'uvx'      # installed by pipx
        args: [ mcp-server-time ,  "--local-timezone=UTC" ]

    "git":
        command: "uvx"
        args:
        - mcp-server-git
        env:
            NOTE: |
                # not a comment
                two lines

# Slow machine, so be patient.
limits:
    start_timeout_s: 90   # seconds
"""


def faults_of(action: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        action(*arguments, **options)
    return "\n".join(caught.value.faults)


def test_a_missing_file_is_made_with_its_folders_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "maitred.yaml"
    add_server(path, "new", NEW)
    assert path.read_text() == (
        "servers:\n  new:\n    command: npx\n    args: [-y, '@scope/new']\n    env:\n      TOKEN: ${TOKEN}\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in path.parent.iterdir()] == ["maitred.yaml"]


def test_a_missing_json_file_is_made_in_the_form_of_the_clients(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    add_server(path, "new", NEW)
    assert json.loads(path.read_text()) == {"mcpServers": {"new": NEW}}
    assert load(path).servers["new"].args == ("-y", "@scope/new")


def test_a_new_server_stands_behind_the_others_and_before_the_next_comment(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text(COMMENTED)
    add_server(path, "new", {"url": "https://example.com/mcp", "start_timeout_s": 2.5, "enabled": False})
    block = "    new:\n      url: https://example.com/mcp\n      start_timeout_s: 2.5\n      enabled: false\n"
    assert path.read_text() == COMMENTED.replace("# Slow machine", f"{block}# Slow machine")
    assert load(path).servers["git"].env == {"NOTE": "# not a comment\ntwo lines\n"}


def test_what_is_not_touched_keeps_its_comments_order_and_quotes(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text(COMMENTED)
    remove_server(path, "git")
    kept = COMMENTED[: COMMENTED.index('    "git"')] + COMMENTED[COMMENTED.index("# Slow") :]
    assert path.read_text() == kept
    remove_server(path, "time")
    assert path.read_text().startswith("# Servers of the team.\nservers: {}\n    # What time is it?\n")
    assert load(path).limits.start_timeout_s == 90


def test_a_server_is_replaced_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text(COMMENTED)
    add_server(path, "time", {"command": "date"}, replace=True)
    assert list(load(path).servers) == ["time", "git"]
    assert "    # What time is it?\n    time:\n      command: date\n" in path.read_text()
    path = tmp_path / "mcp.json"
    head, tail = (
        '{\n    "mcpServers": {\n        "a": {',
        '}, // first\n        "b": {"command": "y"}\n    }\n}',
    )
    path.write_text(f'{head}"command": "x"{tail}')
    add_server(path, "a", {"command": "z"}, replace=True)
    assert path.read_text() == f'{head}\n            "command": "z"\n        {tail}'


LAYOUTS = {
    "block": ("maitred.yaml", COMMENTED),
    "one line": ("maitred.yaml", "servers: {time: {command: uvx}, git: {command: uvx}}\n"),
    "braces over lines": (
        "maitred.yaml",
        "servers: {\n  time: {command: uvx}, # c\n  git: {command: uvx}\n}\nlimits: {}\n",
    ),
    "no newline at the end": (
        "maitred.yaml",
        "limits:\n  max_pages: 3\nservers:\n  time:\n    url: https://example.com",
    ),
    "windows": ("maitred.yaml", COMMENTED.replace("\n", "\r\n")),
    "byte order mark": ("maitred.yaml", "\ufeff" + COMMENTED),
    "json in yaml": ("maitred.yaml", '{"servers": {"time": {"command": "uvx"}}}'),
    "text block at the end": (
        "maitred.yaml",
        "servers:\n  time:\n    command: uvx\n    env:\n      A: |\n        b\n\n\n",
    ),
    "merge": ("maitred.yaml", "servers:\n  time: &t {command: uvx}\n  git: {<<: *t, cwd: /}\n"),
    "json": (
        "mcp.json",
        '{\n  "theme": "dark",\n  "mcpServers": {\n    "time": {\n      "command": "uvx"\n    }\n  },\n'
        '  "n": 1e3\n}\n',
    ),
    "json with tabs": ("mcp.json", '{\n\t"mcpServers": {\n\t\t"time": {"command": "uvx"}\n\t}\n}'),
    "json in one line": ("mcp.json", '{ "mcpServers": { "time": { "command": "uvx" } }, "x": [1,2] }'),
    "json with comments": (
        "mcp.json",
        """// mine
{
  "mcpServers": {
    // clock
    "time": {"command": "uvx"}, // here
    "git": {"command": "uvx"} /* { */ // }
  }
}
""",
    ),
    "json with trailing commas": (
        "mcp.json",
        '{\r\n  "mcpServers": {\r\n    "time": {"command": "uvx",},\r\n  },\r\n}',
    ),
    "vs code": (
        "mcp.json",
        '{\n  "inputs": [],\n  "servers": {\n    "time": {"command": "uvx"}\n  }\n}\n',
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_to_add_and_then_remove_restores_every_byte(tmp_path: Path, layout: str) -> None:
    name, text = LAYOUTS[layout]
    path = tmp_path / name
    path.write_bytes(text.encode())
    before = load(path)
    add_servers(path, {"new": NEW, "other": {"url": "https://example.com"}})
    assert set(load(path).servers) == {*before.servers, "new", "other"}
    remove_server(path, "new")
    remove_server(path, "other")
    restored = path.read_bytes().decode()
    assert restored.rstrip("\r\n") == text.rstrip("\r\n")
    assert ("\r\n" in text) == ("\r\n" in restored)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_server_can_be_removed_and_one_added_to_what_is_left(tmp_path: Path, layout: str) -> None:
    name, text = LAYOUTS[layout]
    path = tmp_path / name
    path.write_bytes(text.encode())
    settings_before = load(path)
    for server in reversed(list(settings_before.servers)):
        remove_server(path, server)
    assert load(path).servers == {}
    add_server(path, "new", NEW)
    assert list(load(path).servers) == ["new"]
    assert load(path).limits == settings_before.limits


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("maitred.yaml", ""),
        ("maitred.yaml", "# a comment, and no end of line"),
        ("maitred.yaml", "servers:\n"),
        ("maitred.yaml", "servers: # none yet\nlimits: {}\n"),
        ("maitred.yaml", "servers: ~\n"),
        ("maitred.yaml", "servers: {}  # none yet\n"),
        ("maitred.yaml", "limits:\n  max_pages: 5"),
        ("maitred.yaml", "{}"),
        ("mcp.json", ""),
        ("mcp.json", "// mine"),
        ("mcp.json", "{}\n"),
        ("mcp.json", '{\n\t"theme": "dark"\n}\n'),
        ("mcp.json", '{"mcpServers": null}'),
        ("mcp.json", '{\n  "mcpServers": {\n    // none\n  }\n}'),
    ],
)
def test_the_first_server_finds_its_place(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    add_server(path, "new", NEW)
    assert load(path).servers["new"].command == "npx"
    for comment in ("# a comment, and no end of line", "# none yet", "// mine", "// none"):
        assert (comment in text) == (comment in path.read_text())
    remove_server(path, "new")
    assert load(path).servers == {}


def test_a_name_that_is_there_needs_replace_and_a_name_that_is_not_is_told_its_neighbours(
    tmp_path: Path,
) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text(COMMENTED)
    before = path.stat().st_mtime_ns
    assert faults_of(add_servers, path, {"time": NEW, "git": NEW, "new": NEW}) == (
        "servers.time: is there already; remove it first, or add it with --replace\n"
        "servers.git: is there already; remove it first, or add it with --replace"
    )
    assert faults_of(remove_server, path, "tiem") == "there is no server 'tiem'; did you mean 'time'?"
    assert (
        faults_of(remove_server, path, "zebra") == "there is no server 'zebra'; `maitred list` shows them all"
    )
    assert faults_of(remove_server, tmp_path / "no" / "m.yaml", "a") == "the file does not exist"
    assert not (tmp_path / "no").exists()
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("servers:\n  a: {command: x\n", "while parsing"),
        ("servers: [a]\n", "servers: must be a mapping"),
        ("servers: text\n", "servers: must be a mapping"),
        ("server:\n  a: {command: x}\n", "server: is not a known key"),
        ("- a\n", "top level"),
    ],
)
def test_nothing_is_written_if_the_outcome_would_have_faults(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text(text)
    assert word in faults_of(add_server, path, "new", NEW)
    assert path.read_text() == text


def test_an_entry_with_a_fault_is_refused_and_no_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    assert "servers.a.args: must be a list" in faults_of(add_server, path, "a", {"command": "x", "args": "y"})
    assert "surrogate" in faults_of(add_server, path, "a", {"command": "\ud83d"})
    assert list(tmp_path.iterdir()) == []


def test_the_one_faulty_server_of_a_file_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text("servers:\n  bad: {comand: x}\n  good: {command: x}\n")
    remove_server(path, "bad")
    assert path.read_text() == "servers:\n  good: {command: x}\n"


def test_a_server_on_whose_anchor_others_hang_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text(LAYOUTS["merge"][1])
    assert "undefined alias" in faults_of(remove_server, path, "time")
    assert path.read_text() == LAYOUTS["merge"][1]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and links")
def test_permissions_stay_and_links_are_followed(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "maitred.yaml"
    target.parent.mkdir()
    target.write_text("servers: {}\n")
    target.chmod(0o640)
    link = tmp_path / "maitred.yaml"
    link.symlink_to(Path("dotfiles", "maitred.yaml"))
    add_server(link, "new", NEW)
    assert link.is_symlink()
    assert "new" in load(target).servers
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    dangling = tmp_path / "dangling.yaml"
    dangling.symlink_to(tmp_path / "made.yaml")
    add_server(dangling, "new", NEW)
    assert "new" in load(tmp_path / "made.yaml").servers
    circle = tmp_path / "circle.yaml"
    circle.symlink_to(circle)
    assert "cannot be changed" in faults_of(add_server, circle, "new", NEW)


def test_a_folder_where_the_file_should_be_is_told(tmp_path: Path) -> None:
    assert "Is a directory" in faults_of(add_server, tmp_path, "new", NEW)
    (tmp_path / "file").write_text("")
    assert "cannot be changed" in faults_of(add_server, tmp_path / "file" / "maitred.yaml", "new", NEW)


def test_many_writers_at_once_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long each waits for the others, on a busy machine."""
    monkeypatch.setattr("maitred.config.file_rewrite._LOCK_WAIT_S", 120.0)
    path = tmp_path / "maitred.yaml"
    names = [f"server-{number}" for number in range(24)]
    threads = [threading.Thread(target=add_server, args=(path, name, NEW)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert set(load(path).servers) == set(names)
    assert [item.name for item in tmp_path.iterdir()] == ["maitred.yaml"]


class Meddling(Mapping[str, Any]):
    """An entry that changes the file at the moment it is read, as an editor might that knows no lock."""

    def __init__(self, path: Path, texts: Iterator[str]) -> None:
        self._path = path
        self._texts = texts

    def __getitem__(self, key: str) -> Any:
        return {"command": "x"}[key]

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            self._path.write_text(text)
            break
        return iter(["command"])

    def __len__(self) -> int:
        return 1


def test_what_an_editor_saves_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text("servers: {}\n")
    add_server(path, "new", Meddling(path, iter(["servers:\n  theirs: {command: y}  # mine\n"])))
    assert set(load(path).servers) == {"theirs", "new"}
    assert "# mine" in path.read_text()


def test_a_file_that_never_stands_still_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "maitred.yaml"
    path.write_text("servers: {}\n")
    texts = (f"servers: {{}} # {number}\n" for number in range(1000))
    assert "keeps changing" in faults_of(add_server, path, "new", Meddling(path, texts))
    assert [item.name for item in tmp_path.iterdir()] == ["maitred.yaml"]


NAMES = st.text(min_size=1, max_size=8).filter(lambda name: bool(name.strip()) and "\0" not in name)
ODD = [
    "null",
    "~",
    "1.10",
    "yes",
    "a: b",
    "# x",
    "- x",
    "{",
    "]",
    "*a",
    "&a",
    "!x",
    "%",
    "@",
    "`",
    "'",
    '"',
    " x ",
]
TEXT = st.sampled_from([*ODD, "x\ny", "${A}", "\x7f", "\u2028"]) | st.text(max_size=12).filter(
    lambda text: "\0" not in text
)
ENTRIES = st.fixed_dictionaries(
    {"command": TEXT.filter(bool)},
    optional={
        "args": st.lists(TEXT, max_size=4),
        "env": st.dictionaries(NAMES.filter(lambda name: "=" not in name), TEXT, max_size=3),
        "cwd": TEXT,
        "enabled": st.booleans(),
        "call_timeout_s": st.floats(0.001, 1e6),
    },
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES, entry=ENTRIES, layout=st.sampled_from(sorted(LAYOUTS)))
def test_any_entry_comes_back_as_it_was_put_in_and_leaves_no_trace(
    tmp_path: Path, name: str, entry: dict[str, Any], layout: str
) -> None:
    file, text = LAYOUTS[layout]
    path = tmp_path / file
    path.write_bytes(text.encode())
    before = parse(path, text)
    add_server(path, name, entry, replace=True)
    spec = load(path).servers[name]
    assert (spec.command, spec.args, spec.env) == (
        entry["command"],
        tuple(entry.get("args", ())),
        entry.get("env", {}),
    )
    assert spec.timeouts.call_s == entry.get("call_timeout_s", before.limits.call_timeout_s)
    remove_server(path, name)
    assert load(path).servers == {key: value for key, value in before.servers.items() if key != name}
