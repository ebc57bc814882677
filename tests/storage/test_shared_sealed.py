"""The store is not trusted: who has it learns nothing of what gateways share, and forges nothing."""

import pytest

from maitred.storage.shared_sealed import SealedState
from maitred.storage.shared_state import MOST_MESSAGE_BYTES, MOST_SEALED_BYTES, MemoryState

pytestmark = pytest.mark.anyio

KEY = b"k" * 32
MINUTE = 60.0
SECRET = '["session", "r1", "send", "1.id.of.a.session", {"password": "hunter2"}, ""]'


class Hearer:
    """What one process, or who listens at the store itself, hears; a text `fault` cannot be understood."""

    def __init__(self, state: MemoryState | SealedState) -> None:
        self.state = state
        self.messages: list[str] = []
        state.listen(self.heard, self.reset)

    def heard(self, message: str) -> None:
        if message == "fault":
            raise KeyError(4)
        self.messages.append(message)

    def reset(self) -> None:
        return


async def test_who_listens_at_the_store_hears_and_forges_nothing() -> None:
    """A forged, a replayed and an old message reach nobody; the sealed text shows no word of it."""
    store = MemoryState()
    at_store = Hearer(store)
    now = [1_000.0]
    process = Hearer(SealedState(store, lambda: KEY, clock=lambda: now[0]))
    sender = SealedState(store, lambda: KEY, clock=lambda: now[0])
    await sender.publish(SECRET)
    assert process.messages == [SECRET]
    (sealed,) = at_store.messages
    assert "hunter2" not in sealed
    assert "session" not in sealed
    for forged in (SECRET, '["session", 2]', "", "é", sealed, sealed[:-2], f"{sealed}00"):
        await store.publish(forged)
    await SealedState(store, lambda: b"x" * 32, clock=lambda: now[0]).publish(SECRET)
    now[0] += 3_600
    await SealedState(store, lambda: KEY, clock=lambda: 1_000.0).publish(SECRET)
    assert process.messages == [SECRET]


async def test_a_message_that_is_not_understood_ends_nothing() -> None:
    store = MemoryState()
    hearers = [Hearer(SealedState(store, lambda: KEY)) for _ in range(2)]
    sender = SealedState(store, lambda: KEY)
    await sender.publish("fault")
    await sender.publish("next")
    assert [one.messages for one in hearers] == [["next"]] * 2


async def test_the_longest_message_fits_into_the_store() -> None:
    store = MemoryState()
    at_store = Hearer(store)
    await SealedState(store, lambda: KEY).publish("x" * MOST_MESSAGE_BYTES)
    assert len(at_store.messages[0]) <= MOST_SEALED_BYTES


async def test_values_are_not_readable_and_a_changed_or_moved_one_counts_as_none() -> None:
    store = MemoryState()
    state = SealedState(store, lambda: KEY)
    await state.put("session:1.id", b"capabilities of ann", MINUTE)
    await state.put("session:2.id", b"other", MINUTE)
    (place, (sealed, _)), (other, _) = store._values.items()
    assert place.startswith("session:")
    assert "1.id" not in place
    assert b"ann" not in sealed
    await store.put(other, sealed, MINUTE)
    await store.put(place, b"forged", MINUTE)
    assert await state.get("session:1.id") is None
    assert await state.get("session:2.id") is None
