"""uv and pipx themselves install the wheel, and what maitred then says of itself works.

Nothing is downloaded: what the wheel needs is overridden away, and comes from the tests' environment.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import requires
from pathlib import Path

import pytest
from tests.package.distributions import Distributions, without_needs

BIN = Path(sys.executable).parent
Command = Callable[..., subprocess.CompletedProcess[str]]


def offline(folder: Path, packages: Path) -> Mapping[str, str]:
    """The variables by which uv and pipx work in a new home folder without an index."""
    names = {re.split(r"[^\w.-]", line)[0] for line in requires("maitred") or ()}
    overrides = folder / "overrides.txt"
    overrides.write_text(
        "".join(f"{name}; python_version < '3'\n" for name in sorted(names)), encoding="utf-8"
    )
    return {
        "HOME": str(folder),
        "PATH": f"{folder}/.local/bin:{BIN}:/usr/bin:/bin",
        "PYTHONPATH": str(packages),
        "UV_OVERRIDE": str(overrides),
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_NO_CONFIG": "1",
        "UV_PYTHON": str(Path(sys.base_prefix) / "bin" / "python3"),
        "UV_PYTHON_DOWNLOADS": "never",
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
    }


@pytest.fixture
def run(tmp_path: Path, packages: Path) -> Command:
    """Runs a command line as a user with an empty home folder; it must succeed."""
    variables = offline(tmp_path, packages)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            words, env=dict(variables), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
        return done

    return run


def hint(run: Command, *start: str) -> Sequence[str]:
    """The command that a message shows for the packages of an extra."""
    code = "from maitred.extras import install_command; print(install_command('containers'))"
    return shlex.split(run(*start, "-c", code).stdout)


def entry(run: Command, *start: str) -> list[str]:
    """The command of the entry for clients."""
    found = json.loads(run(*start, "entry").stdout)["mcpServers"]["maitred"]
    return [found["command"], *found["args"]]


def test_uvx_runs_the_wheel_and_the_entry_runs_uv_again(
    run: Command, built: Distributions, tmp_path: Path
) -> None:
    """The cache may be emptied in between, and a client has another environment."""
    wheel = str(built.wheel)
    words = entry(run, "uvx", "--from", wheel, "maitred")
    run("uv", "cache", "clean", "--quiet")

    assert words == [str(BIN / "uv"), "tool", "run", "--from", wheel, "maitred", "serve"]
    assert run(*words[:-1], "--version").stdout.startswith("maitred ")
    assert ".cache" not in " ".join(words)
    shown = hint(run, "uvx", "--from", wheel, "python")
    assert shown[:2] == ["uvx", "--with"]
    assert shown[-3:] == ["--from", wheel, "maitred"]


def test_uv_tool_keeps_the_program_at_a_path(run: Command, built: Distributions, tmp_path: Path) -> None:
    """The hint for an extra installs the same wheel again, with the packages."""
    run("uv", "tool", "install", str(built.wheel))

    assert entry(run, "maitred") == [str(tmp_path / ".local/bin/maitred"), "serve"]
    shown = hint(run, str(tmp_path / ".local/share/uv/tools/maitred/bin/python"))
    assert shown[:5] == ["uv", "tool", "install", "--force", "--with"]
    assert shown[-1] == str(built.wheel)
    assert "uv tool install --force NEW_WHEEL" in run("maitred", "upgrade").stdout


def test_pipx_keeps_the_program_at_a_path(
    run: Command, built: Distributions, packages: Path, tmp_path: Path
) -> None:
    """The hint for an extra is pipx's own command."""
    run("pipx", "install", str(without_needs(built.wheel, tmp_path)))
    [site] = tmp_path.glob(".local/share/pipx/venvs/maitred/lib/python*/site-packages")
    (site / "needs.pth").write_text(f"{packages}\n", encoding="utf-8")  # its programs see no PYTHONPATH

    assert entry(run, "maitred") == [str(tmp_path / ".local/bin/maitred"), "serve"]
    [python] = tmp_path.glob(".local/share/pipx/venvs/maitred/bin/python")
    assert hint(run, str(python))[:3] == ["pipx", "inject", "maitred"]
    assert "pipx install --force NEW_WHEEL" in run("maitred", "upgrade").stdout
