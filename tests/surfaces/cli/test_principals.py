"""`maitred suspend --principal`: the bearer of a token is refused on the command line, too."""

import json
from pathlib import Path

import pytest
from tests.surfaces.cli.rig import runner, write


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bearer of a token is refused there as well, until it is resumed."""
    write(tmp_path, {"maitred.yaml": "servers: {}\ncatalog: {path: c.db}\n"})
    run = runner(tmp_path, monkeypatch, capsys)
    token = run("tokens", "create", "ci", "--role", "agent").fine.splitlines()[0]

    assert "Suspended 'ci'" in run("suspend", "--principal", "ci", "--why", "leaked").out
    assert "leaked" in run("tokens", "suspended").fine
    monkeypatch.setenv("MAITRED_AS_TOKEN", token)
    assert "'ci' is suspended" in run("search", "x").refused
    monkeypatch.delenv("MAITRED_AS_TOKEN")
    assert json.loads(run("resume", "--principal", "ci", "--json").fine) == {
        "principal": "ci",
        "suspended": False,
    }
    assert json.loads(run("tokens", "suspended", "--json").fine) == {"suspended": []}
    assert "name a server, or a principal" in run("suspend").refused
    assert "name a server, or a principal" in run("resume", "x", "--principal", "ci").refused
