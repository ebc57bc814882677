"""Chains: programs that make no call, one, or twenty, through maitred and through FastMCP's code mode.

Both gateways stand before an echo server of their own that answers at once, so that what is left is theirs.
All connections stay open; programs are sent in turn, each with a number of its own, so that none is answered
from memory. A plain `call_tool` of maitred, in the same rounds, is what a call inside is compared with.
"""

import gc
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio

from bench.calls import BACKENDS
from bench.clients import Connected, Front, connect_all
from bench.stage import CURRENT, Stage, discover
from bench.values import Failure, PeerError, Size, Spread, leaf, ratios, spread
from maitred.evaluation.metrics import percentile

INNER: Final = 20
OURS: Final = "maitred"
PEER: Final = "fastmcp code mode"
_BACKEND: Final = "echo"
_BASE: Final = 1_000_000
_DIRECT: Final = "call_tool"
_NONE, _ONE, _SEQUENTIAL, _PARALLEL = "no call", "one call", f"{INNER} sequential", f"{INNER} parallel"
_PROGRAMS: Final[Mapping[str, str]] = {
    _NONE: "return NUMBER + 1",
    _ONE: 'return await call_tool("TOOL", {"a": NUMBER, "b": 1})',
    _SEQUENTIAL: f"for _ in range({INNER}):\n"
    '    last = await call_tool("TOOL", {"a": NUMBER, "b": 1})\n'
    "return last",
    _PARALLEL: "import asyncio\n"
    f'made = [call_tool("TOOL", {{"a": NUMBER, "b": 1}}) for _ in range({INNER})]\n'
    "return (await asyncio.gather(*made))[-1]",
}


@dataclass(frozen=True, kw_only=True)
class _Amount:
    """How often each program runs in a round, through each gateway; `calls` are those without a chain."""

    rounds: int
    runs: int
    calls: int


_FULL: Final = _Amount(rounds=11, runs=8, calls=40)
_QUICK: Final = _Amount(rounds=3, runs=4, calls=20)


@dataclass(frozen=True, kw_only=True)
class Side:
    """What one gateway took; p95 is that of all runs of all rounds."""

    p50_ms: Spread
    p95_ms: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One program; the ratio is of both p50 within each round. No `peer` where it failed."""

    name: str
    ours: Side
    peer: Side | None
    ratio: Spread | None


@dataclass(frozen=True, kw_only=True)
class Chains:
    """All programs. `inner_ms` is what each of the sequential calls adds; `inner_ratio` is to `direct`."""

    rounds: int
    runs: int
    direct: Side
    inner_ms: Spread
    inner_ratio: Spread
    peer_inner_ms: Spread | None
    rows: Sequence[Row]
    failures: Sequence[Failure]


def measure(stage: Stage, size: Size) -> Chains:
    """Measure all programs through both."""
    return anyio.run(_measure, stage, _QUICK if size.quick else _FULL)


async def _measure(stage: Stage, amount: _Amount) -> Chains:
    taken = _Taken()
    async with connect_all(_fronts(stage), "sdk") as (connected, failures):
        peers = {one.front.name: one for one in connected}
        if OURS not in peers:
            raise PeerError(f"maitred could not be connected: {failures}")
        sender = _Sender(amount)
        for number in range(-1, amount.rounds):  # the first warms up
            names = list(peers) if number % 2 else list(reversed(peers))
            into = taken if number >= 0 else _Taken()
            gc.collect()
            into.add(OURS, _DIRECT, await sender.call(peers[OURS]))
            for what, name in itertools.product(_PROGRAMS, names):
                if name not in peers:
                    continue
                try:
                    into.add(name, what, await sender.run(peers[name], what))
                except Exception as error:
                    if name == OURS:
                        raise
                    failures.append(Failure(what=name, why=leaf(error)))
                    del peers[name]
    return _summary(taken, amount, failures, has_peer=PEER in peers)


def _fronts(stage: Stage) -> list[Front]:
    backend = BACKENDS[_BACKEND]
    servers = {backend.name: backend.command}
    config = stage.configure("chains", servers)
    discover(config, servers)
    proxy = stage.proxy("code", "chains", servers)
    return [
        Front(
            name=OURS, command=CURRENT.serve(config), tool="call_tool_chain", arguments={}, era="stateless"
        ),
        Front(name=PEER, command=proxy, tool="execute", arguments={}, era="stateless"),
    ]


class _Taken:
    """Milliseconds by gateway and program, one list a round."""

    def __init__(self) -> None:
        self._rounds: dict[tuple[str, str], list[list[float]]] = {}

    def add(self, peer: str, what: str, ms: list[float]) -> None:
        self._rounds.setdefault((peer, what), []).append(ms)

    def p50(self, peer: str, what: str) -> list[float]:
        return [percentile(ms, 0.5) for ms in self._rounds[peer, what]]

    def inner(self, peer: str) -> list[float]:
        """What each of the sequential calls adds to a program, by round."""
        pairs = zip(self.p50(peer, _SEQUENTIAL), self.p50(peer, _NONE), strict=True)
        return [(many - none) / INNER for many, none in pairs]

    def side(self, peer: str, what: str) -> Side:
        every = [ms for one in self._rounds[peer, what] for ms in one]
        return Side(p50_ms=spread(self.p50(peer, what)), p95_ms=percentile(every, 0.95))


class _Sender:
    """Sends programs and calls, each with a number of its own, and takes the time of each."""

    def __init__(self, amount: _Amount) -> None:
        self._amount = amount
        self._numbers = itertools.count(_BASE)

    async def call(self, peer: Connected) -> list[float]:
        """Call the tool without a chain."""
        backend = BACKENDS[_BACKEND]
        name = f"{backend.name}__{backend.tool}"
        numbers = itertools.islice(self._numbers, self._amount.calls)
        given = [(one, {"name": name, "arguments": {"a": one, "b": 1}}) for one in numbers]
        return [await _timed(peer, _DIRECT, arguments, one) for one, arguments in given]

    async def run(self, peer: Connected, what: str) -> list[float]:
        """Run one of the programs."""
        backend = BACKENDS[_BACKEND]
        tool = f"{backend.name}{'__' if peer.front.name == OURS else '_'}{backend.tool}"
        text = _PROGRAMS[what].replace("TOOL", tool)
        numbers = itertools.islice(self._numbers, self._amount.runs)
        given = [(one, {"code": text.replace("NUMBER", str(one))}) for one in numbers]
        return [await _timed(peer, peer.front.tool, arguments, one) for one, arguments in given]


async def _timed(peer: Connected, tool: str, arguments: dict[str, Any], number: int) -> float:
    """Milliseconds of one call to a gateway, whose answer must hold the sum."""
    started = time.perf_counter()
    text = await peer.ask(tool, arguments)
    ms = (time.perf_counter() - started) * 1e3
    if str(number + 1) not in text:
        raise PeerError(f"{tool} answers {text[:200]!r}, without {number + 1}")
    return ms


def _summary(taken: _Taken, amount: _Amount, failures: Sequence[Failure], *, has_peer: bool) -> Chains:
    inner = taken.inner(OURS)
    return Chains(
        rounds=amount.rounds,
        runs=amount.runs,
        direct=taken.side(OURS, _DIRECT),
        inner_ms=spread(inner),
        inner_ratio=ratios(inner, taken.p50(OURS, _DIRECT)),
        peer_inner_ms=spread(taken.inner(PEER)) if has_peer else None,
        rows=[
            Row(
                name=what,
                ours=taken.side(OURS, what),
                peer=taken.side(PEER, what) if has_peer else None,
                ratio=ratios(taken.p50(OURS, what), taken.p50(PEER, what)) if has_peer else None,
            )
            for what in _PROGRAMS
        ],
        failures=failures,
    )
