"""`maitred import` as a person decides by it: what will run stands there whole, and a "no" is remembered."""

import fcntl
import json
import os
import pty
import shlex
import struct
import termios
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.harness import WAIT_S, cli, faulty, write_settings
from tests.interaction.requirements import requirement
from tests.interaction.test_cli import fine, read_json, refused
from tests.support import prefork

from maitred.config.load import load

LONG = [f"--allow=/srv/a folder/with a rather long name/{number}" for number in range(4)]
FOLDERS = ["-y", "@scope/server-filesystem", "/home/ann/work dir", *LONG]
TOKEN = "ghp_" + "a1B2" * 9
SERVERS: dict[str, Any] = {
    "files": {
        "command": "/opt/my tools/npx",
        "args": FOLDERS,
        "env": {"MODE": "safe mode", "API_TOKEN": "s3cret"},
    },
    "hub": {
        "command": "hub",
        "args": ["--token", "t0psecret", "--api-key=abc", TOKEN],
        "cwd": "/srv/hub here",
    },
    "notes": {
        "url": "https://ann:pw1234@notes.example/mcp?api_key=k3y&page=1",
        "headers": {"Authorization": "Bearer abcdefgh12345678", "X-Team": "${env:TEAM}"},
    },
}
WHOLE = shlex.join(["/opt/my tools/npx", *FOLDERS])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of somebody who uses Cursor."""
    folder = tmp_path / "home"
    (folder / ".cursor").mkdir(parents=True)
    (folder / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": SERVERS}), encoding="utf-8")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def own(tmp_path: Path, home: Path) -> Path:
    """A configuration that the test may change; its one server is never started."""
    return write_settings(tmp_path, {"counter": faulty("count")})


def at_terminal(arguments: Sequence[str], typed: str, *, columns: int = 40) -> str:
    """What a command prints at a terminal of so many columns, where this is typed."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {**{k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}, "TERM": "xterm"}
    with os.fdopen(inner, "r+b", buffering=0) as terminal:
        process = prefork.start(arguments, [terminal] * 3, env=env)
    with closing(process):
        os.write(outer, typed.encode())
        said = b""
        try:
            while part := os.read(outer, 65_536):
                said += part
        except OSError:  # as Linux ends a terminal
            pass
        code = process.wait(WAIT_S)
    os.close(outer)
    assert code == 0, said.decode()
    return said.decode().replace("\r\n", "\n")


@requirement("import:whole")
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_what_would_run_is_shown_whole_at_any_width(own: Path, columns: int) -> None:
    """Nobody decides on a line that was cut. Source: docs/import.md."""
    shown = at_terminal(["import", "-c", str(own)], "\n", columns=columns)
    imported = at_terminal(["import", "-c", str(own)], "files\n", columns=columns)
    listed = at_terminal(["list", "-c", str(own)], "", columns=columns)

    for said in (shown, imported, listed):
        assert WHOLE in said
        assert "…" not in said.replace("first time only) …", "")
    assert "'MODE=safe mode'" in shown
    assert "in '/srv/hub here'" in shown


@requirement("import:secrets")
def test_no_credential_is_printed(own: Path) -> None:
    """The file has them. At a terminal arguments stay, since they say what runs; a log has none of them."""
    as_json, shown = cli(own, "import", "--json").stdout, fine(cli(own, "import"))

    entries = {one["name"]: one["entry"] for one in json.loads(as_json)["found"]}
    for secret in ("s3cret", "t0psecret", "key=abc", TOKEN, "pw1234", "k3y", "abcdefgh12345678"):
        assert secret not in as_json
    assert "s3cret" not in shown
    assert "abcdefgh12345678" not in shown
    assert "pw1234" not in shown
    assert entries["files"]["env"] == {"MODE": "***", "API_TOKEN": "***"}
    assert entries["hub"]["args"] == ["--token", "***", "--api-key=***", "***"]
    assert entries["notes"]["url"] == "https://ann:***@notes.example/mcp?api_key=***&page=1"
    assert entries["notes"]["headers"] == {"Authorization": "***", "X-Team": "${env:TEAM:-}"}
    fine(cli(own, "import", "--yes"))
    assert dict(load(own).servers["files"].env) == {"MODE": "safe mode", "API_TOKEN": "s3cret"}


@requirement("import:plain")
def test_a_terminal_obeys_nothing_of_another_program_s_file(own: Path, home: Path) -> None:
    """Names and commands are printed as text."""
    evil = {"\x1b[2Jevil": {"command": "run", "args": ["\x1b]0;title\x07", "a\nb"]}}
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": evil}), encoding="utf-8")

    said = fine(cli(own, "import"))

    assert "\x1b" not in said
    assert r"\x1b]0;title\x07" in said
    assert r"'a\nb'" in said


@requirement("import:removed")
def test_what_was_removed_comes_back_by_its_name_alone(own: Path) -> None:
    """Whatever it is called by then. Source: docs/import.md."""
    fine(cli(own, "import", "--yes"))
    assert "`maitred import` leaves it out" in fine(cli(own, "remove", "files"))

    again = fine(cli(own, "import", "--yes"))
    found = {one["name"]: one["declined"] for one in read_json(cli(own, "import", "--json"))["found"]}

    assert "Nothing imported." in again
    assert "removed or declined before: `maitred import files` imports it" in again
    assert found == {"files": True, "hub": False, "notes": False}
    assert "files" not in load(own).servers

    assert "Imported files into" in fine(cli(own, "import", "files"))
    fine(cli(own, "remove", "hub"))
    assert "Imported hub" in fine(cli(own, "import", "hub"))
    fine(cli(own, "remove", "hub", "--config", str(own)))
    fine(cli(own, "add", "hub", "--no-try", "--", "hub"))
    fine(cli(own, "remove", "counter"))
    assert set(load(own).servers) == {"files", "hub", "notes"}


@requirement("import:renamed")
def test_what_was_removed_stays_out_under_another_name(own: Path, home: Path) -> None:
    """Another client may call the same program otherwise."""
    fine(cli(own, "import", "--yes"))
    fine(cli(own, "remove", "hub"))
    servers = {"hub two": SERVERS["hub"], "hub": {"command": "another"}}
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    said = fine(cli(own, "import", "--yes"))
    assert "Nothing imported." in said
    assert "as hub, which starts or reaches the same: `maitred import 'hub two'` imports it" in said
    assert "Imported hub two into" in fine(cli(own, "import", "hub two"))


@requirement("import:declined")
def test_a_no_at_the_prompt_is_remembered_and_silence_is_not(own: Path) -> None:
    """Who takes some leaves the others; who takes nothing may take all the next time."""
    silent = at_terminal(["import", "-c", str(own)], "\n")
    assert "Nothing imported." in silent
    assert "declined" not in at_terminal(["import", "-c", str(own)], "notes\n").replace(
        "`none` declines all", ""
    )

    later = fine(cli(own, "import", "--yes"))

    assert later.count("removed or declined before") == 2
    assert set(load(own).servers) == {"counter", "notes"}
    assert "Imported files, hub into" in at_terminal(["import", "-c", str(own)], "files, hub\n")


@requirement("import:none")
def test_none_declines_all_and_a_wrong_name_is_asked_for_again(own: Path) -> None:
    """Nothing that was typed is dropped in silence."""
    said = at_terminal(["import", "-c", str(own)], "fils, hub\nnone\n")

    assert "no client has a server 'fils'; did you mean 'files'?" in " ".join(said.split())
    assert "Nothing imported." in said
    assert "Nothing imported." in fine(cli(own, "import", "--yes"))
    assert set(load(own).servers) == {"counter"}


@requirement("import:memory")
def test_a_memory_that_cannot_be_read_is_named(own: Path) -> None:
    """It is not taken for an empty one, which would bring all back."""
    fine(cli(own, "import", "notes"))
    fine(cli(own, "remove", "notes"))
    (memory,) = (Path(os.environ["XDG_STATE_HOME"]) / "maitred").glob("*.declined.json")
    memory.write_text("[", encoding="utf-8")

    said = refused(cli(own, "import", "--yes"))

    assert str(memory) in said
    assert "remove the file" in said
    assert set(load(own).servers) == {"counter"}
