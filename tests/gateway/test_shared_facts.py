"""Facts that several gateways share, where messages between them are lost."""

import anyio
import pytest

from maitred.gateway.shared_facts import Scope, SharedFacts
from maitred.storage.shared_state import MemoryState
from maitred.visibility.facts import Facts

pytestmark = pytest.mark.anyio

BEGUN = Facts(values={"open": False}, doubts={})
ANN: Scope = ("ann", "")


class LossyState(MemoryState):
    """A state whose messages are lost, as while a connection is made again."""

    async def publish(self, message: str) -> None:
        """Lose it."""

    def connect_again(self) -> None:
        """Say that messages may have been lost."""
        self._reset()


class Lists:
    """What hears of facts, as the lists of a gateway do."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.changed = anyio.Event()

    def hear(self, server: str, scope: Scope, said: object) -> None:
        self.heard.append((server, scope, said))
        self.changed.set()


async def test_facts_whose_message_was_lost_are_heard_of_once_messages_come_again() -> None:
    """Else a list would be out of date until the next call."""
    state, lists = LossyState(), Lists()
    one, other = SharedFacts(state, replica="one"), SharedFacts(state, replica="other")
    other.follow(lists.hear)
    assert await other.read("desk", ANN, BEGUN) == BEGUN
    await one.read("desk", ANN, BEGUN)
    assert await one.write("desk", ANN, Facts(values={"open": True}, doubts={}))
    assert lists.heard == []

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.run)
            state.connect_again()
            await lists.changed.wait()
            tasks.cancel_scope.cancel()

    assert lists.heard == [("desk", ANN, {"values": {"open": True}, "doubts": {}})]
