"""Servers are killed under their clients; the bench of the same name, smaller and in one process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from bench import churn
from bench.churn import ANSWER, SECTIONS, Plan, concluded, servers_of
from tests.faults.house import House, settings_for

from maitred.errors import ServerError
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

PLAN = Plan(clients=20, servers=8, seconds=6.0, kill_every_s=0.5, pause_s=0.2, fewest_kills=8)


class Here:
    """A gateway in this process; its clients are tasks."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def ask(self, client: int, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        try:
            return ANSWER, await self._house.text(tool, **arguments)
        except ServerError as error:
            return error.code, str(error)

    async def state(self, server: str) -> Mapping[str, Any]:
        status = self._house.status(server)
        return status.to_json() | {"starts": status.health.starts}


async def test_every_call_ends_with_its_answer_or_a_clear_error_while_servers_are_killed(
    tmp_path: Path,
) -> None:
    """None is lost or late, no server runs twice, and in the end all run that should, and then none.

    Between its kill and its first answer a server may refuse; how long that is, is a matter of the machine.
    """
    settings = settings_for(tmp_path, servers_of(PLAN), **SECTIONS)
    with anyio.fail_after(120):
        async with open_gateway(settings, serves=True) as gateway:
            house = House(gateway)
            await house.known()
            found = await churn.churn(PLAN, Here(house))
    found = concluded(found, [process for _, process in churn.running()])
    print(found)  # noqa: T201  # the figures for the closing note
    assert found.failures == []
    assert found.unexplained == 0
    assert found.ended[ANSWER] > found.asked / 2
    assert found.ended.keys() <= {ANSWER, "connection_lost", "server_unavailable"}
