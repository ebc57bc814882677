"""The events of a session: what a client gets that comes back, and how much is stored at most."""

from typing import Any

import anyio
import pytest
from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCResponse

from maitred.surfaces.mcp.event_buffer import MOST_BYTES, MOST_EVENTS, EventMemory, SessionEvents

pytestmark = pytest.mark.anyio

SOON_S = 60.0


def note(text: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": text})


def change(kind: str, **params: Any) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{kind}", params=params)


def answer(number: int, text: str = "") -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=number, result={"text": text})


async def replay(events: SessionEvents, last: str, most: int = 1_000) -> list[JSONRPCMessage]:
    """What follows an event, up to the end of its stream or a number of messages."""
    got: list[JSONRPCMessage] = []
    with anyio.fail_after(SOON_S), anyio.CancelScope() as scope:

        async def send(event: EventMessage) -> None:
            got.append(event.message)
            if len(got) == most:
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        assert await events.replay_events_after(last, send) is None
    return got


async def test_a_stream_is_replayed_alone_and_ends_with_its_answer() -> None:
    """Messages of other streams are not sent on it. Source: 2025-11-25, resumability."""
    events = EventMemory().open()
    begin = await events.store_event("1", None)
    await events.store_event("2", note("other"))
    await events.store_event("1", note("mine"))
    await events.store_event(GET_STREAM_KEY, note("all"))
    await events.store_event("1", answer(1))

    assert await replay(events, begin) == [note("mine"), answer(1)]


async def test_what_comes_during_a_replay_follows_it() -> None:
    """Nothing is lost between what was stored and what comes. Source: issue 17."""
    events = EventMemory().open()
    begin = await events.store_event("1", None)
    await events.store_event("1", note("before"))
    got: list[JSONRPCMessage] = []

    async def send(event: EventMessage) -> None:
        got.append(event.message)
        if len(got) == 1:
            await events.store_event("1", note("during"))
            await events.store_event("1", answer(1))

    with anyio.fail_after(SOON_S):
        await events.replay_events_after(begin, send)

    assert got == [note("before"), note("during"), answer(1)]


async def test_a_dropped_answer_is_an_error_that_says_so() -> None:
    """The client hears at once that no answer comes, with the id that it gave the request."""
    memory = EventMemory(most_bytes=1_000)
    events = memory.open()
    begin = await events.store_event("1", None)
    await events.store_event("1", answer(1, "x" * 2_000))
    [lost] = await replay(events, begin)

    assert isinstance(lost, JSONRPCError)
    assert lost.id == 1
    assert "read what it changed before you send it again" in lost.error.message
    assert memory.size == 0


async def test_dropped_notices_are_merged_and_none_is_lost() -> None:
    """Thousands of changes while a client is away are as many notices as there are lists and resources."""
    events = EventMemory().open()
    begin = events.listening_from
    for _ in range(3 * MOST_EVENTS):
        await events.store_event(GET_STREAM_KEY, change("tools/list_changed"))
        await events.store_event(GET_STREAM_KEY, change("resources/updated", uri="a://a"))
    for _ in range(MOST_EVENTS):
        await events.store_event(GET_STREAM_KEY, note("last"))

    assert await replay(events, begin, 3) == [
        change("tools/list_changed"),
        change("resources/updated", uri="a://a"),
        note("last"),
    ]


async def test_a_session_stores_a_bounded_number_of_events_and_bytes() -> None:
    """The oldest go first; one event may be larger than the bound, so that a large answer is not lost."""
    memory = EventMemory()
    events = memory.open()
    for number in range(2 * MOST_EVENTS):
        await events.store_event(str(number), answer(number, "x" * 8_000))
    within = events.size
    begin = await events.store_event("large", None)
    await events.store_event("large", answer(-1, "x" * (2 * MOST_BYTES)))

    assert within <= MOST_BYTES
    assert await replay(events, begin) == [answer(-1, "x" * (2 * MOST_BYTES))]
    events.close()
    assert memory.size == events.size == 0


async def test_all_sessions_together_are_bounded_and_the_largest_loses_first() -> None:
    """A session with much to send costs others nothing."""
    memory = EventMemory(most_bytes=100_000)
    small, large = memory.open(), memory.open()
    begin = await small.store_event("1", None)
    await small.store_event("1", answer(1, "kept"))
    for number in range(50):
        await large.store_event(str(number), answer(number, "x" * 8_000))

    assert memory.size <= 100_000
    assert await replay(small, begin) == [answer(1, "kept")]


async def test_the_end_of_a_session_ends_its_streams() -> None:
    """No task waits for events that cannot come."""
    memory = EventMemory()
    events = memory.open()
    begin = await events.store_event("1", None)
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:

            async def send(event: EventMessage) -> None:
                raise AssertionError(event)

            tasks.start_soon(events.replay_events_after, begin, send)
            await anyio.wait_all_tasks_blocked()
            events.close()

    assert events.position(begin) == ("unknown", "")


async def test_a_client_that_comes_back_twice_has_one_stream() -> None:
    """The later one takes the stream over; a message is sent on one of them. Source: 2025-11-25, streams."""
    events = EventMemory().open()
    begin = await events.store_event("1", None)
    got: list[str] = []

    async def read(name: str) -> None:
        async def send(_: EventMessage) -> None:
            got.append(name)

        await events.replay_events_after(begin, send)

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, "first")
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(read, "second")
            await anyio.wait_all_tasks_blocked()
            await events.store_event("1", answer(1))

    assert got == ["second"]
