"""Log messages of a server: to whom they go, in which order, and what is masked in them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.support.callers import Answering

from maitred.backends.base import Caller
from maitred.backends.call_clock import CallClock
from maitred.backends.callers import CallersUnderWay
from maitred.backends.log_messages import LogMessages
from maitred.config.redaction import SECRETS
from maitred.model.log_levels import LEVELS, reaches

pytestmark = pytest.mark.anyio


class House:
    """A server's connection with callers that have requests under way."""

    def __init__(self) -> None:
        self.callers = CallersUnderWay("files", asks=False, on_ask=lambda: None, wait_s=1)
        self.logs = LogMessages("files", self.callers)

    @asynccontextmanager
    async def under_way(self, *callers: Caller) -> AsyncIterator[None]:
        requests = [self.callers.request(one, CallClock(60, 60)) for one in callers]
        for one in requests:
            await self.callers.enter(one)
        yield
        for one in requests:
            self.callers.leave(one)

    async def says(self, *levels: str, logger: str = "inner") -> None:
        for level in levels:
            self.logs.take({"level": level, "logger": logger, "data": f"a {level}"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.logs.run)
            await self.logs.delivered()
            tasks.cancel_scope.cancel()


def heard(caller: Answering) -> Sequence[str]:
    return [f"{one['level']} {one['logger']} {one['data']}" for one in caller.logs]


async def test_the_client_of_the_call_under_way_gets_what_its_level_lets_through_in_order() -> None:
    house, caller = House(), Answering(log_level="warning")
    async with house.under_way(caller):
        await house.says("debug", "error", "info", "warning")
    assert heard(caller) == ["error files/inner a error", "warning files/inner a warning"]


async def test_while_several_clients_have_calls_under_way_no_client_gets_a_message() -> None:
    """It may hold what is another client's, and nothing says whose it is."""
    house, one, other = House(), Answering(key="1", log_level="debug"), Answering(key="2", log_level="debug")
    async with house.under_way(one, other):
        await house.says("error")
    assert not one.logs
    assert not other.logs


async def test_a_message_outside_of_calls_goes_to_the_clients_that_have_used_the_connection() -> None:
    """Those of the stateless era have no stream for it."""
    house = House()
    one, other = Answering(key="1", log_level="debug"), Answering(key="2", log_level="error")
    stranger, stateless = Answering(key="3", log_level="debug"), Answering(key="4", log_level="debug")
    stateless.takes_rounds = True
    for caller in (one, other, stateless):
        async with house.under_way(caller):
            pass
    await house.says("info")
    assert [len(caller.logs) for caller in (one, other, stranger, stateless)] == [1, 0, 0, 0]


async def test_a_message_outside_of_calls_goes_to_no_client_if_several_principals_have_used_the_server() -> (
    None
):
    """It may hold what one principal sent."""
    house = House()
    ann = Answering(key="1", principal="ann", log_level="debug")
    bob = Answering(key="2", principal="bob", log_level="debug")
    for caller in (ann, bob):
        async with house.under_way(caller):
            pass
    await house.says("info")
    assert not ann.logs
    assert not bob.logs
    house.callers.forget("2")
    await house.says("info")
    assert [len(ann.logs), len(bob.logs)] == [1, 0]


async def test_known_secrets_are_masked_and_a_message_without_a_logger_has_the_server_as_logger() -> None:
    SECRETS.learn_launch([], {"API_TOKEN": "hunter2-hunter2"})
    house, caller = House(), Answering(log_level="debug")
    async with house.under_way(caller):
        house.logs.take({"level": "info", "data": {"url": "https://h/?t=hunter2-hunter2"}})
        await house.says()
    [message] = caller.logs
    assert message["logger"] == "files"
    assert "hunter2" not in str(message["data"])


@pytest.mark.parametrize("least", LEVELS)
def test_a_client_gets_its_own_level_and_all_that_are_more_severe(least: str) -> None:
    """Source: the specification, "Logging", with the order of RFC 5424."""
    got = [level for level in LEVELS if reaches(level, least)]
    assert got == list(LEVELS[LEVELS.index(least) :])


def test_a_client_without_a_level_gets_nothing() -> None:
    assert not reaches("emergency", "")
