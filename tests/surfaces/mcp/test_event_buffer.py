"""The events of a session: what a client gets that comes back, and how much is stored at most."""

import json
from typing import Any

import anyio
import pytest

from maitred.surfaces.mcp.event_buffer import MOST_BYTES, MOST_EVENTS, EventMemory, SessionEvents, Stream

pytestmark = pytest.mark.anyio

SOON_S = 60.0


def note(text: str) -> bytes:
    return json.dumps({"method": "notifications/message", "params": {"data": text}}).encode()


def answer(number: int, text: str = "") -> bytes:
    return json.dumps({"id": number, "result": {"text": text}}).encode()


def change(events: SessionEvents, kind: str, uri: str = "") -> bytes:
    method = f"notifications/{kind}"
    text = json.dumps({"method": method, "params": {"uri": uri}}).encode()
    events.store(events.listening, text, method=method, uri=uri)
    return text


async def replay(events: SessionEvents, last: str, most: int = 1_000) -> list[bytes]:
    """What follows an event, up to the end of its stream or a number of messages."""
    got: list[bytes] = []
    with anyio.fail_after(SOON_S), anyio.CancelScope() as scope:

        async def send(text: bytes, _: str) -> None:
            got.append(text)
            if len(got) == most:
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        await events.follow(*found(events, last), send)
    return got


def found(events: SessionEvents, last: str) -> tuple[Stream, int]:
    position = events.position(last)
    assert isinstance(position, tuple), position
    return position


async def test_a_stream_is_replayed_alone_and_ends_with_its_answer() -> None:
    """Messages of other streams are not sent on it. Source: 2025-11-25, resumability."""
    events = EventMemory().open()
    mine, begin = events.begin()
    other, _ = events.begin()
    events.store(other, note("other"))
    events.store(mine, note("mine"))
    events.store(events.listening, note("all"))
    events.store_answer(mine, answer(1), 1)

    assert await replay(events, begin) == [note("mine"), answer(1)]


async def test_what_comes_during_a_replay_follows_it() -> None:
    """Nothing is lost between what was stored and what comes. Source: issue 17."""
    events = EventMemory().open()
    stream, begin = events.begin()
    events.store(stream, note("before"))
    got: list[bytes] = []

    async def send(text: bytes, _: str) -> None:
        got.append(text)
        if len(got) == 1:
            events.store(stream, note("during"))
            events.store_answer(stream, answer(1), 1)

    with anyio.fail_after(SOON_S):
        await events.follow(*found(events, begin), send)

    assert got == [note("before"), note("during"), answer(1)]


async def test_a_dropped_answer_is_an_error_that_says_so() -> None:
    """The client hears at once that no answer comes, with the id that it gave the request."""
    memory = EventMemory(most_bytes=1_000)
    events = memory.open()
    stream, begin = events.begin()
    events.store_answer(stream, answer(1, "x" * 2_000), 1)
    [lost] = await replay(events, begin)

    told: dict[str, Any] = json.loads(lost)
    assert told["id"] == 1
    assert "read what it changed before you send it again" in told["error"]["message"]
    assert memory.size == 0


async def test_dropped_notices_are_merged_and_none_is_lost() -> None:
    """Thousands of changes while a client is away are as many notices as there are lists and resources."""
    events = EventMemory().open()
    begin = events.listening_from
    for _ in range(3 * MOST_EVENTS):
        tools = change(events, "tools/list_changed")
        resource = change(events, "resources/updated", uri="a://a")
    for _ in range(MOST_EVENTS):
        events.store(events.listening, note("last"))

    assert await replay(events, begin, 3) == [tools, resource, note("last")]


async def test_a_session_stores_a_bounded_number_of_events_and_bytes() -> None:
    """The oldest go first; one event may be larger than the bound, so that a large answer is not lost."""
    memory = EventMemory()
    events = memory.open()
    for number in range(2 * MOST_EVENTS):
        events.store_answer(events.begin()[0], answer(number, "x" * 8_000), number)
    within = events.size
    stream, begin = events.begin()
    events.store_answer(stream, answer(-1, "x" * (2 * MOST_BYTES)), -1)

    assert within <= MOST_BYTES
    assert await replay(events, begin) == [answer(-1, "x" * (2 * MOST_BYTES))]
    events.close()
    assert memory.size == events.size == 0


async def test_all_sessions_together_are_bounded_and_the_largest_loses_first() -> None:
    """A session with much to send costs others nothing."""
    memory = EventMemory(most_bytes=100_000)
    small, large = memory.open(), memory.open()
    stream, begin = small.begin()
    small.store_answer(stream, answer(1, "kept"), 1)
    for number in range(50):
        large.store_answer(large.begin()[0], answer(number, "x" * 8_000), number)

    assert memory.size <= 100_000
    assert await replay(small, begin) == [answer(1, "kept")]


async def test_the_end_of_a_session_ends_its_streams() -> None:
    """No task waits for events that cannot come."""
    memory = EventMemory()
    events = memory.open()
    stream, begin = events.begin()
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:

            async def send(text: bytes, _: str) -> None:
                raise AssertionError(text)

            tasks.start_soon(events.follow, stream, 1, send)
            await anyio.wait_all_tasks_blocked()
            events.close()

    assert events.position(begin) == "unknown"


async def test_a_client_that_comes_back_twice_has_one_stream() -> None:
    """The later one takes the stream over; a message is sent on one of them. Source: 2025-11-25, streams."""
    events = EventMemory().open()
    stream, begin = events.begin()
    got: list[str] = []

    async def read(name: str) -> None:
        async def send(_: bytes, __: str) -> None:
            got.append(name)

        await events.follow(*found(events, begin), send)

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, "first")
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(read, "second")
            await anyio.wait_all_tasks_blocked()
            events.store_answer(stream, answer(1), 1)

    assert got == ["second"]
