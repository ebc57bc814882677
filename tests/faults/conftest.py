"""What all tests of faults share."""

from collections.abc import Sequence

import pytest

from maitred.catalog.counting import count_tokens
from maitred.catalog.tokens import TokenWorker


@pytest.fixture(autouse=True)
def _count_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count tokens in this process: a worker for each test would load the vocabulary again each time."""

    async def count(_: TokenWorker, texts: Sequence[str]) -> Sequence[int]:
        return count_tokens(texts)

    monkeypatch.setattr(TokenWorker, "count", count)
