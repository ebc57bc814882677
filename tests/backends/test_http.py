"""Servers over HTTP that cannot be reached: what an operator is told. Restarts are in `tests/faults`."""

from collections.abc import Iterator

import anyio
import pytest
from tests.backends.rig import RESOLVE, SOON_S, HttpServer, call, http_server, options, text_of

from maitred.backends.base import NOT_ASKED, ConnectError
from maitred.backends.http import HttpBackend
from maitred.config.settings import Limits
from maitred.errors import ProtocolError, ServerError, UnreadableAnswerError
from maitred.model.servers import EraChoice, ServerSpec

pytestmark = pytest.mark.anyio

LONG_S = 120.0


def backend(url: str, transport: str = "http", **headers: str) -> HttpBackend:
    spec = ServerSpec(name="honest", transport=transport, url=url, headers=headers)
    return HttpBackend(spec, resolve=RESOLVE, limits=Limits())


async def reason(subject: HttpBackend, era: EraChoice = "auto") -> str:
    """Why a connection cannot be opened."""
    with anyio.fail_after(LONG_S), pytest.raises(ConnectError) as caught:
        async with subject.connect(options(era)):
            pass
    return str(caught.value)


@pytest.fixture
def refused_url() -> str:
    """An address where nobody listens."""
    server = HttpServer("http")
    server.close()
    return server.url


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("era", ["auto", "handshake", "stateless"])
async def test_a_server_that_is_not_there_is_reported_with_its_address(
    refused_url: str, transport: str, era: EraChoice
) -> None:
    told = await reason(backend(refused_url, transport), era)
    assert told.startswith(f"{refused_url} cannot be reached: ")
    assert len(told) > len(f"{refused_url} cannot be reached: ")


@pytest.mark.parametrize("value", ["s3same-0pen", "s3same 0pen/s3same", "s3same\n0pen"])
async def test_what_a_reference_in_a_url_stands_for_is_in_no_error(
    refused_url: str, plain: HttpServer, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Not where nobody listens, nor where nothing is there, nor where it makes no port."""
    monkeypatch.setenv("HONEST_TEST_TOKEN", value)
    wrong = plain.url.replace("/mcp", "/nothing")
    host = plain.url.rpartition(":")[0]
    urls = [f"{url}?key=${{HONEST_TEST_TOKEN}}" for url in (refused_url, wrong)]
    for url in (*urls, f"{host}:${{HONEST_TEST_TOKEN}}/mcp"):
        told = await reason(backend(url))
        assert told.startswith(url)
        assert "s3same" not in told
        assert "0pen" not in told


@pytest.fixture(scope="module", params=["http", "sse"])
def locked(request: pytest.FixtureRequest) -> Iterator[tuple[str, HttpServer]]:
    with http_server(request.param, token="open sesame") as server:
        yield request.param, server


async def test_a_locked_server_is_reported_with_what_to_do_and_opens_with_the_configured_header(
    locked: tuple[str, HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reference in a header is resolved when the connection opens. Source: issue "Foundation"."""
    transport, server = locked
    told = await reason(backend(server.url, transport))
    assert told == (
        f"{server.url} answered HTTP 401: it wants credentials; set servers.honest.auth to oauth and run"
        " `maitred login honest`, or set `headers` (for instance Authorization)"
    )
    subject = backend(server.url, transport, Authorization="Bearer ${HONEST_TEST_TOKEN}")
    told = await reason(subject)
    assert "HONEST_TEST_TOKEN" in told
    monkeypatch.setenv("HONEST_TEST_TOKEN", "open sesame")
    with anyio.fail_after(LONG_S):
        async with subject.connect(options()) as connection:
            result = await connection.call_tool(
                "echo", call("echo", text="in"), timeout_s=SOON_S, caller=NOT_ASKED
            )
    assert text_of(result) == "in"


@pytest.fixture(scope="module")
def plain() -> Iterator[HttpServer]:
    with http_server("http") as server:
        yield server


async def test_a_wrong_path_is_reported_as_such(plain: HttpServer) -> None:
    url = plain.url.replace("/mcp", "/nothing")
    assert (
        await reason(backend(url)) == f"{url} answered HTTP 404: there is nothing at this path; check `url`"
    )


async def test_the_wrong_transport_is_reported_with_the_one_to_try() -> None:
    """An `sse` server that is configured as `http` answers 405."""
    with http_server("sse") as server:
        assert await reason(backend(server.url)) == (
            f"{server.url} answered HTTP 405: it does not take POST; try `transport: sse`"
        )


async def test_an_answer_that_is_no_json_ends_its_call_at_once_and_is_called_so() -> None:
    """Source: issue "Nothing a server can do is lost", 6."""
    with http_server("http", age="garbled") as server, anyio.fail_after(LONG_S):
        async with backend(server.url).connect(options("stateless")) as connection:
            with pytest.raises(UnreadableAnswerError, match="its answer could not be read"):
                await connection.call_tool("echo", call("echo", text="in"), timeout_s=600, caller=NOT_ASKED)


async def test_a_server_that_answered_the_probe_with_404_has_not_forgotten_its_session() -> None:
    """An error of a tool must not pass for it later: the call would be made twice. Source: maitred."""
    told: list[type[ServerError]] = []
    with http_server("http", age="old") as server:
        with anyio.fail_after(LONG_S):
            async with backend(server.url).connect(options()) as connection:
                assert connection.facts.era == "handshake"
                for code in (-32600, -32001):
                    with pytest.raises(ServerError) as caught:
                        await connection.call_tool(
                            "refuse", call("refuse", code=code), timeout_s=SOON_S, caller=NOT_ASKED
                        )
                    told.append(caught.type)
    assert told == [ProtocolError, ProtocolError]
