"""Replicas on one PostgreSQL behind a load balancer: open sessions, calls at half load, calls a core.

The server is a program, which one replica runs; the others forward to it. So two of three calls go over two
replicas. Half load is half of the calls a second that callers without pauses get. The direct connection is
called meanwhile. FastMCP's proxy has the same callers, in one process, since it has no replicas.
"""

import asyncio
import base64
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.support.postgres import postgres_service

from bench.calls import BACKENDS
from bench.http_wire import HttpWire, connect_http
from bench.listening import free_port, listening
from bench.output import Output
from bench.processes import all_cpu_s, family, rss_mib
from bench.stage import CURRENT, ROOT, Stage
from bench.values import Failure, Size, leaf
from bench.wire import connect
from maitred.background import Background
from maitred.evaluation.metrics import percentile

REPLICAS: Final = 3
_CALLERS: Final = 16
_FIND_S, _QUICK_FIND_S = 10.0, 3.0
_AT_ONCE: Final = 20
_PEER_MINUTES: Final = 1.0
_ECHO: Final = BACKENDS["echo"]
_CALL: Final = ("call_tool", {"name": f"{_ECHO.name}__{_ECHO.tool}", "arguments": _ECHO.arguments})


@dataclass(frozen=True, kw_only=True)
class FleetLoad:
    """Calls of one way at half load; `most_per_s` is its full load, and `cpu_ms` what its processes use."""

    name: str
    processes: int
    sessions: int
    most_per_s: float
    per_s: float
    calls: int
    errors: int
    p50_ms: float
    p95_ms: float
    direct_p50_ms: float
    direct_p95_ms: float
    cpu_ms: float
    mib: float

    @property
    def per_core_s(self) -> float:
        """Calls that one core can make in a second."""
        return 1_000 / self.cpu_ms if self.cpu_ms else 0.0


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """What was measured, for how many minutes, and what failed."""

    minutes: float
    load_before: float
    ways: Sequence[FleetLoad]
    failures: Sequence[Failure]


def measure(stage: Stage, size: Size) -> Fleet:
    """Measure replicas, then the peer."""
    os.environ["MAITRED_KEY"] = base64.b64encode(b"k" * 32).decode()
    before = os.getloadavg()[0]
    ways, failures = [], []
    for name, run in {"maitred": _own, "fastmcp": _peer}.items():
        try:
            ways.append(asyncio.run(run(stage, size)))
        except Exception as error:  # noqa: BLE001  # whatever a way fails with is reported
            failures.append(Failure(what=name, why=leaf(error)))
    return Fleet(minutes=size.minutes, load_before=before, ways=ways, failures=failures)


async def _own(stage: Stage, size: Size) -> FleetLoad:
    with postgres_service() as postgres:
        config = stage.configure(
            "fleet",
            {_ECHO.name: _ECHO.command},
            catalog={"url": postgres.new_database()},
            http={"max_sessions": size.sessions + 100},
            isolation={"jail": "none"},
        )
        async with AsyncExitStack() as stack:
            commands = [CURRENT.serve_http(config)] * REPLICAS
            replicas = [await stack.enter_async_context(listening(command)) for command in commands]
            port = free_port()
            balancer = [str(CURRENT.python), str(ROOT / "bench" / "balancer.py"), str(port)]
            await stack.enter_async_context(
                listening([*balancer, *(str(one.port) for one in replicas)], port)
            )
            name = f"maitred, {REPLICAS} replicas"
            pids = [one.pid for one in replicas]
            return await _load(name, port, pids, _CALL, size, minutes=size.minutes)


async def _peer(stage: Stage, size: Size) -> FleetLoad:
    port = free_port()
    command = stage.proxy("shared", "fleet", {_ECHO.name: _ECHO.command}, port)
    async with listening(command, port) as program:
        call = (f"{_ECHO.name}_{_ECHO.tool}", dict(_ECHO.arguments))
        minutes = min(size.minutes, _PEER_MINUTES)
        return await _load("fastmcp shared", port, [program.pid], call, size, minutes=minutes)


async def _load(
    name: str, port: int, pids: Sequence[int], call: tuple[str, Any], size: Size, *, minutes: float
) -> FleetLoad:
    """Open sessions, find the full load, and call at half of it."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_open_sessions(port, size.sessions))
        wires = [
            await stack.enter_async_context(connect_http(port, "/mcp", "stateless")) for _ in range(_CALLERS)
        ]
        direct = await stack.enter_async_context(connect(_ECHO.command, "handshake"))
        await _ready(wires[0], call)
        find_s = _QUICK_FIND_S if size.quick else _FIND_S
        full = await _take(wires, call, seconds=find_s, per_s=0)
        most = len(full.taken) / find_s
        own = family(pids, without=_ECHO.command)
        cpu_before = all_cpu_s(own)
        both = await asyncio.gather(
            _take(wires, call, seconds=minutes * 60, per_s=most / 2),
            _take([direct], (_ECHO.tool, _ECHO.arguments), seconds=minutes * 60, per_s=20),
        )
        used_s, (half, beside) = all_cpu_s(own) - cpu_before, both
        return FleetLoad(
            name=name,
            processes=len(pids),
            sessions=size.sessions,
            most_per_s=most,
            per_s=len(half.taken) / (minutes * 60),
            calls=len(half.taken),
            errors=full.errors + half.errors,
            p50_ms=percentile(half.taken, 0.5),
            p95_ms=percentile(half.taken, 0.95),
            direct_p50_ms=percentile(beside.taken, 0.5),
            direct_p95_ms=percentile(beside.taken, 0.95),
            cpu_ms=1_000 * used_s / max(1, len(half.taken)),
            mib=sum(rss_mib(pid) for pid in pids),
        )


async def _ready(wire: Any, call: tuple[str, Any]) -> None:
    """Wait until the server's tools are known; a call of an unknown one is answered with an error."""
    async with asyncio.timeout(120):
        while (await wire.call(*call)).get("isError"):
            pass


class _Taken:
    """The milliseconds of each call, and how many failed."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.errors = 0


async def _take(wires: Sequence[Any], call: tuple[str, Any], *, seconds: float, per_s: float) -> _Taken:
    """Call for some seconds: without pauses, or so often a second; a late call waits for its caller."""
    found, begun = _Taken(), time.perf_counter()
    pause_s = len(wires) / per_s if per_s else 0.0

    async def work(number: int, wire: Any) -> None:
        due = begun + pause_s * number / len(wires)
        while (now := time.perf_counter()) < begun + seconds:
            if pause_s and now < due:
                await asyncio.sleep(due - now)
            started = time.perf_counter()
            try:
                failed = bool((await wire.call(*call)).get("isError"))
            except Exception:  # noqa: BLE001  # whatever a call fails with counts as an error
                failed = True
            found.errors += failed
            found.taken.append(1_000 * (time.perf_counter() - started))
            due = max(due + pause_s, started)

    await asyncio.gather(*(work(number, wire) for number, wire in enumerate(wires)))
    return found


@asynccontextmanager
async def _open_sessions(port: int, count: int) -> AsyncIterator[None]:
    """Sessions of the handshake era, each with its stream of notices on the connection of its handshake."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def hold(wire: HttpWire, opened: asyncio.Future[None]) -> None:
        try:
            async for _ in wire.notices():
                if not opened.done():
                    opened.set_result(None)
        except Exception as error:  # noqa: BLE001  # the task that opens them raises it
            if not opened.done():
                opened.set_exception(error)

    async def open_one(streams: Background) -> None:
        async with gate:
            wire = HttpWire(port, "/mcp", "handshake")
            await wire.open()
            opened = asyncio.get_running_loop().create_future()
            streams.start(hold, wire, opened)
            await opened

    async with Background() as streams:
        await asyncio.gather(*(open_one(streams) for _ in range(count)))
        yield


def show(out: Output, found: Fleet) -> None:
    """Print the table."""
    caption = (
        f"open sessions of the handshake era, and calls of {_CALLERS} callers of the stateless era at half of"
        f" full load for {found.minutes:g} minutes (the peer at most {_PEER_MINUTES:g}); overhead is the"
        f" difference to a direct connection; load of the machine before {found.load_before:.1f}"
    )
    rows = [
        (
            one.name, f"{one.sessions:,}", f"{one.most_per_s:.0f}", f"{one.per_s:.0f}", f"{one.calls:,}",
            str(one.errors), f"{one.direct_p50_ms:.2f} / {one.direct_p95_ms:.2f}",
            f"{one.p50_ms - one.direct_p50_ms:.2f} / {one.p95_ms - one.direct_p95_ms:.2f}",
            f"{one.cpu_ms:.2f}", f"{one.per_core_s:.0f}", f"{one.mib:.0f}",
        )
        for one in found.ways
    ]  # fmt: skip
    head = (
        "way", "sessions", "full load, calls/s", "half load, calls/s", "calls", "errors",
        "direct p50 / p95, ms", "overhead p50 / p95, ms", "CPU ms a call", "calls/s a core", "RSS, MiB",
    )  # fmt: skip
    out.table("a fleet of replicas", head, rows, caption)
