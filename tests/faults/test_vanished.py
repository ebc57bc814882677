"""Servers that vanish while nobody calls them: their tools leave the lists once, and come back once."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends.rig import HttpServer, eventually, http_server
from tests.faults.house import House, faulty, open_house

from maitred.errors import ServerError
from maitred.model.access import LOCAL_USER
from maitred.model.servers import State

pytestmark = pytest.mark.anyio

CHECKED = {"check_every_s": 0.1}
ERAS = [("http", "handshake"), ("http", "stateless"), ("sse", "handshake")]
OFTEN = 6


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maitred.backends.supervision.FIRST_DELAY_S", 0.02)


@pytest.fixture(params=ERAS, ids="-".join)
def entry(request: pytest.FixtureRequest) -> Iterator[tuple[HttpServer, dict[str, object]]]:
    transport, era = request.param
    with http_server(transport) as server:
        yield server, {"url": server.url, "transport": transport, "era": era}


class Lists:
    """Counts how often clients are told that their lists changed."""

    def __init__(self, house: House) -> None:
        self.told = 0
        self._house = house
        house.gateway.listen(lists=self._tell, resource=lambda *_: None)

    def _tell(self) -> None:
        self.told += 1

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self._house.gateway.visible_tools(LOCAL_USER)]


async def test_the_tools_of_a_remote_server_that_vanished_go_once_and_come_back_once(
    entry: tuple[HttpServer, dict[str, object]], tmp_path: Path
) -> None:
    """No call is needed to find out, and failed trials are no news. Source: document 001."""
    server, configured = entry
    async with open_house(tmp_path, {"s": configured}, serves=True, supervision=CHECKED) as house:
        lists = Lists(house)
        before = lists.names
        assert before
        port = server.close()
        await eventually(lambda: not lists.names)
        await eventually(lambda: house.status().health.failures >= OFTEN)
        assert (lists.names, lists.told) == ([], 1)
        assert "cannot be reached" in house.status().withheld
        server.reopen(port)
        await eventually(lambda: lists.names == before)
        assert lists.told == 2
        assert await house.text("s__echo", text="back") == "back"


async def test_a_search_tells_of_a_server_that_never_ran_however_often_it_failed(tmp_path: Path) -> None:
    """Its tools are unknown, so nothing of it can be withheld; it is never silently missing."""
    entry = {"command": str(tmp_path / "missing"), "start": "always"}
    async with open_house(tmp_path, {"s": entry}, serves=True) as house:
        await eventually(lambda: house.status().health.failures >= OFTEN)
        answer = await house.gateway.search(["echo"], viewer=LOCAL_USER)
        assert "Not searched: s (not known yet" in answer.text


async def test_a_program_that_vanished_is_tried_again_until_it_runs_and_is_not_suspended_for_that(
    tmp_path: Path,
) -> None:
    """It is started for calls only, so nobody would find out that it works again."""
    program = tmp_path / "python"
    program.symlink_to(sys.executable)
    entry = faulty("die-in-call", command=str(program))
    async with open_house(tmp_path, {"s": entry}, serves=True) as house:
        lists = Lists(house)
        before = lists.names
        program.unlink()
        program.write_text("#!/bin/sh\nexit 3\n")
        program.chmod(0o755)
        with pytest.raises(ServerError):
            await house.call("s__fault")
        await eventually(lambda: house.status().health.failures >= OFTEN + 2)
        assert (lists.names, lists.told) == ([], 1)
        assert house.status().health.state in (State.FAILED, State.STARTING)
        program.unlink()
        program.symlink_to(sys.executable)
        await eventually(lambda: lists.names == before)
        assert lists.told == 2
