"""What a call within a chain can do with the chain's client."""

import pytest
from tests.support.callers import Answering

from maitred.chains.caller import ChainCaller
from maitred.model.asking import LIST_ROOTS

pytestmark = pytest.mark.anyio


async def test_the_client_of_a_chain_answers_what_servers_inside_ask() -> None:
    """It gets questions and log messages; the progress that it awaits is that of the chain."""
    client = Answering({LIST_ROOTS: {"roots": []}}, log_level="info")
    inside = ChainCaller(client)

    answer = await inside.ask(LIST_ROOTS, {})
    await inside.log({"level": "info", "data": "hello"})
    await inside.progress(1, 2, "half")

    assert (answer, client.asked) == ({"roots": []}, [(LIST_ROOTS, {})])
    assert (client.logs, client.reports) == ([{"level": "info", "data": "hello"}], [])
    assert (inside.key, inside.capabilities, inside.log_level) == (client.key, client.capabilities, "info")
    assert not inside.wants_progress
    assert not inside.takes_rounds
