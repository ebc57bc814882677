"""One browser for each module, which runs beside the tests, and the site that they open in it."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.support.chromium import Client, Hub, Running, browser, hub
from tests.support.web_site import serve_site


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """A browser with a debugging port; its tests are skipped where none can be started."""
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """The address of the site."""
    with serve_site("site") as made:
        yield made.origin


@pytest.fixture
async def clients() -> AsyncIterator[Hub]:
    """Clients that share browsers, as those of one gateway do."""
    async with hub() as made:
        yield made


@pytest.fixture
async def client(clients: Hub, running: Running) -> Client:
    """A client that is connected to the browser of the module, with a tab of its own."""
    made = clients.client()
    await made.do("chrome_connect", port=running.port, host="127.0.0.1")
    return made
