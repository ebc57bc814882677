"""How often a page of the menu is in the cache of the HTTP API, by the gateway's own metrics.

A real `maitred serve` before replayed servers. One reader prefers some pages over others, and the
configuration is edited now and then, which empties the cache.
"""

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote
from urllib.request import urlopen

import anyio
from anyio import to_thread
from tests.support import corpus

from bench.listening import START_S, Program, listening
from bench.stage import CURRENT, Stage
from bench.values import Size

API: Final = "/api/v1"
EDITS: Final = 10
_SERVERS: Final = 20
_READS, _QUICK_READS = 5_000, 500
_SEED: Final = 5
_SETTLED_S: Final = 120.0
_UNCHANGED_S: Final = 5.0
_POLL_S: Final = 0.2
_ROUTES: Final = {
    "T0": (f"{API}/tools/hot", 0.95),
    "T1": (f"{API}/tools/categories", 0.90),
    "T2": (f"{API}/tools/category/{{name}}", 0.70),
    "T3": (f"{API}/tools/{{server}}/{{tool}}", 0.50),
}
"""The route of a tier, and the aim of document 003."""
_USED: Final = re.compile(
    r'^maitred_pages_total\{cache="(?P<cache>\w+)",route="(?P<route>[^"]+)"\} (?P<count>\S+)$', re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class HitRate:
    """Which share of the pages of a tier came from the cache, 0 to 1, and which should."""

    tier: str
    read: int
    share: float
    aim: float


@dataclass(frozen=True, kw_only=True)
class Hits:
    """The tiers, in their order; `tools` are those that could be read of."""

    corpus: str
    tools: int
    tiers: Sequence[HitRate]


def measure(stage: Stage, size: Size) -> Hits:
    """Read pages, and count."""
    return anyio.run(_measure, stage, _QUICK_READS if size.quick else _READS)


async def _measure(stage: Stage, reads: int) -> Hits:
    name, path = stage.definitions()
    records = corpus.read(path)[:_SERVERS]
    config = stage.folder / "hits.yaml"
    offsets = corpus.offsets(path)
    servers = {}
    for record in records:
        command, *args = corpus.replay_command(path, record["server"], offsets[record["server"]])
        servers[record["server"]] = {"command": command, "args": args}
    body = {
        "servers": servers,
        "catalog": {"path": str(stage.folder / "hits.db")},
        "search": {"mode": "lexical"},
    }
    config.write_text(json.dumps(body), encoding="utf-8")  # JSON is YAML
    tools = [(record["server"], tool["name"]) for record in records for tool in record["tools"]]
    async with listening(CURRENT.serve_http(config)) as program:
        await _settled(program)
        tiers = await to_thread.run_sync(_read_pages, program, config, tools, reads)
    return Hits(corpus=name, tools=len(tools), tiers=tiers)


async def _settled(program: Program) -> None:
    """Wait until the catalog has not changed for a while."""
    before, since = b"", anyio.current_time()
    with anyio.fail_after(_SETTLED_S):
        while not before or anyio.current_time() - since < _UNCHANGED_S:
            await anyio.sleep(_POLL_S)
            found = await to_thread.run_sync(_get, program, f"{API}/tools/categories")
            if found != before:
                before, since = found, anyio.current_time()


def _read_pages(
    program: Program, config: Path, tools: Sequence[tuple[str, str]], reads: int
) -> list[HitRate]:
    """Read pages, the n-th of its tier 1/n as often as the first."""
    chance = random.Random(_SEED)
    listed = json.loads(_get(program, f"{API}/tools/categories"))["categories"]
    some = chance.sample(tools, len(tools))
    pages = {
        "T0": [f"{API}/tools/hot"],
        "T1": [f"{API}/tools/categories"],
        "T2": [f"{API}/tools/category/{quote(line['name'], safe='')}" for line in listed],
        "T3": [f"{API}/tools/{quote(server, safe='')}/{quote(name, safe='')}" for server, name in some],
    }
    weights = {tier: [1 / place for place in range(1, len(paths) + 1)] for tier, paths in pages.items()}
    before, body = _page_uses(program), json.loads(config.read_text(encoding="utf-8"))
    for number in range(reads):
        if number % (reads // EDITS) == 0:
            body["disclosure"] = {"break_even_tokens": number}
            config.write_text(json.dumps(body), encoding="utf-8")
        tier = chance.choice(list(pages))
        _get(program, chance.choices(pages[tier], weights[tier])[0])
    after = _page_uses(program)
    return [_hit_rate(tier, before, after) for tier in pages]


def _hit_rate(tier: str, before: Mapping[str, float], after: Mapping[str, float]) -> HitRate:
    route, aim = _ROUTES[tier]
    hits, misses = (
        after.get(f"{route} {kind}", 0.0) - before.get(f"{route} {kind}", 0.0) for kind in ("hit", "miss")
    )
    return HitRate(tier=tier, read=int(hits + misses), share=hits / max(1.0, hits + misses), aim=aim)


def _page_uses(program: Program) -> dict[str, float]:
    """How often pages of each route were used so far."""
    text = _get(program, "/metrics").decode()
    return {f"{m['route']} {m['cache']}": float(m["count"]) for m in _USED.finditer(text)}


def _get(program: Program, path: str) -> bytes:
    with urlopen(f"http://127.0.0.1:{program.port}{path}", timeout=START_S) as answer:
        body: bytes = answer.read()
        return body
