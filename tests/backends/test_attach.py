"""The frames of a container's streams are taken apart, however they are cut."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream
from hypothesis import given
from hypothesis import strategies as st

from maitred.backends.isolation.streams import Streams, attach_socket
from maitred.backends.process import Tail

pytestmark = pytest.mark.anyio


def frame(stream: int, payload: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    for start, end in pairwise(sorted({0, len(data), *(place % (len(data) + 1) for place in places)})):
        yield data[start:end]


@given(
    frames=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=10),
    places=st.lists(st.integers(min_value=0, max_value=1000), max_size=20),
)
async def test_each_stream_is_whole_wherever_the_bytes_are_cut(
    frames: list[tuple[int, bytes]], places: list[int]
) -> None:
    """Headers and empty frames included."""
    said: list[bytes] = []
    tail = Tail()
    streams = Streams(on_stdout=said.append, tail=tail, rate=10**9)
    for piece in cut(b"".join(frame(*one) for one in frames), places):
        streams.data_received(piece)
    errors = Tail()
    errors.feed(b"".join(payload for stream, payload in frames if stream == 2))

    assert b"".join(said) == b"".join(payload for stream, payload in frames if stream == 1)
    assert tail.lines() == errors.lines()


@asynccontextmanager
async def pair(
    rate: int,
) -> AsyncIterator[tuple[Streams, socket.socket, MemoryObjectReceiveStream[bytes], Tail]]:
    """Streams over one end of a pair of sockets; the other end, and what came."""
    ours, engine = socket.socketpair()
    came, said = anyio.create_memory_object_stream[bytes](100)
    tail = Tail()
    streams = Streams(on_stdout=came.send_nowait, tail=tail, rate=rate)
    engine.setblocking(False)
    with engine, came, said:
        await attach_socket(ours, streams)
        yield streams, engine, said, tail
        streams.close()
        await streams.ended.wait()


async def test_whoever_writes_hears_that_the_container_reads_nothing() -> None:
    """And goes on as soon as it ends; then nothing can be written any more."""
    async with pair(10**9) as (streams, engine, _, _):
        behind = streams.write(b"x" * 10_000_000)
        assert behind is not None
        assert not behind.is_set()
        engine.close()
        with anyio.fail_after(120):
            await behind.wait()
        with pytest.raises(BrokenPipeError):
            streams.write(b"x")


async def test_a_container_that_writes_too_fast_waits() -> None:
    """Its bytes stay where they are until it is time."""
    async with pair(1000) as (_, engine, said, _):
        engine.sendall(frame(1, b"x" * 1500))
        with anyio.fail_after(120):
            assert await said.receive() == b"x" * 1500
            engine.sendall(frame(1, b"late"))
            started = anyio.current_time()
            assert await said.receive() == b"late"

        assert anyio.current_time() - started > 0.3


async def test_what_is_no_stream_of_a_container_ends_it() -> None:
    """As when something else answers at the engine's address."""
    async with pair(10**9) as (streams, engine, said, tail):
        engine.sendall(b"HTTP/1.1 500 Oops\r\n\r\n")
        with anyio.fail_after(120):
            await streams.ended.wait()

        assert said.statistics().current_buffer_used == 0
        assert tail.lines() == ["the engine sent what is no stream of a container"]
