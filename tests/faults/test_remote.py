"""Remote servers that go and come back: what a call through the gateway makes of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends.rig import HttpServer, eventually, http_server
from tests.faults.house import open_house

from maitred.errors import ServerError
from maitred.model.servers import State

pytestmark = pytest.mark.anyio

ERAS = [("http", "handshake"), ("http", "stateless"), ("sse", "handshake")]


@pytest.fixture(params=ERAS, ids="-".join)
def entry(request: pytest.FixtureRequest) -> Iterator[tuple[HttpServer, dict[str, object]]]:
    transport, era = request.param
    with http_server(transport) as server:
        yield server, {"url": server.url, "transport": transport, "era": era, "call_timeout_s": 60}


async def test_a_call_after_the_server_was_restarted_is_answered(
    entry: tuple[HttpServer, dict[str, object]], tmp_path: Path
) -> None:
    """The server has forgotten the session and refuses the call unread, so it is safe to send it again."""
    server, configured = entry
    async with open_house(tmp_path, {"s": configured}) as house:
        assert await house.text("s__echo", text="before") == "before"
        server.kill()
        server.start()
        if (
            configured["transport"] == "sse"
        ):  # its stream ends with the server, which a moment later is noticed
            await eventually(lambda: house.status().health.state != State.READY)
        assert await house.text("s__echo", text="after") == "after"


async def test_a_call_while_the_server_is_down_fails_soon_and_the_next_one_after_it_is_back_works(
    entry: tuple[HttpServer, dict[str, object]], tmp_path: Path
) -> None:
    server, configured = entry
    async with open_house(tmp_path, {"s": configured}) as house:
        assert await house.text("s__echo", text="before") == "before"
        port = server.close()
        with pytest.raises(ServerError) as caught:
            await house.call("s__echo", text="lost")
        assert "did not answer" not in str(caught.value), "a refused connection is no timeout"
        server.reopen(port)
        assert await house.text("s__echo", text="after") == "after"
