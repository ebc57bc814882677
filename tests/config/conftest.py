"""A home, a project folder, and a look at the clients in them."""

from pathlib import Path
from typing import Any

import pytest
from tests.config.homes import Look

from maitred.config.clients.discovery import ImportedServers, discover


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def look(home: Path, cwd: Path) -> Look:
    def discovered(
        platform: str = "linux", environ: dict[str, str] | None = None, **options: Any
    ) -> ImportedServers:
        return discover(home=home, cwd=cwd, environ=environ or {}, platform=platform, **options)

    return discovered
