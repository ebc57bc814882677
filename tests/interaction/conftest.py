"""The gateway that the tests of a module share, reached over both transports in both protocol eras.

A module says what stands behind the gateway by a fixture `make_config` of its own; without one, it has no
use for `front`.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from mcp import Client
from tests.interaction.harness import Front, HttpGateway, Mode, Transport, cli, serving
from tests.support.replicas import replica_config, serving_replicas

FRONTS: list[tuple[Transport, Mode]] = [
    ("stdio", "legacy"),
    ("stdio", "auto"),
    ("http", "legacy"),
    ("http", "auto"),
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """As for all tests, and wide enough for a client that the tests of a module share."""
    return "asyncio"


@pytest.fixture(scope="module")
def make_config() -> Callable[[Path], Path]:
    """Write the module's configuration into a folder; each module has its own."""
    raise NotImplementedError("the module needs a fixture `make_config`")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, make_config: Callable[[Path], Path]) -> Path:
    """The module's configuration, its servers known, so that every gateway serves it at once."""
    path = make_config(tmp_path_factory.mktemp("gateway"))
    done = cli(path, "list", "--json")
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def http_gateway(config: Path, request: pytest.FixtureRequest) -> Iterator[HttpGateway]:
    """One gateway for all tests of the module, or on demand several that look like one."""
    if count := int(os.environ.get("MAITRED_TEST_REPLICAS", "0")):
        several = replica_config(config, request.getfixturevalue("postgres"))
        with serving_replicas(several, count) as (gateway, _):
            yield gateway
        return
    with serving(config) as gateway:
        yield gateway


@pytest.fixture(scope="module", params=FRONTS, ids="-".join)
def front(request: pytest.FixtureRequest, config: Path) -> Front:
    """Each of the four ways to reach the module's gateway."""
    transport, mode = request.param
    gateway = request.getfixturevalue("http_gateway") if transport == "http" else None
    return Front(transport=transport, mode=mode, config=config, gateway=gateway)


@pytest.fixture(scope="module")
async def client(front: Front) -> AsyncIterator[Client]:
    """A client that the tests of a module share; each of its requests has a time limit."""
    async with front.connect(limit_s=None) as client:
        yield client
