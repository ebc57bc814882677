"""What a shell completes, in a real bash: commands, options, choices, and names of servers and tools."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surfaces.cli.rig import Run, runner, write

from maitred.config.load import catalog_path, load

CONFIG = """\
servers:
  time: {command: no-such-program, enabled: false}
  "two words": {command: no-such-program, enabled: false}
  $(touch x): {command: no-such-program, enabled: false}
profiles:
  work: {servers: [time]}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    write(tmp_path, {"maitred.yaml": CONFIG})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return runner(tmp_path, monkeypatch, capsys)


def know_tools(folder: Path, *names: str) -> None:
    """Put tools into the catalog, as a discovery does."""
    with sqlite3.connect(catalog_path(load(folder / "maitred.yaml"))) as catalog:
        columns = [row[1:4] for row in catalog.execute("PRAGMA table_info(tools)")]
        for name in names:
            server, _, raw = name.partition("__")
            known: dict[str, object] = {"name": name, "server": server, "raw_name": raw}
            values = [known.get(key, 0 if kind in ("INTEGER", "FLOAT") else "") for key, kind, _ in columns]
            places = ", ".join("?" * len(values))
            catalog.execute(f"INSERT INTO tools VALUES ({places})", values)  # our own names


@pytest.fixture
def knows_tools(run: Run, tmp_path: Path) -> None:
    """The catalog has two tools, which no server offers now."""
    run("list").fine  # noqa: B018  # it makes the catalog
    know_tools(tmp_path, "time__now", "time__convert")


@pytest.mark.usefixtures("knows_tools")
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_by_the_script(run: Run, tmp_path: Path) -> None:
    """The script is what a user puts into `.bashrc`. A name that needs quotes is left out."""
    write(tmp_path, {"script": run("completion", "bash").fine})
    write(tmp_path, {"maitred": f'#!/bin/sh\nexec "{sys.executable}" -m maitred "$@"\n'})
    (tmp_path / "maitred").chmod(0o755)
    expected = {"maitred tok": "tokens", "maitred remove ''": "time", "maitred call time__c": "time__convert"}
    lines = ['eval "$(cat script)"']
    for words in expected:
        count = len(words.split()) - 1
        lines += [f"COMP_WORDS=({words}) COMP_CWORD={count} COMPREPLY=()"]
        lines += ["_maitred_completion ./maitred", 'echo "${COMPREPLY[*]}"']

    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert dict(zip(expected, done.stdout.splitlines(), strict=True)) == expected, done.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.usefixtures("knows_tools")
def test_commands_options_choices_and_names_are_completed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the configuration and the catalog; no server is started."""
    expected = {
        "maitred se": ["service", "secret", "search", "serve"],
        "maitred tokens r": ["revoke"],
        "maitred search --lim": ["--limit"],
        "maitred audit ver": ["verify"],
        "maitred search -s t": ["time"],
        "maitred search --detail f": ["full"],
        "maitred serve -p w": ["work"],
        "maitred serve --profile ''": ["work"],
        "maitred serve --transport ''": ["stdio", "http"],
        "maitred restart t": ["time"],
        "maitred refresh t": ["time"],
        "maitred logs t": ["time"],
        "maitred connect cu": ["cursor"],
        "maitred disconnect kilo ki": ["kiro"],
        "maitred import --client cu": ["cursor"],
        "maitred doctor --client g": ["gemini", "goose"],
        "maitred docs con": ["configuration", "connect"],
        "maitred menu server/": ["server/time"],
        "maitred disable t": ["time", "time__convert", "time__now"],
        "maitred categories --set time__n": ["time__now"],
        "maitred info -c missing.yaml t": [],
        "maitred -q help tok": ["tokens"],
    }
    monkeypatch.setenv("_MAITRED_COMPLETE", "complete_bash")
    found = {}
    for words in expected:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        found[words] = run().fine.split()

    assert found == expected


@pytest.mark.parametrize(
    ("shell", "begins"), [("zsh", "#compdef maitred"), ("fish", "complete --command maitred")]
)
def test_other_shells_get_their_script(run: Run, shell: str, begins: str) -> None:
    """It asks this program, by the same variable."""
    script = run("completion", shell).fine

    assert script.startswith(begins)
    assert f"_MAITRED_COMPLETE=complete_{shell}" in script
