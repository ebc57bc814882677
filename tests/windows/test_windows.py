"""What of maitred needs no POSIX runs without it, and the rest says so. Nothing here runs on Windows.

docs/windows.md says what this shows and what it does not.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.support.real_servers import require

PROGRAM = Path(__file__).with_name("posix_free.py")
COMMANDS: Mapping[str, Sequence[str]] = {
    "help": ["--help"],
    "list": ["list"],
    "search": ["search", "current time"],
    "call": ["call", "time__get_current_time", "--args", '{"timezone": "UTC"}'],
    "doctor": ["doctor"],
    "audit": ["audit", "list"],
    "tokens": ["tokens", "list"],
    "connect": ["connect", "cursor", "--yes"],
    "disconnect": ["disconnect", "cursor", "--yes"],
    "status": ["status"],
    "add": ["add", "other", "--disabled", "--", "some-program"],
}


def environment(folder: Path) -> dict[str, str]:
    """Variables of a new user; no program of this system is on the path, so none of its jails is found."""
    own = {"HOME": str(folder), "PATH": str(folder), "MAITRED_CONFIG": str(folder / "maitred.yaml")}
    coverage = {name: os.environ[name] for name in ("PYTHONDONTWRITEBYTECODE",) if name in os.environ}
    return {**own, **coverage, "COLUMNS": "200", "SYSTEMROOT": "C:\\Windows", "LANG": "C.UTF-8"}


def prepare(folder: Path) -> None:
    """Write a configuration with one real server."""
    require("time")
    server = {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone=UTC"]}
    (folder / "maitred.yaml").write_text(json.dumps({"servers": {"time": server}}), encoding="utf-8")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What came of importing all modules and of running all commands, in one process."""
    folder = tmp_path_factory.mktemp("user")
    prepare(folder)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "measure", str(folder), json.dumps(list(COMMANDS.values()))],
        env=environment(folder), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Any] = json.loads(done.stdout)
    commands = dict(zip(COMMANDS, found["commands"], strict=True))
    return {"faults": found["faults"], "commands": commands}


def test_every_module_can_be_imported(measured: Mapping[str, Any]) -> None:
    """No module needs one that Python lacks on Windows, nor such a name, before something is run."""
    assert measured["faults"] == {}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("status", "add")])
def test_a_command_does_what_it_does_elsewhere(measured: Mapping[str, Any], name: str) -> None:
    """A real server is started, listed, called and ended; files of a client are written and given back."""
    done = measured["commands"][name]

    assert done["code"] in (0, None), done
    expected = {"call": '"timezone": "UTC"', "list": "time", "search": "get_current_time", "audit": "call"}
    assert expected.get(name, "") in done["out"]


def test_what_needs_unix_sockets_says_that_there_are_none(measured: Mapping[str, Any]) -> None:
    """A running gateway is found by one; without them each client has a gateway of its own."""
    done = measured["commands"]["status"]

    assert (done["code"], "no Unix sockets" in done["err"]) == (2, True), done


@pytest.mark.anyio
async def test_a_client_is_served_over_stdio(tmp_path: Path) -> None:
    """The gateway that it starts is its own, starts the server, and ends with the client."""
    prepare(tmp_path)
    words = [str(PROGRAM), "run", "serve"]
    at = StdioServerParameters(command=sys.executable, args=words, env=environment(tmp_path))

    with anyio.fail_after(300):
        async with Client(stdio_client(at)) as client:
            found = await client.call_tool("time__get_current_time", {"timezone": "UTC"})

    assert not found.is_error
    assert "UTC" in str(found.content)


def test_the_gateway_answers_over_http(tmp_path: Path) -> None:
    """It listens on a port of this machine, which needs nothing of POSIX."""
    prepare(tmp_path)
    words = [sys.executable, str(PROGRAM), "run", "serve", "--transport", "http", "--port", "0"]
    with subprocess.Popen(words, env=environment(tmp_path), stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        try:
            address = program.stderr.readline().split()[-1].removesuffix("/mcp")
            with urllib.request.urlopen(f"{address}/api/v1/servers", timeout=300) as answer:
                assert json.load(answer)["servers"][0]["name"] == "time"
        finally:
            program.terminate()
