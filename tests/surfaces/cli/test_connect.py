"""What `connect`, `disconnect` and `import` say to a person, and what they leave unsaid.

Source: docs/connect.md.
"""

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.config.homes import put
from tests.surfaces.cli.rig import Run, runner

from maitred.config.clients.connection import ClientChange, write_connection
from maitred.config.load import load
from maitred.errors import ConfigError
from maitred.model.tools import ToolKey
from maitred.surfaces.cli import connect

PLACES = {
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "kiro": ".kiro/settings/mcp.json",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line of a person whose three clients have a server each."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for client, place in PLACES.items():
        put(tmp_path / place, {"mcpServers": {f"of-{client}": {"command": f"run-{client}"}}})
    return runner(tmp_path, monkeypatch, capsys)


def type_in(monkeypatch: pytest.MonkeyPatch, lines: Sequence[str]) -> None:
    """Let the command find a terminal, where a person types these lines."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{line}\n" for line in lines)))


def servers(path: Path) -> list[str]:
    return list(json.loads(path.read_text())["mcpServers"])


def test_one_undo_takes_back_all_that_one_command_moved(run: Run, tmp_path: Path) -> None:
    """And an import from before stays."""
    run("import", "of-kiro").fine  # noqa: B018  # it ran
    before = (tmp_path / "maitred.yaml").read_bytes()
    run("connect", "--move", "--yes").fine  # noqa: B018
    assert set(load(tmp_path / "maitred.yaml").servers) == {"of-cursor", "of-gemini", "of-kiro"}

    assert "Took of-cursor, of-gemini out" in run("import", "--undo").fine
    assert (tmp_path / "maitred.yaml").read_bytes() == before
    assert "Took of-kiro out" in run("import", "--undo").fine


def test_what_one_client_refuses_leaves_the_moves_of_the_others(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the client, and its servers are in its file alone."""

    def write(change: ClientChange) -> Any:
        if change.client.id == "gemini":
            raise ConfigError(str(change.path), ["cannot be changed: the disk is full"])
        return write_connection(change)

    monkeypatch.setattr(connect, "write_connection", write)

    done = run("connect", "--move", "--yes")

    assert done.code == 1
    assert "error: Gemini CLI is not connected" in done.err
    assert "the disk is full" in done.err
    assert set(load(tmp_path / "maitred.yaml").servers) == {"of-cursor", "of-kiro"}
    assert servers(tmp_path / PLACES["gemini"]) == ["of-gemini"]
    assert "Took of-cursor, of-kiro out" in run("import", "--undo").fine


def test_a_read_only_file_is_named_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    """The others are connected."""
    (tmp_path / PLACES["kiro"]).chmod(0o444)

    said = run("connect").fine.partition("Kiro")[2]
    done = run("connect", "--yes", "-q")

    assert "cannot be changed: is read-only" in said
    assert "adds maitred" not in said
    assert "error: Kiro cannot be changed" in done.err
    assert servers(tmp_path / PLACES["kiro"]) == ["of-kiro"]
    assert "maitred" in servers(tmp_path / PLACES["cursor"])


def test_nothing_to_give_back_is_said_as_it_is(run: Run) -> None:
    """The clients are there, and none is connected."""
    said = run("disconnect", "--yes").fine

    assert "No client has an entry of this gateway" in said
    assert "No clients found" not in said


def test_hints_are_for_what_the_command_did(run: Run, tmp_path: Path) -> None:
    """Advice for people who edit the file by hand is on the page Clients alone."""
    (tmp_path / ".config/Claude").mkdir(parents=True)
    (tmp_path / ".config/Code/User").mkdir(parents=True)

    said = run("connect", "claude-desktop", "claude-code", "vscode", "--yes").fine

    assert "Its own command is safer" not in said
    assert "The key is `servers`" not in said
    shown, _, done = said.partition("Connected Claude Desktop")
    assert "Quit it first" in shown
    assert "Quit it first" not in done
    assert "Start it again, and look" in done


def test_quiet_changes_print_nothing(run: Run, tmp_path: Path) -> None:
    """`docs/cli.md`: answers and errors alone. What was done is no answer, nor is what there was to do."""
    for words in (["import", "--yes"], ["import", "--yes"], ["connect", "--yes"], ["disconnect", "--yes"]):
        done = run(*words, "-q")
        assert (done.code, done.out, done.err) == (0, "", ""), words
    assert set(load(tmp_path / "maitred.yaml").servers) == {"of-cursor", "of-gemini", "of-kiro"}
    assert "adds maitred" in run("connect", "cursor", "-q").fine


def test_programs_learn_what_would_be_written(run: Run, tmp_path: Path) -> None:
    """The command of the entry, and the profile in it."""
    (tmp_path / "maitred.yaml").write_text("profiles: {work: {servers: [time]}}\n", encoding="utf-8")

    found = json.loads(run("connect", "cursor", "--profile", "work", "--json").fine)

    assert found["profile"] == "work"
    assert found["command"][-2:] == ["--profile", "work"]


def test_a_mistyped_answer_is_asked_for_again_and_a_no_is_a_no(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like the question of `import`."""
    type_in(monkeypatch, ["curser", "cursor"])
    done = run("connect")
    assert "did you mean 'cursor'" in done.err
    assert "Connected Cursor" in done.fine

    type_in(monkeypatch, ["n"])
    assert "Disconnected" not in run("disconnect").fine
    assert "maitred" in servers(tmp_path / PLACES["cursor"])


def test_a_server_whose_client_hides_all_its_tools_is_off_and_the_tools_of_the_next_stay_hidden(
    run: Run, tmp_path: Path
) -> None:
    """`*` is no name of a tool; it used to leave the hidden tools of all later servers on."""
    entries = {
        "a": {"command": "run-a", "disabledTools": ["*"]},
        "b": {"command": "run-b", "disabledTools": ["delete"]},
    }
    put(tmp_path / PLACES["kiro"], {"mcpServers": entries})
    run("import", "a", "b").fine  # noqa: B018  # it ran

    settings = load(tmp_path / "maitred.yaml")
    assert [settings.servers[name].enabled for name in "ab"] == [False, True]
    assert settings.tools[ToolKey(server="b", name="delete")].enabled is False


def test_nothing_is_taken_over_that_could_not_be_undone(run: Run, tmp_path: Path) -> None:
    """A damaged memory of imports is said before anything is written."""
    run("import", "of-kiro").fine  # noqa: B018
    [memory] = (tmp_path / "state").rglob("*.imported.json")
    memory.write_text("{")
    before = (tmp_path / "maitred.yaml").read_bytes()

    assert "the memory of imports cannot be read" in run("import", "of-cursor").refused
    assert (tmp_path / "maitred.yaml").read_bytes() == before


def test_without_names_all_that_is_connected_is_given_back_wherever_it_is(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's file, a project's, a second file of the client, and one that was named by its path."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere" / "servers.json"
    shared = put(project / ".cursor/mcp.json", {"mcpServers": {}})
    second = put(tmp_path / ".codeium/mcp_config.json", {"mcpServers": {"maitred": {"command": "maitred"}}})
    put(tmp_path / ".codeium/windsurf/mcp_config.json", {"mcpServers": {}})
    put(elsewhere, {"mcpServers": {}})
    monkeypatch.chdir(project)
    run("connect", "cursor", "--yes").fine  # noqa: B018
    run("connect", "cursor", "--project", "--yes").fine  # noqa: B018
    run("connect", "kiro", "--file", str(elsewhere), "--yes").fine  # noqa: B018
    places = (tmp_path / PLACES["cursor"], shared, second, elsewhere)
    assert all("maitred" in servers(path) for path in places)

    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert "no file of servers for a project" not in run("disconnect", "cursor", "--project").err
    assert "maitred" in servers(shared)
    run("disconnect", "--yes").fine  # noqa: B018

    assert [servers(path) for path in places] == [["of-cursor"], [], [], []]
    assert "No client has an entry" in run("disconnect", "--yes").fine


def test_a_file_of_a_project_that_is_named_is_the_projects(run: Run, tmp_path: Path) -> None:
    """Its servers start in the folder of the project, and others may have written them."""
    project = tmp_path / "work"
    (project / "tools").mkdir(parents=True)
    (project / "tools" / "serve.py").touch()
    entry = {"command": "python", "args": ["./tools/serve.py"]}
    file = put(project / ".vscode" / "mcp.json", {"servers": {"own": entry}})
    assert "is defined in a file of this project" in " ".join(run("import", "--file", str(file)).fine.split())
    run("import", "--file", str(file), "own", "--yes").fine  # noqa: B018
    assert load(tmp_path / "maitred.yaml").servers["own"].cwd == str(project)
