"""`maitred doctor`: the advice about a server comes from the code of its fault, not from words."""

import json
import sys
from pathlib import Path
from typing import get_args

import pytest
from tests.surfaces.cli.rig import Run, runner, write

from maitred.disclosure.answers import ServerStatus
from maitred.model.servers import FaultCode, Health, ServerFacts, ServerSpec, State
from maitred.surfaces.advice import advice


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(tmp_path, monkeypatch, capsys)


def test_each_server_gets_the_advice_for_its_own_fault(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server prints decides nothing, even if it is the message of another fault."""
    liar = "import sys; sys.exit(\"it was suspended, 'npx' is not on PATH and it was not ready within 1 s\")"
    sleeper = {"command": sys.executable, "args": ["-c", "import time; time.sleep(99)"], "start_timeout_s": 1}
    servers = {
        "installed-by-uv": {"command": "uvx"},
        "unknown": {"command": "no-such-program-of-maitred"},
        "unset": {"command": sys.executable, "env": {"A": "${NO_SUCH_VARIABLE}"}},
        "slow": sleeper,
        "liar": {"command": sys.executable, "args": ["-c", liar]},
        "silent": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]},
        "module": {"command": sys.executable, "args": ["-m", "no_such_module.of_maitred"]},
    }
    write(tmp_path, {"maitred.yaml": json.dumps({"servers": servers, "catalog": {"path": "catalog.db"}})})
    monkeypatch.setenv("PATH", str(tmp_path))

    done = run("doctor", "--json")

    assert done.code == 1
    assert {one["name"]: one["advice"] for one in json.loads(done.out)["servers"]} == {
        "installed-by-uv": "install uv, which brings uvx",
        "unknown": "install the program, or give its full path in `command`",
        "unset": "set the variable where maitred is started, for instance in your client's env",
        "slow": "raise `start_timeout_s` of the server if it is slow the first time",
        "liar": "its last output is shown above; run its command by hand to see more; if it works there,"
        " `env` lacks a variable of your shell",
        "silent": "it wrote nothing; run its command by hand to see more; if it works there,"
        " `env` lacks a variable of your shell",
        "module": "the server's Python package is not installed for the interpreter in `command`",
    }


@pytest.mark.parametrize("fault", [code for code in get_args(FaultCode) if code])
def test_there_is_advice_for_each_fault_that_the_gateway_knows(fault: FaultCode) -> None:
    """A new code without advice would leave the operator with a pointer to the manual."""
    health = Health(state=State.FAILED, error="it failed", fault=fault)
    spec = ServerSpec(name="a", command="x")
    status = ServerStatus(spec=spec, health=health, facts=ServerFacts(), tools=0, cost_tokens=0)

    assert advice(status, ()) not in ("", "see `maitred docs troubleshooting`")
