"""One server for all tests of a module, in each transport and era."""

import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.backends import honest_server
from tests.backends.rig import HONEST, RESOLVE, HttpServer, http_server, stdio
from tests.backends.subject import ERAS, Subject

from maitred.backends.http import HttpBackend
from maitred.backends.memory import MemoryBackend
from maitred.backends.process import Warden
from maitred.config.settings import Limits
from maitred.model.servers import ServerSpec


@pytest.fixture(scope="module")
def http() -> Iterator[HttpServer]:
    with http_server("http") as server:
        yield server


@pytest.fixture(scope="module")
def sse() -> Iterator[HttpServer]:
    with http_server("sse") as server:
        yield server


@pytest.fixture(scope="module", params=ERAS, ids="-".join)
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    transport, era = request.param
    warden = Warden()
    if transport in ("http", "sse"):
        server: HttpServer = request.getfixturevalue(transport)
        spec = ServerSpec(name=Subject.name, transport=transport, url=server.url)
        subject = Subject(lambda: HttpBackend(spec, resolve=RESOLVE, limits=Limits()), era)
    elif transport == "stdio":
        spec = ServerSpec(name=Subject.name, command=sys.executable, args=(str(HONEST), "stdio"))
        subject = Subject(lambda: stdio(spec, warden), era)
    else:
        spec = ServerSpec(name=Subject.name, transport="memory")
        subject = Subject(lambda: MemoryBackend(spec, honest_server.make_server()), era)
    async with subject.pool as pool:
        await pool.configure({spec.name: spec}, {spec.name: era})
        yield subject
    warden.close()
