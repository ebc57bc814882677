"""What a call costs: direct to a server, through a raw relay, through maitred, through its peers.

Every way has a process and a server of its own, and all connections stay open through all rounds. In each
round the ways take turns, in another order each time; ratios are taken within a round, so a slow
minute of the machine is slow for all.
"""

import gc
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio

from bench.clients import Connected, Front, Kind, connect_all
from bench.listening import free_port
from bench.packages import HOW, MCP_HUB, MCP_PROXY, Package
from bench.processes import all_cpu_s
from bench.stage import ROOT, Checkout, Command, Stage, discover
from bench.values import Failure, PeerError, Size, Spread, leaf, ratios, spread
from bench.wire import VERSIONS
from maitred.evaluation.metrics import percentile

DIRECT: Final = "direct"
FLOOR: Final = "raw line relay (the floor)"


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
        command=[sys.executable, "-I", "-S", str(ROOT / "tests/support/faulty_server.py"), "count-only"],
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
class Level:
    """Calls of one way in one round, so many at once. `cpu_ms` is what the gateway spends on a call."""

    parallel: int
    p50_ms: float
    p95_ms: float
    calls_per_s: float
    cpu_ms: float


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Calls of one way, so many at once: medians over the rounds, and ratios to direct within each round."""

    parallel: int
    p50_ms: float
    p95_ms: float
    calls_per_s: float
    cpu_ms: float
    p50_ratio: Spread
    throughput_ratio: Spread


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to make the call; `rounds` has the levels of each round."""

    name: str
    protocol_version: str
    levels: Sequence[Summary]
    rounds: Sequence[Sequence[Level]]


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A peer that is not installed, and how to install it."""

    name: str
    how: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All ways to one backend with one kind of client."""

    backend: str
    client: Kind
    ways: Sequence[Way]
    missing: Sequence[Missing]
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class Calls:
    """What was measured, and how much of it: `calls` a round by how many at once."""

    rounds: int
    calls: Mapping[int, int]
    comparisons: Sequence[Comparison]


def measure(stage: Stage, size: Size) -> Calls:
    """Compare all ways, for each backend with its client."""
    comparisons = []
    for name, kind in size.comparisons:
        fronts, missing = _fronts(stage, BACKENDS[name], size)
        try:
            comparisons.append(anyio.run(_compare, name, kind, fronts, missing, size))
        finally:
            for checkout in stage.checkouts if "shared" in size.links else ():
                checkout.stop(stage.folder / f"calls-{name}{checkout.suffix}.yaml")
    return Calls(rounds=size.rounds, calls=size.calls, comparisons=comparisons)


def _fronts(stage: Stage, backend: Backend, size: Size) -> tuple[list[Front], list[Missing]]:
    """Every way, and the peers that are not there."""
    relay = [sys.executable, "-I", "-S", str(ROOT / "bench" / "relay.py"), *backend.command]
    fronts = [
        _front(backend, DIRECT, backend.command, tool=backend.tool),
        _front(backend, FLOOR, relay, tool=backend.tool),
    ]
    for checkout in stage.checkouts:
        fronts += _own_fronts(stage, checkout, backend, size.links)
    servers = {backend.name: backend.command}
    name = f"calls-{backend.name}"
    for variant in size.variants:
        tool = f"{backend.name}_{backend.tool}"
        command = stage.proxy(variant, name, servers)
        fronts.append(_front(backend, f"fastmcp {variant}, stdio", command, tool=tool))
        for era in VERSIONS:
            port = free_port()
            command = stage.proxy(variant, name, servers, port)
            fronts.append(
                _front(
                    backend, f"fastmcp {variant}, HTTP", command, tool=tool, link="http", era=era, port=port
                )
            )
    peers = [_mcp_proxy(stage, backend), _mcp_hub(stage, backend)] if size.peers else []
    return (
        fronts + [one for one in peers if isinstance(one, Front)],
        [one for one in peers if isinstance(one, Missing)],
    )


def _front(backend: Backend, name: str, command: Command, *, tool: str, **more: Any) -> Front:
    arguments = more.pop("arguments", backend.arguments)
    server = () if name == DIRECT else backend.command
    return Front(name=name, command=command, tool=tool, arguments=arguments, server=server, **more)


def _own_fronts(stage: Stage, checkout: Checkout, backend: Backend, links: Sequence[str]) -> list[Front]:
    """The ways through maitred: alone, shared, and over HTTP in both eras, by `call_tool` as agents call."""
    servers = {backend.name: backend.command}
    config = stage.configure(f"calls-{backend.name}{checkout.suffix}", servers)
    discover(config, servers, checkout)
    through = {"name": f"{backend.name}__{backend.tool}", "arguments": backend.arguments}
    ways: list[tuple[str, Command, dict[str, Any]]] = [
        ("alone", checkout.serve(config), {}),
        ("shared", checkout.serve(config, shared=True), {}),
        *(("HTTP", checkout.serve_http(config), {"link": "http", "era": era}) for era in VERSIONS),
    ]
    return [
        _front(backend, f"{checkout.name}, {way}", command, tool="call_tool", arguments=through, **more)
        for way, command, more in ways
        if way in links
    ]


def _mcp_proxy(stage: Stage, backend: Backend) -> Front | Missing:
    if (program := MCP_PROXY.program(stage.peers)) is None:
        return _missing(MCP_PROXY)
    port = free_port()
    command = [str(program), "--port", str(port), "--log-level", "ERROR", "--", *backend.command]
    return _front(backend, "mcp-proxy, HTTP", command, tool=backend.tool, link="http", port=port)


def _mcp_hub(stage: Stage, backend: Backend) -> Front | Missing:
    if (program := MCP_HUB.program(stage.peers)) is None:
        return _missing(MCP_HUB)
    config = stage.folder / f"calls-{backend.name}-hub.json"
    command, *arguments = backend.command
    servers = {backend.name: {"command": command, "args": arguments}}
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    port = free_port()
    started = [str(program), "--port", str(port), "--config", str(config)]
    tool = f"{backend.name}__{backend.tool}"
    return _front(backend, "mcp-hub, SSE", started, tool=tool, link="sse", port=port)


def _missing(package: Package) -> Missing:
    return Missing(name=package.name, how=HOW)


async def _compare(
    backend: str, kind: Kind, fronts: Sequence[Front], missing: Sequence[Missing], size: Size
) -> Comparison:
    async with connect_all(fronts, kind) as (connected, failures):
        able = await _warm_up(connected, failures, size)
        taken: dict[int, list[list[Level]]] = {id(peer): [] for peer in able}
        for number in range(size.rounds):
            turn = number % max(len(able), 1)
            for peer in [*able[turn:], *able[:turn]]:
                try:
                    taken[id(peer)].append(await _round(peer, size))
                except Exception as error:  # noqa: BLE001  # whatever a peer fails with is reported
                    failures.append(Failure(what=peer.front.label, why=leaf(error)))
                    able = [other for other in able if other is not peer]
    if not able or able[0].front.name != DIRECT:
        raise PeerError(f"the direct connection to {backend!r} failed: {failures}")
    direct = taken[id(able[0])]
    ways = [_summary(peer, taken[id(peer)], direct) for peer in able]
    return Comparison(backend=backend, client=kind, ways=ways, missing=missing, failures=failures)


async def _warm_up(peers: Sequence[Connected], failures: list[Failure], size: Size) -> list[Connected]:
    """The peers that answer as the direct one does, apart from white space at the ends."""
    able: list[Connected] = []
    expected = ""
    for peer in peers:
        try:
            with anyio.fail_after(60):
                answers = {(await peer.call()).strip() for _ in range(size.warm_up_calls)}
                await _load(peer, max(size.calls), max(size.calls))
        except Exception as error:  # noqa: BLE001  # as above
            failures.append(Failure(what=peer.front.label, why=leaf(error)))
            continue
        answer = min(answers)
        expected = expected or answer
        if answer != expected:
            failures.append(
                Failure(what=peer.front.label, why=f"it answers {answer[:80]!r}, not {expected[:80]!r}")
            )
        else:
            able.append(peer)
    return able


async def _round(peer: Connected, size: Size) -> list[Level]:
    gc.collect()
    gateway = [] if peer.front.name == DIRECT else peer.gateway()
    levels = []
    for parallel, calls in size.calls.items():
        before, started = all_cpu_s(gateway), time.perf_counter()
        latencies = await _load(peer, calls, parallel)
        seconds, spent = time.perf_counter() - started, all_cpu_s(gateway) - before
        levels.append(
            Level(
                parallel=parallel,
                p50_ms=percentile(latencies, 0.5),
                p95_ms=percentile(latencies, 0.95),
                calls_per_s=calls / seconds,
                cpu_ms=spent * 1e3 / calls,
            )
        )
    return levels


async def _load(peer: Connected, calls: int, parallel: int) -> list[float]:
    """Make so many calls, always so many at once; the answer is the milliseconds of each."""
    left = iter(range(calls))
    latencies: list[float] = []

    async def work() -> None:
        for _ in left:
            started = time.perf_counter()
            await peer.call()
            latencies.append((time.perf_counter() - started) * 1e3)

    async with anyio.create_task_group() as tasks:
        for _ in range(parallel):
            tasks.start_soon(work)
    return latencies


def _summary(peer: Connected, rounds: Sequence[Sequence[Level]], direct: Sequence[Sequence[Level]]) -> Way:
    return Way(
        name=peer.front.name,
        protocol_version=peer.protocol_version,
        levels=[
            _level(own, other)
            for own, other in zip(zip(*rounds, strict=True), zip(*direct, strict=True), strict=True)
        ],
        rounds=rounds,
    )


def _level(own: Sequence[Level], direct: Sequence[Level]) -> Summary:
    return Summary(
        parallel=own[0].parallel,
        p50_ms=spread([one.p50_ms for one in own]).median,
        p95_ms=spread([one.p95_ms for one in own]).median,
        calls_per_s=spread([one.calls_per_s for one in own]).median,
        cpu_ms=spread([one.cpu_ms for one in own]).median,
        p50_ratio=ratios([one.p50_ms for one in own], [one.p50_ms for one in direct]),
        throughput_ratio=ratios([one.calls_per_s for one in own], [one.calls_per_s for one in direct]),
    )
