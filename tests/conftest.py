"""What all tests share: they run on asyncio, and they never see the operator's own configuration."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from maitred.catalog.counting import count_tokens
from maitred.catalog.tokens import TokenWorker


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


@pytest.fixture(autouse=True)
def count_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count tokens in this process: a worker for each gateway would load the vocabulary again each time.

    Gateways in processes of their own have their workers, and `tests/catalog/test_tokens.py` has.
    """

    async def count(_: TokenWorker, texts: Sequence[str]) -> Sequence[int]:
        return count_tokens(texts)

    monkeypatch.setattr(TokenWorker, "count", count)


settings.register_profile("maitred", deadline=None)  # machines are shared; pytest-timeout bounds every test
settings.load_profile("maitred")
