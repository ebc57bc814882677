"""`maitred doctor --client` and `connect --profile`, as a person uses them. Source: docs/connect.md."""

import json
import sys
from pathlib import Path

import pytest
from tests.support import wordy_server
from tests.surfaces.cli.rig import Run, runner, write

from maitred.config.clients.table import CLIENT_IDS


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Commands of a person who has one server with long names, and two profiles."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    wordy = {"command": sys.executable, "args": ["-I", "-S", wordy_server.__file__, "9"]}
    settings = {
        "servers": {"wordy": wordy},
        "catalog": {"path": "catalog.db"},
        "disclosure": {"mode": "all"},
        "profiles": {"review": {"tools": ["wordy/page"]}, "mail": {"tools": ["wordy/shaped"]}},
    }
    write(tmp_path, {"maitred.yaml": json.dumps(settings)})
    return runner(tmp_path, monkeypatch, capsys)


def entry_of(tmp_path: Path, file: str) -> dict[str, object]:
    servers = json.loads((tmp_path / "home" / file).read_text())["mcpServers"]
    entry: dict[str, object] = servers["maitred"]
    return entry


def test_doctor_says_what_a_client_sees_and_gets(run: Run) -> None:
    """Its tools and their price, names, instructions, answers, deferral, as for the client itself."""
    said = run("doctor", "--client", "claude-code").fine

    assert "11 tools (all), " in said
    assert "of claude-4.7" in said
    assert "its prefix mcp__maitred__ 14; at most 64 in all; 9 names shortened" in said
    assert "it shows 2,048" in said
    assert "its cap is 25,000 of claude-4.7" in said
    assert "hides every tool until its model searches for it; off by alwaysLoad: true in the entry" in said
    assert "list changes  taken" in said
    assert "elicitation   form and url" in said
    assert "handshake era and stateless era" in said
    assert "Gateway to 1 server: wordy." in said


def test_doctor_says_the_same_as_json(run: Run) -> None:
    view = json.loads(run("doctor", "--client", "codex", "--json").fine)

    assert max(map(len, view["tools"])) == view["longest_name"] == 50
    assert view["shortened"] == 9
    assert view["answer"]["tokens"] <= 10_000
    assert view["traits"]["deferral"]["defers"] == "all"
    assert len(view["instructions"]) <= 512
    assert view["connected"] is False


def test_doctor_finds_an_entry_that_leaves_the_menu_hidden(run: Run, tmp_path: Path) -> None:
    """As one that was made by hand, or by an earlier version; `connect` mends it."""
    file = tmp_path / "home" / ".claude.json"
    file.write_text(json.dumps({"mcpServers": {"maitred": {"command": "maitred", "args": ["serve"]}}}))

    hidden = run("doctor", "--client", "claude-code")
    run("connect", "claude-code", "--yes")
    mended = run("doctor", "--client", "claude-code")

    assert hidden.code == 1
    assert "the entry lacks alwaysLoad: true; `maitred connect claude-code` puts it there" in hidden.out
    assert "alwaysLoad: true in the entry (there)" in mended.fine


def test_doctor_shows_a_client_with_a_profile_what_that_has(run: Run) -> None:
    run("connect", "claude-code", "--profile", "review", "--yes")

    view = json.loads(run("doctor", "--client", "claude-code", "--json").fine)

    assert view["profile"] == "review"
    assert view["tools"] == ["wordy__page"]


@pytest.mark.parametrize("client", ["gemini", "kiro"])
def test_doctor_knows_a_client_that_counts_characters_and_one_without_a_name(run: Run, client: str) -> None:
    """What Kiro calls itself is not known, so it gets what every client gets."""
    view = json.loads(run("doctor", "--client", client, "--json").fine)

    assert len(view["tools"]) == 11
    assert view["instructions"]
    assert view["answer"]["tokens"] or view["answer"]["characters"]


def test_a_mistaken_client_is_answered_with_the_nearest(run: Run) -> None:
    assert "did you mean 'claude-code'?" in run("doctor", "--client", "claude-cod").refused
    assert "leave their names out" in run("doctor", "wordy", "--client", "cursor").refused


def test_connect_gives_a_client_the_tools_of_a_profile(run: Run, tmp_path: Path) -> None:
    """Another one later replaces it, and none takes it away again."""
    for profile in ("review", "mail"):
        run("connect", "cursor", "claude-code", "--profile", profile, "--yes")
        for file in (".cursor/mcp.json", ".claude.json"):
            assert entry_of(tmp_path, file)["args"][-2:] == ["--profile", profile]  # type: ignore[index]
    run("connect", "cursor", "--yes")
    assert "--profile" not in entry_of(tmp_path, ".cursor/mcp.json")["args"]  # type: ignore[operator]


def test_a_mistaken_profile_is_refused_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    refused = run("connect", "cursor", "--profile", "revue", "--yes").refused

    assert "review" in refused
    assert not (tmp_path / "home" / ".cursor").exists()


def test_keys_against_deferral_are_written_to_the_clients_that_know_them_and_to_no_other(
    run: Run, tmp_path: Path
) -> None:
    """Other clients warn of unknown keys, or drop them."""
    run("connect", *CLIENT_IDS, "--yes")

    home = tmp_path / "home"
    texts = {file: file.read_text() for file in home.rglob("*") if file.is_file()}
    assert {file.name for file, text in texts.items() if "alwaysLoad" in text} == {".claude.json"}
    assert {file.name for file, text in texts.items() if "deferTools" in text} == {"mcp-config.json"}
    assert entry_of(tmp_path, ".copilot/mcp-config.json")["deferTools"] == "never"
    assert len(texts) >= len(CLIENT_IDS)


def test_doctor_checks_the_tools_that_a_client_must_have(run: Run) -> None:
    """Within its profile: a check that always passes would be none."""
    run("connect", "cursor", "--profile", "review", "--yes").fine  # noqa: B018  # it ran
    assert (
        "ok    required: wordy__page" in run("doctor", "--client", "cursor", "--require", "wordy__page").fine
    )

    done = run("doctor", "--client", "cursor", "--require", "no_such_tool,wordy__shaped", "--json")

    assert done.code == 1
    assert [one["ok"] for one in json.loads(done.out)["required"]] == [False, False]


@pytest.mark.parametrize(
    "form", [["-p", "review"], ["--profile=review"], ["-preview"], ["--profile", "review"]]
)
def test_a_profile_is_known_in_any_form(run: Run, tmp_path: Path, form: list[str]) -> None:
    """As a person writes it into the entry."""
    entry = {"command": "maitred", "args": ["serve", *form]}
    (tmp_path / "home/.cursor").mkdir()
    write(tmp_path / "home/.cursor", {"mcp.json": json.dumps({"mcpServers": {"maitred": entry}})})

    assert json.loads(run("doctor", "--client", "cursor", "--json").fine)["profile"] == "review"
