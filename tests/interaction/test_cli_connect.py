"""`maitred connect` and `disconnect` as a person uses them. Source: docs/connect.md."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.interaction.harness import WAIT_S, cli, faulty, write_settings
from tests.interaction.requirements import requirement
from tests.interaction.test_cli import fine, read_json, refused
from tests.interaction.test_cli_import import at_terminal

from maitred.config.load import load

SERVERS: dict[str, Any] = {
    "files": {"command": "files-server", "args": ["/srv/private"], "env": {"API_TOKEN": "s3cret"}},
    "clock": {"command": "clock-server", "disabledTools": ["set"]},
    "odd": {"note": "neither"},
}
CURSOR = "// mine\n" + json.dumps({"mcpServers": SERVERS}, indent=3) + "\n\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a person who uses Cursor and Kiro."""
    folder = tmp_path / "home"
    (folder / ".cursor").mkdir(parents=True)
    (folder / ".kiro" / "settings").mkdir(parents=True)
    (folder / ".cursor" / "mcp.json").write_text(CURSOR, encoding="utf-8")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def own(tmp_path: Path, home: Path) -> Path:
    """A configuration that the test may change; its one server is never started."""
    return write_settings(tmp_path, {"counter": faulty("count")}, daemon={"enabled": False})


@requirement("connect:shown")
def test_without_yes_it_shows_names_and_writes_nothing(own: Path, home: Path) -> None:
    """Both clients are found; no value of a server is printed, as text or as JSON."""
    said = fine(cli(own, "connect", "--move"))
    as_json = cli(own, "connect", "--move", "--json").stdout

    for text in (said, as_json):
        assert "s3cret" not in text
        assert "/srv/private" not in text
    assert "has files, clock, odd" in said
    assert "moves files, clock" in said
    assert "leaves odd: has neither a command nor a URL" in said
    assert "nothing changed" in said
    assert [one["client"] for one in json.loads(as_json)["clients"]] == ["cursor", "kiro"]
    assert (home / ".cursor/mcp.json").read_text() == CURSOR
    assert not (home / ".kiro/settings/mcp.json").exists()


@requirement("connect:works")
@pytest.mark.anyio
async def test_what_is_written_starts_a_gateway(own: Path, home: Path) -> None:
    """With full paths, from another folder and without the variables of the shell."""
    await anyio.to_thread.run_sync(lambda: fine(cli(own, "connect", "kiro", "--yes")))
    entry = json.loads((home / ".kiro/settings/mcp.json").read_text())["mcpServers"]["maitred"]

    start = StdioServerParameters(command=entry["command"], args=entry["args"], env={}, cwd="/")
    with anyio.fail_after(WAIT_S):
        async with Client(stdio_client(start)) as client:
            introduced = client.instructions

    assert introduced is not None
    assert "counter" in introduced


@requirement("connect:move")
def test_servers_are_moved_and_the_file_is_given_back(own: Path, home: Path) -> None:
    """The tools that the client hides are switched off; what cannot be moved stays."""
    configuration = own.read_bytes()
    fine(cli(own, "connect", "cursor", "--move", "--yes"))

    moved = json.loads((home / ".cursor/mcp.json").read_text().removeprefix("// mine\n"))["mcpServers"]
    assert list(moved) == ["odd", "maitred"]
    settings = load(own)
    assert set(settings.servers) == {"counter", "files", "clock"}
    assert [key.name for key, choice in settings.tools.items() if not choice.enabled] == ["set"]
    assert "connected already" in fine(cli(own, "connect", "cursor"))

    said = fine(cli(own, "disconnect", "--yes"))
    assert "byte for byte" in said
    assert (home / ".cursor/mcp.json").read_text() == CURSOR
    assert "Took files, clock out of" in fine(cli(own, "import", "--undo"))
    assert own.read_bytes() == configuration


@requirement("connect:whole")
def test_a_client_that_cannot_be_written_leaves_the_configuration_alone(own: Path, home: Path) -> None:
    """It says which file, and why."""
    (home / ".cursor/mcp.json").chmod(0o444)
    before = own.read_bytes()

    done = cli(own, "connect", "cursor", "kiro", "--move", "--yes")

    assert done.returncode == 1
    assert "cannot be changed: is read-only" in done.stdout
    assert own.read_bytes() == before
    assert (home / ".cursor/mcp.json").read_text() == CURSOR
    assert "maitred" in (home / ".kiro/settings/mcp.json").read_text()


@requirement("connect:asks")
def test_at_a_terminal_a_person_says_which_clients(own: Path, home: Path) -> None:
    """An empty answer, and a no, write nothing."""
    at_terminal(["connect", "-c", str(own)], "\n")
    at_terminal(["connect", "cursor", "-c", str(own)], "n\n")
    assert (home / ".cursor/mcp.json").read_text() == CURSOR

    assert "Connected Kiro" in at_terminal(["connect", "-c", str(own)], "kiro\n")
    assert (home / ".cursor/mcp.json").read_text() == CURSOR


@requirement("connect:refused")
def test_a_mistaken_client_is_answered_with_the_nearest(own: Path, home: Path) -> None:
    """And the configuration of maitred is no client of its own."""
    assert "did you mean 'cursor'" in refused(cli(own, "connect", "curser"))
    done = cli(home / ".cursor/mcp.json", "connect", "cursor", "--yes")
    assert done.returncode == 1
    assert "cannot be its own client" in done.stdout


@requirement("import:file")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("any.json", json.dumps({"servers": {"x": {"command": "run"}}})),
        ("opencode.jsonc", json.dumps({"mcp": {"x": {"type": "local", "command": ["run"]}}})),
        ("config.toml", '[mcp_servers.x]\ncommand = "run"\n'),
        ("config.yaml", "extensions:\n  x:\n    type: stdio\n    cmd: run\n"),
        ("mine.yaml", "mcpServers:\n  - name: x\n    command: run\n"),
    ],
)
def test_one_file_is_read_in_the_format_of_any_client(
    own: Path, tmp_path: Path, name: str, text: str
) -> None:
    """Whatever its folder."""
    file = tmp_path / "files" / name
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")

    (found,) = read_json(cli(own, "import", "--json", "--file", str(file)))["found"]

    assert (found["name"], found["entry"]) == ("x", {"command": "run"})
    assert "there is no file" in refused(cli(own, "import", "--file", str(tmp_path / "no.json")))


@requirement("import:undo")
def test_an_import_is_taken_back_and_later_changes_stay(own: Path, home: Path) -> None:
    """Byte for byte if nothing changed since; else the imported servers alone leave."""
    before = own.read_bytes()
    fine(cli(own, "import", "files"))
    fine(cli(own, "import", "--undo"))
    assert own.read_bytes() == before
    assert "there is no import to undo" in refused(cli(own, "import", "--undo"))

    fine(cli(own, "import", "files", "clock"))
    fine(cli(own, "add", "later", "--no-try", "--", "later-server"))
    fine(cli(own, "import", "--undo"))
    assert set(load(own).servers) == {"counter", "later"}
