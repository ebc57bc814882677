"""One server for all tests of a module, in each transport and era."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
from tests.backends import honest_server
from tests.backends.container_rig import Rig
from tests.backends.oauth_rig import NAME
from tests.backends.rig import HONEST, RESOLVE, HttpServer, http_server, stdio
from tests.backends.subject import ERAS, Subject
from tests.catalog.databases import key_beside
from tests.catalog.makers import open_store
from tests.support import prefork
from tests.support.oauth_house import OAuthHouse, few_certificates, oauth_house
from tests.support.podman import Podman

from maitred.backends.http import HttpBackend
from maitred.backends.memory import MemoryBackend
from maitred.backends.oauth.client import LoginTarget
from maitred.backends.oauth.vault import Vault
from maitred.backends.process import Warden
from maitred.config.settings import Limits
from maitred.model.servers import OAuth, ServerSpec
from maitred.storage.sqlite import SqliteDatabase
from maitred.wiring import make_guarded


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
        program, *args = prefork.script(HONEST, "stdio")
        spec = ServerSpec(name=Subject.name, command=program, args=tuple(args))
        subject = Subject(lambda: stdio(spec, warden), era)
    elif transport != "memory":
        pytest.fail(f"no server of the transport {transport!r} is made here; add it")
    else:
        spec = ServerSpec(name=Subject.name, transport="memory")
        subject = Subject(lambda: MemoryBackend(spec, honest_server.make_server()), era)
    async with subject.pool as pool:
        await pool.configure({spec.name: spec}, {spec.name: era})
        yield subject
    warden.close()


@pytest.fixture(scope="module")
def building() -> Iterator[OAuthHouse]:
    with oauth_house() as house:
        yield house


@pytest.fixture
def house(
    building: OAuthHouse, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> OAuthHouse:
    """An authorization server that knows nobody, and the server that it guards."""
    building.reset()
    monkeypatch.setenv("SSL_CERT_FILE", str(few_certificates(tmp_path_factory.getbasetemp())))
    return building


@pytest.fixture(scope="session")
def empty_catalog(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A catalog that was just made."""
    path = tmp_path_factory.mktemp("empty") / "catalog.db"

    async def make() -> None:
        async with open_store(path):
            pass

    anyio.run(make)
    return path.read_bytes()


@pytest.fixture
def access(house: OAuthHouse, empty_catalog: bytes, tmp_path: Path) -> LoginTarget:
    """How the guarded server is got into, with a vault of its own."""
    (tmp_path / "catalog.db").write_bytes(empty_catalog)
    spec = ServerSpec(name=NAME, transport="http", url=house.url, auth=OAuth())
    return LoginTarget(
        spec=spec,
        resolve=RESOLVE,
        store=Vault(SqliteDatabase(tmp_path / "catalog.db"), key_beside(tmp_path / "catalog.db")),
        make_transport=lambda: make_guarded(spec),
    )


@pytest.fixture
def rig(podman: Podman) -> Iterator[Rig]:
    """Backends of containers."""
    rig = Rig(podman)
    yield rig
    rig.close()
