"""What all tests share: they run on asyncio, and they never see the operator's own configuration."""

from pathlib import Path

import pytest
from hypothesis import settings


@pytest.fixture
def anyio_backend() -> str:
    """maitred runs on asyncio only: its child processes and its HTTP server do."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configuration, state and credentials of whoever runs the tests stay out of reach."""
    for name in ("MAITRED_CONFIG", "MAITRED_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg-config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))


settings.register_profile("maitred", deadline=None)  # machines are shared; pytest-timeout bounds every test
settings.load_profile("maitred")
