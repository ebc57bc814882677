"""`maitred service`: files that systemd and launchd take, shown before they are written, without secrets."""

import os
import plistlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.surfaces.cli.rig import Run, runner, write

from maitred.errors import ConfigError
from maitred.surfaces.service_files import MARK, launchd_agent, systemd_unit

SECRET = "a-secret-of-the-test"
CONFIG = """
servers:
  forge: {command: forge-server, env: {FORGE_TOKEN: "${FORGE_TOKEN}"}, enabled: false}
  kept:
    command: x
    env: {A: "${env:KEPT:-$${KEPT}}", B: "${KEPT:-${OTHER}}${file:/x}$${NONE}"}
    enabled: false
http: {token: "${HTTP_TOKEN:-}"}
"""
STRANGE = ['/opt/my programs/100% "best"/maitred', "serve", "--config", "/a\\b/$HOME/${X}/ü'.yaml"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user of Linux whose `systemctl` writes down how it is called; its unit runs after it was enabled."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script = programs / "systemctl"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncase "$*" in\n'
        f"*enable*) touch {tmp_path}/on;;\n*is-active*) test -e {tmp_path}/on;;\nesac\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("FORGE_TOKEN", SECRET)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    write(tmp_path, {"maitred.yaml": CONFIG})
    return tmp_path


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(home, monkeypatch, capsys)


def unit_of(home: Path) -> Path:
    return home / ".config" / "systemd" / "user" / "maitred.service"


def calls(home: Path) -> list[str]:
    file = home / "calls"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_install_shows_the_file_and_writes_nothing_without_consent(run: Run, home: Path) -> None:
    """Without a terminal there is nobody to ask."""
    shown = run("service", "install").fine

    assert "    ExecStart=" in shown
    assert "nothing changed" in shown
    assert not unit_of(home).exists()
    assert calls(home) == []


def test_quiet_installs_print_nothing(run: Run, home: Path) -> None:
    """What was done is no answer. Source: docs/cli.md."""
    assert run("service", "install", "--yes", "-q").fine == ""
    assert unit_of(home).exists()
    assert run("service", "uninstall", "--yes", "-q").fine == ""
    assert not unit_of(home).exists()


def test_install_writes_full_paths_and_starts_nothing(run: Run, home: Path) -> None:
    """The command that starts it is said. What the configuration refers to is named, and not copied."""
    said = run("service", "install", "--yes").fine
    unit = unit_of(home).read_text(encoding="utf-8")

    [command] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words = re.findall(r'"([^"]*)"', command)
    assert words[0] == sys.executable
    assert words[-4:] == ["--config", str(home / "maitred.yaml"), "--transport", "http"]
    assert "    systemctl --user enable --now maitred.service" in said
    assert "Not copied, since they may be secrets: FORGE_TOKEN, HTTP_TOKEN, KEPT, OTHER." in said
    assert SECRET not in unit + said
    assert calls(home) == []


def test_print_writes_the_file_to_the_output_alone(run: Run, home: Path) -> None:
    printed = run("service", "install", "--print").fine

    assert printed.startswith(f"# {MARK}\n[Unit]\n")
    assert not unit_of(home).exists()


def test_it_is_started_and_stopped_when_that_is_asked_for(run: Run, home: Path) -> None:
    """`status` follows; afterwards all is as before."""
    assert "Not installed" in run("service", "status").fine
    run("service", "install", "--yes", "--start")
    assert calls(home)[-2:] == ["--user daemon-reload", "--user enable --now maitred.service"]
    assert "It runs." in run("service", "status").fine
    assert '"current": true' in run("service", "status", "--json").fine
    run("service", "uninstall", "--yes", "--stop")
    assert calls(home)[-1] == "--user disable --now maitred.service"
    assert not unit_of(home).exists()


def test_a_service_that_cannot_be_stopped_keeps_its_file_and_that_is_said(run: Run, home: Path) -> None:
    """As without a session: what to do next is named."""
    run("service", "install", "--yes").fine  # noqa: B018  # it ran
    (home / "bin" / "systemctl").write_text("#!/bin/sh\nexit 1\n")

    refused = run("service", "uninstall", "--yes", "--stop").refused

    assert "stays; without --stop it is removed" in refused
    assert unit_of(home).exists()
    run("service", "uninstall", "--yes").fine  # noqa: B018
    assert not unit_of(home).exists()


def test_status_says_that_the_file_is_of_another_installation(run: Run, home: Path) -> None:
    run("service", "install", "--yes")
    unit = unit_of(home)
    unit.write_text(
        unit.read_text(encoding="utf-8").replace(sys.executable, "/gone/python"), encoding="utf-8"
    )

    assert "differs from what `maitred service install` would write now" in run("service", "status").fine


def test_a_folder_that_cannot_be_written_is_said(run: Run, home: Path) -> None:
    """Without a traceback, and without half a file."""
    (home / ".config").write_text("a file in the place of the folder")
    assert "cannot be changed" in run("service", "install", "--yes").refused
    (home / ".config").unlink()
    unit_of(home).mkdir(parents=True)
    for command in (["install", "--yes"], ["uninstall", "--yes"], ["status"]):
        assert "cannot be read or changed: Is a directory" in run("service", *command).refused


def test_status_needs_no_configuration(run: Run, home: Path) -> None:
    """It is asked about the service."""
    run("service", "install", "--yes", "--start").fine  # noqa: B018  # it ran
    (home / "maitred.yaml").write_text("servers: 7\n")

    said = run("service", "status").fine

    assert "It cannot be compared" in said
    assert "It runs." in said
    assert '"current": null' in run("service", "status", "--json").fine


def test_a_file_of_somebody_else_is_left_alone(run: Run, home: Path) -> None:
    unit_of(home).parent.mkdir(parents=True)
    unit_of(home).write_text("[Service]\nExecStart=/mine\n", encoding="utf-8")

    assert "was not written by maitred" in run("service", "install", "--yes").refused
    assert "was not written by maitred" in run("service", "uninstall", "--yes").refused
    assert unit_of(home).read_text(encoding="utf-8") == "[Service]\nExecStart=/mine\n"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(run: Run, home: Path) -> None:
    """As it is written; with a misspelled key it is not taken, so the check is one."""
    run("service", "install", "--yes")
    good = unit_of(home)
    bad = good.with_name("bad.service")
    bad.write_text(good.read_text(encoding="utf-8").replace("ExecStart=", "ExecStrat="), encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}

    def verify(path: Path) -> str:
        words = ["systemd-analyze", "--user", "--man=no", "verify", str(path)]
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stderr

    assert [line for line in verify(good).splitlines() if "maitred.service" in line] == []
    assert "ExecStrat" in verify(bad)


def test_systemd_reads_strange_words_as_they_are() -> None:
    """Its own rules, read backwards: `%%`, `$$`, and escapes in quotes."""
    unit = systemd_unit(STRANGE, "/a b:/100%", Path("/x y/service.env"))
    [command] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', command)
    read = [re.sub(r"\\(.)", r"\1", word).replace("$$", "$").replace("%%", "%") for word in words]

    assert read == STRANGE
    assert 'Environment="PATH=/a b:/100%%"' in unit
    assert "EnvironmentFile=-/x y/service.env" in unit


def test_launchd_gets_the_words_as_they_are() -> None:
    """Its file is a property list."""
    agent = plistlib.loads(launchd_agent(STRANGE, "/a b", home=Path("/Users/ann")).encode())

    assert agent["ProgramArguments"] == STRANGE
    assert agent["EnvironmentVariables"] == {"PATH": "/a b"}
    assert agent["RunAtLoad"] is True
    assert agent["StandardErrorPath"] == "/Users/ann/Library/Logs/maitred.log"


@pytest.mark.parametrize("word", ["a\nExecStartPre=evil", "a\rb", "a\x1bb", "a\x00", "a\u2028b", "a\udc80"])
def test_names_with_control_characters_are_refused(word: str) -> None:
    """In each place where a name of a user gets into a file."""
    makers: list[Callable[[], str]] = [
        lambda: systemd_unit([word], "/bin", Path("/v")),
        lambda: systemd_unit(["x"], word, Path("/v")),
        lambda: systemd_unit(["x"], "/bin", Path("/") / word / "service.env"),
        lambda: launchd_agent([word], "/bin", home=Path("/h")),
        lambda: launchd_agent(["x"], word, home=Path("/h")),
        lambda: launchd_agent(["x"], "/bin", home=Path("/") / word),
    ]
    for make in makers:
        with pytest.raises(ConfigError, match="control character"):
            make()
