"""The distributions, built once, and an environment with nothing but the wheel and what it needs."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.package.distributions import ROOT, Distributions, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel and the sdist of this checkout."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all packages of the tests' environment but maitred, for environments that load none."""
    folder = tmp_path_factory.mktemp("packages")
    folder.chmod(0o755)  # another user reads it in a container
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "maitred" not in path.name and path.suffix != ".pth" and path.name != "__pycache__":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="session")
def installed(built: Distributions, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment into which the wheel was installed."""
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    words = ["--python", str(folder / "bin" / "python"), "install", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run(
        [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *words, str(built.wheel)],
        check=True,
    )
    [site] = folder.glob("lib/python*/site-packages")
    (site / "needs.pth").write_text(f"{packages}\n", encoding="utf-8")
    return folder / "bin"
