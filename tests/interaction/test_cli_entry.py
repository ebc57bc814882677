"""The entry that a client needs: it works where it is pasted, and keeps the menu loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.interaction.harness import WAIT_S, cli, faulty, write_settings
from tests.interaction.requirements import requirement
from tests.interaction.test_cli import fine

from maitred.config.clients.discovery import discover

PROGRAM = Path(sys.executable).with_name("maitred")


def printed(*command: str, **env: str) -> dict[str, Any]:
    """The entry that a command prints."""
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    (entry,) = json.loads(done.stdout)["mcpServers"].values()
    found: dict[str, Any] = entry
    return found


@requirement("entry:works")
@pytest.mark.anyio
async def test_what_is_printed_starts_a_gateway_from_anywhere(tmp_path: Path) -> None:
    """A client knows neither the folder nor the variables of the shell in which it was printed."""
    config = write_settings(tmp_path, {"own": faulty("slow-start", "0")}, daemon={"enabled": False})
    entry = await anyio.to_thread.run_sync(lambda: printed(str(PROGRAM), "entry", "--config", str(config)))

    start = StdioServerParameters(command=entry["command"], args=entry["args"], env={}, cwd="/")
    with anyio.fail_after(WAIT_S):
        async with Client(stdio_client(start)) as client:
            introduced = client.instructions

    assert Path(entry["command"]).is_absolute()
    assert introduced is not None
    assert "own" in introduced


@requirement("entry:loaded")
def test_the_entry_keeps_the_menu_loaded_and_says_no_more_than_it_must() -> None:
    """Without a configuration of its own it names none."""
    assert printed(str(PROGRAM), "entry", XDG_CONFIG_HOME="", MAITRED_CONFIG="") == {
        "command": str(PROGRAM),
        "args": ["serve"],
        "alwaysLoad": True,
    }


@requirement("entry:configuration")
@pytest.mark.parametrize("variable", ["MAITRED_CONFIG", "XDG_CONFIG_HOME"])
def test_a_configuration_that_a_variable_chose_is_named(tmp_path: Path, variable: str) -> None:
    """Since the client may start the gateway without that variable."""
    entry = printed(str(PROGRAM), "entry", **{"MAITRED_CONFIG": "", variable: str(tmp_path / "x")})

    assert entry["args"][:2] == ["serve", "--config"]
    assert entry["args"][2].startswith(str(tmp_path / "x"))


@requirement("entry:module")
def test_without_the_program_the_interpreter_is_named() -> None:
    """As where maitred is started as a module."""
    entry = printed(sys.executable, "-m", "maitred", "entry", XDG_CONFIG_HOME="", MAITRED_CONFIG="")

    assert (entry["command"], entry["args"]) == (sys.executable, ["-m", "maitred", "serve"])


@requirement("entry:import")
def test_import_shows_the_entry_and_never_imports_it(tmp_path: Path) -> None:
    """Whoever took servers over is told what takes their place."""
    home = tmp_path / "home"
    servers: dict[str, Any] = {"clock": {"command": "clock-server"}}
    (home / ".cursor").mkdir(parents=True)
    file = home / ".cursor" / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    said = fine(cli(tmp_path / "m.yaml", "import", "--yes", env={"HOME": str(home)}))
    (line,) = [line for line in said.splitlines() if line.startswith('{"mcpServers"')]

    file.write_text(line, encoding="utf-8")
    again = discover(home=home, cwd=tmp_path, environ={}, platform="linux", clients=["cursor"])

    assert json.loads(line)["mcpServers"]["maitred"]["alwaysLoad"] is True
    assert again.found == ()
    assert [problem.reason for problem in again.problems] == ["this is maitred itself"]
