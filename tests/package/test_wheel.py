"""The wheel and the sdist are whole: all that the program reads, and all that the README names."""

import email
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

from tests.package.distributions import ROOT, Distributions, build

from maitred import __version__

SOURCE = ROOT / "src"
LEFT_OUT = re.compile(r"__pycache__|\.pyc$")


def command(program: Path, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of an environment as a user who has nothing yet."""
    own = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "COLUMNS": "200"}
    return subprocess.run(
        [program, *words], env=own, cwd=home, capture_output=True, text=True, check=False, timeout=300
    )


def test_the_wheel_has_every_file_of_the_package(built: Distributions) -> None:
    """Code, word lists, weights, templates, scripts, migrations and `py.typed`: all that is in the folder."""
    files = built.in_wheel()
    expected = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "maitred").rglob("*")
        if path.is_file() and not LEFT_OUT.search(str(path))
    }

    assert expected - files.keys() == set()
    for kind in (".npz", ".tsv", ".yaml", ".html", ".css", ".js", ".mako", "py.typed", ".svg"):
        assert any(name.endswith(kind) for name in files), kind


def test_the_wheel_has_the_licence_the_pages_and_nothing_else(built: Distributions) -> None:
    """A user of the wheel has no checkout to look into. Pictures stay out."""
    files = built.in_wheel()
    pages = {f"maitred/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    beside = {name for name in files if not (SOURCE / name).exists() and ".dist-info/" not in name}

    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in files)
    own = {"maitred/docs/readme.md", "maitred/docs/changelog.md", "maitred/docs/manifest.schema.json"}
    assert beside == pages | own
    assert not any(LEFT_OUT.search(name) for name in files)


def test_the_metadata_says_what_an_installer_shows(built: Distributions) -> None:
    """The README is the description. No address is given, since the project has none of its own."""
    [text] = [data for name, data in built.in_wheel().items() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(text)

    assert (metadata["Name"], metadata["Version"]) == ("maitred", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "# maitred" in metadata.get_payload()
    assert metadata.get_all("Project-URL") is None


def test_the_sdist_has_all_that_the_readme_names(built: Distributions) -> None:
    """And what builds, checks and deploys it."""
    files = built.in_sdist()
    named = set(re.findall(r"\]\(([\w./-]+\.(?:md|png))", (ROOT / "README.md").read_text(encoding="utf-8")))

    assert named - files == set()
    for path in (
        "Makefile",
        "LICENSE",
        "deploy/Containerfile",
        "tests/package/test_wheel.py",
        "pyproject.toml",
    ):
        assert path in files
    assert not any(LEFT_OUT.search(name) or name.startswith((".venv", ".servers")) for name in files)


def test_the_sdist_builds_the_same_wheel_again(built: Distributions, tmp_path: Path) -> None:
    """Byte for byte, from another folder: a user can check what was published against its source."""
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [source] = (tmp_path / "source").iterdir()

    again = build(source, tmp_path)

    assert again.wheel.read_bytes() == built.wheel.read_bytes()
    assert again.sdist.read_bytes() == built.sdist.read_bytes()


def test_the_installed_wheel_prints_its_pages(installed: Path, tmp_path: Path) -> None:
    """From the wheel, not from a checkout: a list of all, and one page as text of 80 columns."""
    listed = command(installed / "maitred", "docs", home=tmp_path)
    page = command(installed / "maitred", "docs", "connect", home=tmp_path)
    as_json = json.loads(command(installed / "maitred", "docs", "connect", "--json", home=tmp_path).stdout)

    assert {line.split()[0] for line in listed.stdout.splitlines() if line.strip()} >= {
        "serve",
        "readme",
        "changelog",
    }
    assert page.stdout.startswith("# Put maitred into your clients\n")
    prose = [line for line in page.stdout.splitlines() if not line.startswith("    ")]
    assert max(map(len, prose)) <= 80
    assert Path(as_json["path"]).is_relative_to(installed.parent)
    assert (ROOT / "docs" / "connect.md").read_text(encoding="utf-8") == as_json["markdown"]


def test_the_installed_wheel_names_the_wheel_in_its_hints(
    installed: Path, built: Distributions, tmp_path: Path
) -> None:
    """What pip recorded is what is shown; the entry has the path of the program."""
    code = "from maitred.installation import find_installation as f; i = f(); print(i.way, i.source)"
    found = command(installed / "python", "-c", code, home=tmp_path)
    entry = json.loads(command(installed / "maitred", "entry", home=tmp_path).stdout)

    assert found.stdout.split() == ["pip", str(built.wheel)]
    assert entry["mcpServers"]["maitred"]["command"] == str(installed / "maitred")
