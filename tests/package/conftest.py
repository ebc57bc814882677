"""The distributions, built once, and an environment with nothing but the wheel and what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.package.distributions import ROOT, Distributions, build
from tests.support.site_packages import link_packages


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel and the sdist of this checkout."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all packages of the tests' environment but maitred, for environments that load none."""
    return link_packages(tmp_path_factory.mktemp("packages"))


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
