"""Nothing that is shown to a user fetches our name from an index: it is on none, and anybody may take it."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from maitred.extras import install_command

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "docs", "examples", "deploy", "bench", "training")
FILES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")
SUFFIXES = frozenset({"", ".py", ".md", ".yaml", ".yml", ".json", ".sh", ".toml", ".txt"})
FROM_AN_INDEX = re.compile(
    r"""\bmaitred\[                                          # an extra of ours, whatever installs it
    |\b(?:pip3?|pipx|uv|uvx|npx|bunx|pnpx|npm|poetry|pdm|conda|brew|apt|apt-get)
     \ (?:[^`\n]*[\s'"])?maitred(?![-\w./])                   # our name as a word of its own
    """,
    re.VERBOSE,
)
FROM_A_WHEEL = re.compile(r"--from \S*(?:\.whl|WHEEL) maitred")
"""What `uvx` runs from a file: it needs the name of the program as well."""
TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def is_from_an_index(line: str) -> bool:
    """Whether a line would install what an index has under our name."""
    return FROM_AN_INDEX.search(FROM_A_WHEEL.sub("", line)) is not None


def _shown() -> list[Path]:
    found = [ROOT / name for name in FILES]
    for folder in FOLDERS:
        found += [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def test_no_line_installs_us_from_an_index() -> None:
    """Hints name packages, or the folder of a checkout. Source: docs/security.md."""
    lines = (
        (f"{path.relative_to(ROOT)}:{number}", line)
        for path in _shown()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    )

    assert [f"{place}: {line}" for place, line in lines if is_from_an_index(line)] == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install maitred",
        "`pip install 'maitred[demo]'`",
        "pip3 install -U maitred==0.1.0",
        "uvx maitred serve",
        "uvx --from maitred maitred serve",
        "uv tool install maitred",
        "npx -y maitred",
        "pipx install 'maitred'",
        "install it with `maitred[llm]`",
    ],
)
def test_the_pattern_finds_what_would_be_fetched(line: str) -> None:
    """Of the lines that there were, and their like."""
    assert is_from_an_index(line)


@pytest.mark.parametrize(
    "line",
    [
        "~/.maitred/bin/pip install .",
        "pip install -e '.[demo]'",
        "docker build -t maitred .",
        "uvx --from ./maitred-0.1.0-py3-none-any.whl maitred connect",
    ],
)
def test_the_pattern_passes_what_installs_a_checkout(line: str) -> None:
    """And images that are made here."""
    assert not is_from_an_index(line)


@pytest.mark.parametrize("extra", sorted(set(TABLE["optional-dependencies"]) - {"dev"}))
def test_the_command_for_an_extra_installs_exactly_its_packages(extra: str) -> None:
    """It is read from the metadata of what is installed, so it cannot grow old."""
    program, *command = shlex.split(install_command(extra))

    assert program == sys.executable
    assert command[:3] == ["-m", "pip", "install"]
    assert sorted(map(_plain, command[3:])) == sorted(map(_plain, TABLE["optional-dependencies"][extra]))


def test_an_environment_without_pip_gets_a_command_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `uv venv` and `uv tool install` make them."""
    monkeypatch.setitem(sys.modules, "pip", None)

    command = shlex.split(install_command("containers"))

    assert command[:5] == ["uv", "pip", "install", "--python", sys.executable]


@pytest.mark.parametrize("metadata", ["Metadata-Version: 2.1\nName: maitred\nVersion: 0.0.1\n", ""])
def test_a_checkout_that_is_newer_than_its_installation_is_to_be_installed_again(
    metadata: str, tmp_path: Path
) -> None:
    """The installed metadata does not know the extra yet; `doctor` says what to do, without a traceback."""
    installed = tmp_path / "maitred-0.0.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(metadata, encoding="utf-8")
    config = tmp_path / "maitred.yaml"
    config.write_text("isolation: {jail: none}\ncatalog: {path: catalog.db}\n", encoding="utf-8")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules['docker'] = None;"
        f" sys.argv = ['maitred', 'doctor', '-c', {str(config)!r}];"
        " from maitred.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    command = shlex.join([sys.executable, "-m", "pip", "install", "-e", f"{ROOT}[containers]"])
    assert done.returncode == 0, done.stderr
    assert f"which is missing; `{command}` installs it" in done.stdout


def test_an_extra_that_does_not_exist_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no extra 'nope'"):
        install_command("nope")


def test_make_demo_says_what_it_does_before_it_is_silent_for_a_minute(tmp_path: Path) -> None:
    """A newcomer should not take the installation for a fault. `-n` prints the commands only."""
    done = subprocess.run(
        ["make", "-n", "demo", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    said = done.stdout.index('echo "Installing maitred and three real servers')
    assert said < done.stdout.index("pip install") < done.stdout.index("maitred demo")
    assert "it may take one to two minutes" in done.stdout


def test_the_demonstration_says_what_to_install(tmp_path: Path) -> None:
    """Where its servers are missing, a line that works can be copied."""
    program = (
        "import sys; sys.modules['mcp_server_time'] = None; sys.argv = ['maitred', 'demo'];"
        " from maitred.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert done.returncode == 2
    assert f"`{install_command('demo')}`" in done.stderr
    assert "mcp-server-time==" in done.stderr


def _plain(requirement: str) -> tuple[str, frozenset[str]]:
    """A requirement in which the order of limits and the writing of names do not count."""
    name, parts, limits = re.fullmatch(r"([\w.\-]+)(\[.*\])?(.*)", requirement).groups()  # type: ignore[union-attr]
    return re.sub(r"[-_.]+", "-", name).lower() + (parts or ""), frozenset(limits.split(","))
