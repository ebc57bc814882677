"""What the tests of language models share: both protocols, and an endpoint that speaks them."""

from collections.abc import Iterator

import pytest
from tests.support.openai_server import OpenAiServer, Vendor, openai_server


@pytest.fixture(params=["openai", "anthropic"])
def vendor(request: pytest.FixtureRequest) -> Vendor:
    """Each test runs on both protocols."""
    chosen: Vendor = request.param
    return chosen


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with openai_server() as running:
        yield running
