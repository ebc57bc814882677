"""`connect --move` and what undoes it lose no server, no entry and no key of an entry.

Source: docs/connect.md, docs/import.md.
"""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.config.homes import put
from tests.surfaces.cli.rig import Run, runner
from tests.surfaces.cli.test_connect import type_in

from maitred.config import file_rewrite
from maitred.config.clients.discovery import ClientServer
from maitred.config.clients.takeover import take_over, undo_takeover
from maitred.config.load import load

FILES = {"command": "run-files"}
OURS = {"command": "maitred", "args": ["serve"]}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line of a person with a home of their own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return runner(tmp_path, monkeypatch, capsys)


@pytest.fixture
def cursor(tmp_path: Path) -> Path:
    return tmp_path / ".cursor/mcp.json"


@pytest.fixture
def windsurf(tmp_path: Path) -> Path:
    return tmp_path / ".codeium/windsurf/mcp_config.json"


def servers(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["mcpServers"]
    return found


def test_a_server_that_only_one_client_gives_up_is_moved_with_that_client(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cursor: Path, windsurf: Path
) -> None:
    """The preview showed it as moved by the other client, which the person did not choose."""
    put(cursor, {"mcpServers": {"files": FILES}})
    put(windsurf, {"mcpServers": {"files": FILES}})
    type_in(monkeypatch, ["windsurf"])

    run("connect", "--move").fine  # noqa: B018  # it ran

    assert servers(cursor) == {"files": FILES}
    assert list(servers(windsurf)) == ["maitred"]
    assert load(tmp_path / "maitred.yaml").servers["files"].command == "run-files"


def test_a_server_stays_reachable_if_the_client_that_moves_it_cannot_be_written(
    run: Run, tmp_path: Path, cursor: Path, windsurf: Path
) -> None:
    put(windsurf, {"mcpServers": {}})
    run("connect", "windsurf", "--yes").fine  # noqa: B018
    put(cursor, {"mcpServers": {}})
    run("connect", "cursor", "--yes").fine  # noqa: B018
    for path in (cursor, windsurf):
        put(path, {"mcpServers": {"files": FILES}})
    for record in (tmp_path / "state/maitred/clients").glob("*.json"):
        if '"cursor"' in record.read_text():
            record.write_text("{")

    assert run("connect", "--move", "--yes", "cursor", "windsurf").code == 1

    assert servers(cursor) == {"files": FILES}
    assert list(servers(windsurf)) == ["maitred"]
    assert load(tmp_path / "maitred.yaml").servers["files"].command == "run-files"


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "maitred", "args": ["browser", "serve"]},
        {"url": "http://localhost:8420/sse"},
        {"url": "http://localhost:8420/mcp"},
        OURS,
    ],
)
def test_an_entry_under_another_name_is_never_overwritten(run: Run, cursor: Path, entry: Any) -> None:
    """Not a server that is taken for this gateway, and not this gateway under a name that a person chose."""
    put(cursor, {"mcpServers": {"mine": entry}})

    run("connect", "cursor", "--yes").fine  # noqa: B018

    assert servers(cursor)["mine"] == entry


def test_servers_of_projects_are_not_mixed_up_with_those_of_the_user(run: Run, tmp_path: Path) -> None:
    """Claude Code has both in one file; only the user's are moved or replaced."""
    path = tmp_path / ".claude.json"
    strange: dict[str, Any] = {"env": {}}
    own = {"x": strange, "maitred": {"command": "other-thing"}}
    project = {"x": {"command": "foo"}, "maitred": OURS}
    put(path, {"mcpServers": own, "projects": {str(tmp_path): {"mcpServers": project}}})
    assert "another server of the name" in run("connect", "claude-code", "--move", "--yes").out
    assert servers(path) == own

    put(path, {"mcpServers": {"x": strange}, "projects": {str(tmp_path): {"mcpServers": project}}})
    run("connect", "claude-code", "--move", "--yes").fine  # noqa: B018

    assert servers(path)["x"] == strange
    assert not (tmp_path / "maitred.yaml").exists()


def test_a_second_connection_keeps_what_was_added_to_the_entry(run: Run, tmp_path: Path) -> None:
    """Kiro puts approvals there, and a person variables."""
    path = tmp_path / ".kiro/settings/mcp.json"
    (tmp_path / "maitred.yaml").write_text("profiles: {review: {servers: [time]}}\n")
    run("connect", "kiro", "--yes").fine  # noqa: B018
    added = {"autoApprove": ["search_tools"], "env": {"A": "b"}}
    put(path, {"mcpServers": {"maitred": {**servers(path)["maitred"], **added}}})

    run("connect", "kiro", "--profile", "review", "--yes").fine  # noqa: B018

    entry = servers(path)["maitred"]
    assert entry["args"][-2:] == ["--profile", "review"]
    assert {key: entry[key] for key in added} == added


def test_an_entry_with_an_address_becomes_one_with_a_command_and_what_leaves_it_is_named(
    run: Run, cursor: Path
) -> None:
    entry = {"url": "http://localhost:9000/mcp", "headers": {"Authorization": "x"}, "timeout": 5}
    put(cursor, {"mcpServers": {"maitred": entry}})

    said = run("connect", "cursor", "--yes").fine

    assert "takes url, headers out of that entry" in said
    assert "url" not in servers(cursor)["maitred"]
    assert servers(cursor)["maitred"]["timeout"] == 5


@pytest.mark.parametrize("other", [[], ["cursor"], ["cursor", "--file", "../m.json"]])
def test_a_file_that_was_named_from_one_folder_is_given_back_from_another(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: list[str]
) -> None:
    path = put(tmp_path / "m.json", {"mcpServers": {"files": FILES}})
    run("connect", "cursor", "--file", "m.json", "--move", "--yes").fine  # noqa: B018
    assert "files" not in servers(path)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")

    run("disconnect", *other, "--yes").fine  # noqa: B018

    assert servers(path) == {"files": FILES}


def of_cursor(name: str) -> ClientServer:
    return ClientServer(client="cursor", path=Path("/x"), name=name, entry={"command": name})


def test_what_another_program_writes_during_an_import_survives_its_undo(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor keeps to no lock."""
    source = tmp_path / "maitred.yaml"
    source.write_text("servers:\n  a: {command: a}\n")
    real, left = file_rewrite.replace_content, ["  theirs: {command: theirs}\n"]

    def replace(target: Path, before: bytes | None, after: bytes) -> bool:
        if target == source and left:
            source.write_text(source.read_text() + left.pop())
        return real(target, before, after)

    monkeypatch.setattr(file_rewrite, "replace_content", replace)
    take_over(source, [of_cursor("b")])
    assert list(load(source).servers) == ["a", "theirs", "b"]

    undo_takeover(source)

    assert list(load(source).servers) == ["a", "theirs"]


def test_of_imports_at_once_none_is_forgotten(run: Run, tmp_path: Path) -> None:
    """Each can be undone, and then the file is as it was."""
    source = tmp_path / "maitred.yaml"
    source.write_text("servers:\n  a: {command: a}\n")
    before, start = source.read_bytes(), threading.Barrier(6)

    def take(number: int) -> None:
        start.wait(10)
        take_over(source, [of_cursor(f"s{number}")])

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(load(source).servers) == 7

    assert sorted(name for _ in threads for name in undo_takeover(source)) == [f"s{n}" for n in range(6)]
    assert source.read_bytes() == before


def test_an_undone_import_names_the_servers_that_no_file_has_any_more(
    run: Run, tmp_path: Path, cursor: Path
) -> None:
    """And the command that puts them back; `disconnect` then claims nothing of the configuration."""
    put(cursor, {"mcpServers": {"files": FILES}})
    run("connect", "cursor", "--move", "--yes").fine  # noqa: B018

    undone = run("import", "--undo")

    assert "files" in undone.err
    assert "`maitred disconnect cursor`" in undone.err
    given_back = run("disconnect", "cursor", "--yes").fine
    assert "It has files again" in given_back
    assert "maitred keeps them" not in given_back
    assert servers(cursor) == {"files": FILES}


def test_a_server_that_is_switched_off_here_stays_in_the_client(
    run: Run, tmp_path: Path, cursor: Path
) -> None:
    """It would work nowhere."""
    (tmp_path / "maitred.yaml").write_text("servers: {files: {command: run-files, enabled: false}}\n")
    put(cursor, {"mcpServers": {"files": FILES}})

    said = run("connect", "cursor", "--move", "--yes").fine

    assert "`maitred enable files`" in said
    assert "files" in servers(cursor)


def test_a_client_that_was_removed_is_forgotten_and_not_made_again(
    run: Run, tmp_path: Path, cursor: Path
) -> None:
    put(cursor, {"mcpServers": {"files": FILES}})
    run("connect", "cursor", "--move", "--yes").fine  # noqa: B018
    shutil.rmtree(cursor.parent)

    said = run("disconnect", "--yes").fine

    assert "its folder is gone, so nothing is written" in said
    assert "(new)" not in said
    assert not cursor.parent.exists()
    assert "No client has an entry" in run("disconnect", "--yes").fine


def test_a_file_that_cannot_be_looked_at_is_a_fault_of_its_client_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cursor: Path
) -> None:
    put(cursor, {"mcpServers": {}})
    monkeypatch.setenv("CODEX_HOME", "/" + "x" * 300)  # as with a folder that may not be entered

    said = run("connect").fine

    assert "cannot be changed: cannot be read: File name too long" in said
    assert "adds maitred" in said
    (tmp_path / "maitred.yaml").write_text("servers: {}\n")
    assert run("doctor", "--client", "codex").code == 1


@pytest.mark.parametrize("other", [["files"], ["--client", "cursor"], ["--file", "m.json"], ["--yes"]])
def test_an_undo_is_never_of_less_than_it_says(run: Run, cursor: Path, other: list[str]) -> None:
    """It undoes the last import as a whole, so it refuses what would name a part."""
    put(cursor, {"mcpServers": {"files": FILES}})
    run("import", "--yes").fine  # noqa: B018

    assert "does not go with --undo" in run("import", "--undo", *other).refused
    assert "Took files out" in run("import", "--undo").fine


def test_a_faulty_configuration_is_named_and_needed_to_move_alone(
    run: Run, tmp_path: Path, cursor: Path
) -> None:
    """It is no fault of the client's file."""
    (tmp_path / "maitred.yaml").write_text("servers:\n  a: [\n")
    put(cursor, {"mcpServers": {"files": FILES}})

    refused = run("connect", "cursor", "--move", "--yes").refused
    assert "maitred.yaml" in refused
    assert servers(cursor) == {"files": FILES}
    assert "cannot be changed" not in run("connect", "cursor", "--yes").fine
    assert set(servers(cursor)) == {"files", "maitred"}


def test_an_answer_is_read_in_any_case_and_a_client_that_was_not_shown_is_said(
    run: Run, monkeypatch: pytest.MonkeyPatch, cursor: Path
) -> None:
    put(cursor, {"mcpServers": {}})
    type_in(monkeypatch, ["zed", "All"])

    done = run("connect")

    assert "'zed' is none of these clients" in done.err
    assert "maitred" in servers(cursor)


def test_a_preview_counts_all_servers_and_says_which_would_stay_and_why(
    run: Run, tmp_path: Path, cursor: Path
) -> None:
    """With `--move` it names what the configuration has under another name, and what does not move."""
    (tmp_path / "maitred.yaml").write_text("servers: {time: {command: t}, clinet: {command: root}}\n")
    root = {"command": "root", "disabledTools": ["drop"]}
    put(cursor, {"mcpServers": {"files": FILES, "time": {"command": "other"}, "root": root}})

    shown = run("connect", "cursor").fine
    assert "leaves its 3 servers; `--move` moves root, files to maitred" in shown
    assert "`--move` leaves time: the configuration has another server of this name" in shown

    moved = run("connect", "cursor", "--move", "--yes").fine
    assert "takes out root (here clinet), which maitred has" in moved
    assert "root: what the client switches off of it is not taken over" in moved
    assert set(servers(cursor)) == {"time", "maitred"}


def test_what_is_said_of_the_configuration_is_true(run: Run, tmp_path: Path, cursor: Path) -> None:
    """One with a fault is warned of; one that this command makes is not missed."""
    put(cursor, {"mcpServers": {"files": FILES}})
    said = run("connect", "cursor", "--move", "--yes").fine
    assert "is not there yet" not in said
    (tmp_path / "maitred.yaml").write_text("servers: {a: {comand: x}}\n")

    done = run("connect", "cursor", "--yes")

    assert done.code == 0
    assert "did you mean `command`?" in done.err
    assert "clients cannot start this gateway until that is mended" in done.err


def test_a_file_that_is_gone_is_forgotten_and_a_new_one_says_how_to_undo_it(run: Run, cursor: Path) -> None:
    cursor.parent.mkdir()
    assert "`maitred disconnect cursor` undoes it." in run("connect", "cursor", "--yes").fine
    cursor.unlink()

    said = run("disconnect", "cursor", "--yes").fine

    assert "its file is gone, so nothing is written" in said
    assert "merged" not in said
    assert "has no entry of this gateway" in run("disconnect", "cursor", "--yes").out


def test_a_changed_entry_names_the_keys_that_change(run: Run, tmp_path: Path) -> None:
    """An entry that a person wrote may lack what keeps the menu loaded."""
    put(tmp_path / ".claude.json", {"mcpServers": {"maitred": {"command": "maitred", "args": ["serve"]}}})

    assert "changes command, args, alwaysLoad of maitred: " in run("connect", "claude-code").fine


def test_options_and_errors_name_what_is_wrong(run: Run, tmp_path: Path) -> None:
    """No option is passed over in silence, and no file is blamed that has no fault."""
    assert "--project, --file" in run("connect", "cursor", "--project", "--file", "x.json").refused
    assert "error: import --undo" in run("import", "--undo").refused
    assert "is no file" in run("import", "--file", ".").refused


def test_a_file_of_no_known_place_is_read_as_most_clients_read_theirs(run: Run, tmp_path: Path) -> None:
    """A reference in it is one, and a list of the only tools names the profile that has these."""
    entry = {"command": "x", "env": {"A": "${FOO}"}, "enabledTools": ["one", "two"]}
    put(tmp_path / "odd.json", {"mcpServers": {"odd": entry}})

    said = " ".join(run("import", "--file", "odd.json", "odd").fine.split())

    assert "FOO is not set now" in said
    assert "a profile with `tools: [odd/one, odd/two]` gives a client these alone" in said
