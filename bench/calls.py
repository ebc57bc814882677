"""Call latency and throughput: direct to a server, through maitred, through FastMCP's proxy.

Every way has a process and a server of its own, and all connections stay open through all rounds. In each
round the ways take turns, in another order each time; ratios are taken within a round, so a slow
minute of the machine is slow for all.
"""

import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from bench.clients import Connected, Front, connect_all
from bench.processes import cpu_s
from bench.stage import ROOT, Command, Stage, discover, serve
from bench.values import Failure, PeerError, Size, Spread, leaf, ratios, spread
from maitred.evaluation.metrics import percentile

_WORKERS = 32
DIRECT = "direct"


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A real server and the call that is made on it."""

    name: str
    command: Command
    tool: str
    arguments: dict[str, Any]


BACKENDS = {
    "echo": Backend(
        name="echo",
        command=[sys.executable, "-I", "-S", str(ROOT / "tests/support/faulty_server.py"), "count"],
        tool="add",
        arguments={"a": 1, "b": 2},
    ),
    "time": Backend(
        name="time",
        command=[sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"],
        tool="convert_time",
        arguments={"source_timezone": "Europe/Paris", "time": "12:00", "target_timezone": "Asia/Tokyo"},
    ),
}


@dataclass(frozen=True, kw_only=True)
class Round:
    """One way in one round. `cpu_ms` is what the process talked to, not its server, spends on a call."""

    p50_ms: float
    p95_ms: float
    calls_per_s: float
    cpu_ms: float


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to make the call: medians over the rounds, and ratios to direct within each round."""

    name: str
    protocol_version: str
    p50_ms: float
    p95_ms: float
    calls_per_s: float
    cpu_ms: float
    p50_ratio: Spread
    p95_ratio: Spread
    throughput_ratio: Spread
    rounds: Sequence[Round]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All ways to one backend with a client of one era (`legacy`, or `auto` which prefers 2026-07-28)."""

    backend: str
    client_mode: str
    ways: Sequence[Way]
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class Calls:
    """What was measured, and how much of it."""

    rounds: int
    sequential_calls: int
    concurrent_calls: int
    workers: int
    comparisons: Sequence[Comparison]


def measure(stage: Stage, size: Size) -> Calls:
    """Compare all ways, for each backend and each era of the client."""
    comparisons = []
    for name in size.backends:
        fronts = _fronts(stage, BACKENDS[name], size.variants)
        comparisons += [anyio.run(_compare, name, mode, fronts, size) for mode in size.client_modes]
    return Calls(
        rounds=size.rounds,
        sequential_calls=size.sequential_calls,
        concurrent_calls=size.concurrent_calls,
        workers=_WORKERS,
        comparisons=comparisons,
    )


def _fronts(stage: Stage, backend: Backend, variants: Sequence[str]) -> list[Front]:
    servers = {backend.name: backend.command}
    config = stage.configure(f"calls-{backend.name}", servers)
    discover(config, servers)
    published = f"{backend.name}__{backend.tool}"
    through = {"name": published, "arguments": backend.arguments}
    proxied = [
        Front(
            name=f"fastmcp {variant}",
            command=stage.proxy(variant, f"calls-{backend.name}", servers),
            tool=f"{backend.name}_{backend.tool}",
            arguments=backend.arguments,
        )
        for variant in variants
    ]
    return [
        Front(name=DIRECT, command=backend.command, tool=backend.tool, arguments=backend.arguments),
        Front(name="maitred", command=serve(config), tool="call_tool", arguments=through),
        *proxied,
    ]


async def _compare(backend: str, mode: str, fronts: Sequence[Front], size: Size) -> Comparison:
    taken: dict[str, list[Round]] = {front.name: [] for front in fronts}
    async with connect_all(fronts, mode) as (connected, failures):
        able = await _warm_up(connected, failures, size)
        for number in range(size.rounds):
            turn = number % max(len(able), 1)
            for peer in [*able[turn:], *able[:turn]]:
                try:
                    taken[peer.front.name].append(await _round(peer, size))
                except Exception as error:  # noqa: BLE001  # whatever a peer fails with is reported
                    failures.append(Failure(what=peer.front.name, why=leaf(error)))
                    able = [other for other in able if other is not peer]
    direct = taken[DIRECT]
    if len(direct) < size.rounds:
        raise PeerError(f"the direct connection to {backend!r} failed: {failures}")
    ways = [
        _summary(peer, taken[peer.front.name], direct)
        for peer in connected
        if len(taken[peer.front.name]) == size.rounds
    ]
    return Comparison(backend=backend, client_mode=mode, ways=ways, failures=failures)


async def _warm_up(peers: Sequence[Connected], failures: list[Failure], size: Size) -> list[Connected]:
    """The peers that answer as the direct one does, apart from white space at the ends."""
    able: list[Connected] = []
    expected = ""
    for peer in peers:
        try:
            with anyio.fail_after(60):
                answers = {await peer.call() for _ in range(size.warm_up_calls)}
                await _concurrently(peer, _WORKERS)
        except Exception as error:  # noqa: BLE001  # as above
            failures.append(Failure(what=peer.front.name, why=leaf(error)))
            continue
        answer = min(answers)
        expected = expected or answer
        if answer != expected:
            failures.append(
                Failure(what=peer.front.name, why=f"it answers {answer[:80]!r}, not {expected[:80]!r}")
            )
        else:
            able.append(peer)
    return able


async def _round(peer: Connected, size: Size) -> Round:
    gc.collect()
    before = cpu_s(peer.pid)
    latencies = []
    for _ in range(size.sequential_calls):
        started = time.perf_counter()
        await peer.call()
        latencies.append((time.perf_counter() - started) * 1e3)
    started = time.perf_counter()
    await _concurrently(peer, size.concurrent_calls)
    seconds = time.perf_counter() - started
    spent = cpu_s(peer.pid) - before
    return Round(
        p50_ms=percentile(latencies, 0.5),
        p95_ms=percentile(latencies, 0.95),
        calls_per_s=size.concurrent_calls / seconds,
        cpu_ms=spent * 1e3 / (size.sequential_calls + size.concurrent_calls),
    )


async def _concurrently(peer: Connected, calls: int) -> None:
    """Make so many calls, always `_WORKERS` of them at once."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await peer.call()

    async with anyio.create_task_group() as tasks:
        for _ in range(_WORKERS):
            tasks.start_soon(work)


def _summary(peer: Connected, rounds: Sequence[Round], direct: Sequence[Round]) -> Way:
    return Way(
        name=peer.front.name,
        protocol_version=peer.protocol_version,
        p50_ms=spread([r.p50_ms for r in rounds]).median,
        p95_ms=spread([r.p95_ms for r in rounds]).median,
        calls_per_s=spread([r.calls_per_s for r in rounds]).median,
        cpu_ms=spread([r.cpu_ms for r in rounds]).median,
        p50_ratio=ratios([r.p50_ms for r in rounds], [d.p50_ms for d in direct]),
        p95_ratio=ratios([r.p95_ms for r in rounds], [d.p95_ms for d in direct]),
        throughput_ratio=ratios([r.calls_per_s for r in rounds], [d.calls_per_s for d in direct]),
        rounds=rounds,
    )
