"""One event loop for a module, in which a gateway and a browser outlive tests."""

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """As for all tests, and wide enough for what the tests of a module share."""
    return "asyncio"
