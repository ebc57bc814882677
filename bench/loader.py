"""Many HTTP clients in one process of their own, over sockets that stay open, with requests made beforehand.

Run as `python -m bench.loader`; reads a `Load` as JSON from standard input and prints a `Loaded`. Each client
asks at fixed times whatever the answers do (an open loop, as long as one answer comes before the next
question), and what is measured runs from the time at which it was to ask.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import count

_SEED = 11
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_LINGER_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Load:
    """What to ask of which port: `paths` in turn, each client every `every_s` at a phase of its own.

    What is asked in the first `warm_s` is left out.
    """

    port: int
    paths: Sequence[str]
    clients: int
    every_s: float
    warm_s: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Milliseconds of each answer, all that was asked, what was no 200, and the clients' processor time."""

    ms: list[float] = field(default_factory=list)
    asked: int = 0
    failed: int = 0
    cpu_s: float = 0.0


class _Client(asyncio.Protocol):
    """One connection, on which one request at a time is open."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._answer: asyncio.Future[bool] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever waits gets no answer any more."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(False)

    def data_received(self, data: bytes) -> None:
        """Wait until as many bytes are there as the head says."""
        self._held += data
        head = self._held.find(_END)
        if head < 0 or self._answer is None:
            return
        at = self._held.find(_LENGTH, 0, head) + len(_LENGTH)
        length = int(self._held[at : self._held.find(b"\r\n", at)])
        if len(self._held) >= head + len(_END) + length and not self._answer.done():
            self._answer.set_result(self._held.startswith(b"HTTP/1.1 200"))
            self._held.clear()

    async def ask(self, request: bytes) -> bool:
        """Whether the answer is 200."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer


async def run(load: Load) -> Loaded:
    """Put the load on the port."""
    host = f"127.0.0.1:{load.port}"
    requests = [f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for path in load.paths]
    turns = count()
    ms: list[float] = []
    failed = 0
    loop = asyncio.get_running_loop()
    rng = random.Random(_SEED)
    clients = [
        (await loop.create_connection(_Client, "127.0.0.1", load.port))[1] for _ in range(load.clients)
    ]
    used = time.process_time()
    start = loop.time() + 0.1

    async def one(client: _Client, at: float) -> None:
        nonlocal failed
        while at < start + load.warm_s + load.seconds:
            if (wait_s := at - loop.time()) > 0:
                await asyncio.sleep(wait_s)
            ok = await client.ask(requests[next(turns) % len(requests)])
            if not ok:
                failed += 1
            elif at >= start + load.warm_s:
                ms.append((loop.time() - at) * 1e3)
            at += load.every_s

    async with asyncio.timeout(load.warm_s + load.seconds + _LINGER_S), asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(one(client, start + rng.random() * load.every_s))
    return Loaded(ms=ms, asked=next(turns), failed=failed, cpu_s=time.process_time() - used)


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(run(Load(**json.loads(sys.stdin.read())))))))
