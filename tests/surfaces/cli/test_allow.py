"""`maitred allow`: the list by commands, which a gateway that runs obeys at once."""

import json
from pathlib import Path

import anyio
import pytest
from tests.surfaces.cli.rig import Run, runner, write

from maitred.config.load import load
from maitred.model.access import LOCAL_USER
from maitred.wiring import open_gateway

CLOCK = "name: clock\ncommand: clock-mcp\n"
FILE = 'catalog: {path: c.db}\nadmission: {images: ["docker.io/acme/*"]}\n'


@pytest.fixture
def maitred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs commands in a folder with a configuration that lists one image."""
    write(tmp_path, {"maitred.yaml": FILE, "clock.yml": CLOCK})
    return runner(tmp_path, monkeypatch, capsys)


def test_patterns_are_added_listed_and_removed(maitred: Run) -> None:
    """Those of the file come first, with their source; the history has both changes."""
    assert "Added clock-mcp" in maitred("allow", "add", "trusted_commands", "clock-mcp", "--why", "ours").fine
    assert "clock: registered; approved by policy" in maitred("register", "clock.yml").fine
    listed = json.loads(maitred("allow", "list", "--json").fine)["patterns"]
    shown = maitred("allow", "list").fine
    assert "Removed clock-mcp" in maitred("allow", "remove", "trusted_commands", "clock-mcp").fine
    changes = json.loads(maitred("allow", "list", "--history", "--json").fine)["changes"]
    audit = json.loads(maitred("audit", "--json").fine)

    assert [(one["pattern"], one["source"]) for one in listed] == [
        ("docker.io/acme/*", "configuration"),
        ("clock-mcp", "list"),
    ]
    assert "ours" in shown
    assert [one["action"] for one in changes] == ["added", "removed"]
    assert {"allow.add", "allow.remove"} <= {line["action"] for line in audit}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "image", "docker.io/x"], "there are images, trusted_images"),
        (["add", "images", "acme/*"], "must begin with the host of the registry"),
        (["add", "images", "docker.io/acme/*"], "is in the configuration file already"),
        (["remove", "images", "docker.io/acme/*"], "which alone can take it away"),
        (["remove", "images", "docker.io/other"], "The allow list has no pattern"),
    ],
)
def test_what_cannot_be_done_is_said(maitred: Run, words: list[str], said: str) -> None:
    """And nothing is changed."""
    assert said in maitred("allow", *words).refused
    assert "There are none." in maitred("allow", "list", "--history").fine


def test_a_gateway_that_runs_obeys_a_command_at_once(maitred: Run, tmp_path: Path) -> None:
    """The next registration at the gateway is judged by what another process wrote."""

    async def outcomes() -> list[str]:
        found: list[str] = []
        async with open_gateway(load(tmp_path / "maitred.yaml")) as gateway:
            for act in ((), ("add",), ("remove",)):
                if act:
                    words = ("allow", *act, "trusted_commands", "clock-mcp")
                    await anyio.to_thread.run_sync(lambda words=words: maitred(*words).fine)  # type: ignore[misc]
                decision = await gateway.check_manifest(CLOCK, source="clock.yml", viewer=LOCAL_USER)
                found.append(decision.outcome)
        return found

    assert anyio.run(outcomes) == ["needs approval", "approved", "needs approval"]
