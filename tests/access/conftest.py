"""One running gateway for all tests of a module, and one event loop for it."""

from collections.abc import AsyncIterator

import pytest
from tests.access.house import House, living


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """As for all tests, and wide enough for the gateway that they share."""
    return "asyncio"


@pytest.fixture(scope="module")
async def house(
    anyio_backend: str, counted_here: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[House]:
    """The gateway of `tests.access.house`."""
    async with living(tmp_path_factory.mktemp("house")) as running:
        yield running
