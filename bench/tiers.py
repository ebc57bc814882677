"""What the tiers cost over HTTP, beside a bare FastAPI route that answers as many constant bytes.

A real `maitred serve` over a catalog that was filled without starting a server, and the bare application in a
process of its own, take the same load in turn within each round. The clients are one more process
(`loader.py`): each asks every 100 ms, whatever the answers do.
"""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import quote
from urllib.request import urlopen

import anyio
from tests.support import corpus

from bench.listening import START_S, Program, listening
from bench.loader import Load, Loaded
from bench.processes import cpu_s
from bench.replicas import replicate, tools_of
from bench.stage import CURRENT, ROOT, Stage
from bench.values import Failure, Size, Spread, ratios, spread
from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import gateway_with_tools
from maitred.evaluation.metrics import percentile
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER

API: Final = "/api/v1"
CLIENTS: Final = 100
EVERY_S: Final = 0.1
_WARM_S: Final = 0.3
_SOON_S: Final = 600.0
_DETAILS: Final = 300
_SEED: Final = 5


@dataclass(frozen=True, kw_only=True)
class _Amount:
    tools: int
    rounds: int
    seconds: float


_FULL: Final = _Amount(tools=10_000, rounds=7, seconds=1.2)
_QUICK: Final = _Amount(tools=1_000, rounds=1, seconds=1.0)


@dataclass(frozen=True, kw_only=True)
class Side:
    """One program at one route, over the rounds; `cpu_ms` is what a request takes of its processor."""

    p50_ms: Spread
    p95_ms: Spread
    cpu_ms: float
    answers: int


@dataclass(frozen=True, kw_only=True)
class Tier:
    """A route: what maitred and the bare route took, and the ratio of their p95 within rounds."""

    name: str
    path: str
    bytes: int
    ours: Side
    bare: Side
    p95_ratio: Spread


@dataclass(frozen=True, kw_only=True)
class Tiers:
    """All routes. `failures` are answers that were no 200."""

    corpus: str
    tools: int
    servers: int
    rounds: int
    tiers: Sequence[Tier]
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class _Route:
    """What to ask: `paths` in turn, and in each round others where there are enough."""

    name: str
    paths: Sequence[str]
    size: int
    each_once: bool = False

    def of_round(self, number: int, rounds: int) -> Sequence[str]:
        share = len(self.paths) // rounds
        return self.paths[number * share : (number + 1) * share] if self.each_once else self.paths


def measure(stage: Stage, size: Size) -> Tiers:
    """Measure all routes."""
    return anyio.run(_measure, stage, _QUICK if size.quick else _FULL)


async def _measure(stage: Stage, amount: _Amount) -> Tiers:
    name, path = stage.definitions()
    tools = replicate(tools_of(corpus.read(path)), amount.tools)
    async with gateway_with_tools(tools, Search(mode="lexical")) as gateway:
        await await_categories(gateway)
        config = _configure(gateway, stage.folder / "tiers.yaml")
        serve = CURRENT.serve_http(config)
        async with listening(serve) as ours:
            routes = _routes(ours, gateway)
            bare_app = [sys.executable, "-m", "bench.bare", *(f"{one.name}={one.size}" for one in routes)]
            async with listening(bare_app) as bare:
                measured = [await _tier(route, ours, bare, amount) for route in routes]
        return Tiers(
            corpus=name,
            tools=len(gateway.snapshot.tools),
            servers=len(gateway.settings.servers),
            rounds=amount.rounds,
            tiers=[tier for tier, _ in measured],
            failures=[failure for _, found in measured for failure in found],
        )


async def await_categories(gateway: Gateway) -> None:
    """Wait until every tool is in a category, so that no other process has to put it there."""
    with anyio.fail_after(_SOON_S):
        while not gateway.snapshot.placed_by:
            news = anyio.Event()
            gateway.listen(lists=news.set, resource=lambda *_: None)
            if not gateway.snapshot.placed_by:
                await news.wait()


def _configure(gateway: Gateway, path: Path) -> Path:
    """A configuration for the catalog of a gateway; a program that is not there stands for each server."""
    servers = {name: {"command": spec.command} for name, spec in gateway.settings.servers.items()}
    catalog = {"path": gateway.settings.catalog.path}
    body = {"servers": servers, "catalog": catalog, "search": {"mode": "lexical"}}
    path.write_text(json.dumps(body), encoding="utf-8")  # JSON is YAML
    return path


def _routes(ours: Program, gateway: Gateway) -> list[_Route]:
    """The tiers: of T2 a page of the largest category, of T3 a few tools again and again, and many once."""
    largest = max(gateway.categories(LOCAL_USER).lines, key=lambda line: line.tools).category.name
    tools = random.Random(_SEED).sample(gateway.snapshot.tools, len(gateway.snapshot.tools))
    details = [f"{API}/tools/{quote(t.server, safe='')}/{quote(t.key.name, safe='')}" for t in tools]
    few, many = details[:_DETAILS], details[_DETAILS:]
    _get(ours, f"{API}/tools/search?q=read")  # waits for the index, which else is built meanwhile
    one = [
        ("T0", [f"{API}/tools/hot"]),
        ("T1", [f"{API}/tools/categories"]),
        ("T2", [f"{API}/tools/category/{largest}"]),
        ("T3", few),
    ]
    routes = [_Route(name=name, paths=paths, size=_size(ours, paths)) for name, paths in one]
    return [*routes, _Route(name="T3-first", paths=many, size=routes[-1].size, each_once=True)]


def _size(program: Program, paths: Sequence[str]) -> int:
    """How long an answer is in the middle."""
    return int(median(len(_get(program, path)) for path in paths))


def _get(program: Program, path: str) -> bytes:
    with urlopen(f"http://127.0.0.1:{program.port}{path}", timeout=START_S) as answer:
        body: bytes = answer.read()
        return body


async def _tier(route: _Route, ours: Program, bare: Program, amount: _Amount) -> tuple[Tier, list[Failure]]:
    """Measure a route, maitred and the bare one in turn."""
    taken: list[tuple[_Taken, _Taken]] = []
    for number in range(amount.rounds):
        paths = route.of_round(number, amount.rounds)
        mine = await _load(ours, paths, amount)
        taken.append((mine, await _load(bare, [f"/{route.name}"], amount)))
    mine_all, bare_all = [pair[0] for pair in taken], [pair[1] for pair in taken]
    failed = sum(one.loaded.failed for pair in taken for one in pair)
    tier = Tier(
        name=route.name,
        path=route.paths[0],
        bytes=route.size,
        ours=_side(mine_all),
        bare=_side(bare_all),
        p95_ratio=ratios([one.at(0.95) for one in mine_all], [one.at(0.95) for one in bare_all]),
    )
    return tier, [
        Failure(what=f"maitred {route.name}", why=f"{failed} answers were no 200")
    ] if failed else []


@dataclass(frozen=True, kw_only=True)
class _Taken:
    loaded: Loaded
    cpu_s: float

    def at(self, share: float) -> float:
        return percentile(self.loaded.ms, share)


async def _load(program: Program, paths: Sequence[str], amount: _Amount) -> _Taken:
    load = Load(
        port=program.port,
        paths=paths,
        clients=CLIENTS,
        every_s=EVERY_S,
        warm_s=_WARM_S,
        seconds=amount.seconds,
    )
    used = cpu_s(program.pid)
    done = await anyio.run_process(
        [sys.executable, "-m", "bench.loader"], input=json.dumps(asdict(load)).encode(), cwd=ROOT
    )
    return _Taken(loaded=Loaded(**json.loads(done.stdout)), cpu_s=cpu_s(program.pid) - used)


def _side(taken: Sequence[_Taken]) -> Side:
    asked = sum(one.loaded.asked for one in taken)
    return Side(
        p50_ms=spread([one.at(0.5) for one in taken]),
        p95_ms=spread([one.at(0.95) for one in taken]),
        cpu_ms=sum(one.cpu_s for one in taken) / max(asked, 1) * 1e3,
        answers=sum(len(one.loaded.ms) for one in taken),
    )
