"""How long `search_tools` takes over a whole corpus, as a client over stdio sees it.

The first search brings the index in step with the catalog and is given apart. `tools/list` on the same
connection, taken in turn with the searches, shows how much of it is transport.
"""

import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import anyio

from bench.queries import make_queries
from bench.stage import Corpus, Stage, serve
from bench.values import PeerError, Size
from bench.wire import Json, Wire, connect
from maitred.evaluation.metrics import percentile

_PHRASES = 3


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Of several requests of one kind, in milliseconds."""

    samples: int
    p50_ms: float
    p95_ms: float
    largest_ms: float


@dataclass(frozen=True, kw_only=True)
class Searched:
    """One corpus. `empty` counts searches that found nothing."""

    corpus: str
    servers: int
    tools: int
    first_ms: float
    one_phrase: Latency
    three_phrases: Latency
    list_tools: Latency
    empty: int


@dataclass(frozen=True, kw_only=True)
class Search:
    """One entry a corpus."""

    searched: Sequence[Searched]


def measure(stage: Stage, size: Size) -> Search:
    """Search each corpus."""
    return Search(searched=[anyio.run(_search, corpus, size) for corpus in stage.corpora()])


async def _search(corpus: Corpus, size: Size) -> Searched:
    queries = make_queries(corpus.records, size.queries)
    groups = [queries[start : start + _PHRASES] for start in range(0, len(queries), _PHRASES)]
    one: list[float] = []
    three: list[float] = []
    listed: list[float] = []
    empty = 0
    async with connect(serve(corpus.known.config)) as wire:
        await wire.list_tools()
        first_ms, _ = await _timed(_ask(wire, queries[:1]))
        for number, query in enumerate(queries):
            taken, text = await _timed(_ask(wire, [query]))
            one.append(taken)
            empty += text.startswith("Nothing matches")
            if number % _PHRASES == 0:
                three.append((await _timed(_ask(wire, groups[number // _PHRASES])))[0])
                listed.append((await _timed(_list(wire)))[0])
    return Searched(
        corpus=corpus.name,
        servers=len(corpus.records),
        tools=corpus.known.tools,
        first_ms=first_ms,
        one_phrase=_latency(one),
        three_phrases=_latency(three),
        list_tools=_latency(listed),
        empty=empty,
    )


async def _timed(action: Awaitable[str]) -> tuple[float, str]:
    started = time.perf_counter()
    text = await action
    return (time.perf_counter() - started) * 1e3, text


async def _ask(wire: Wire, phrases: Sequence[str]) -> str:
    result: Json = await wire.call("search_tools", {"phrases": list(phrases)})
    if result.get("isError") or not result.get("content"):
        raise PeerError(f"search_tools answered {str(result)[:300]}")
    return str(result["content"][0]["text"])


async def _list(wire: Wire) -> str:
    return str(len(await wire.list_tools()))


def _latency(samples: Sequence[float]) -> Latency:
    return Latency(
        samples=len(samples),
        p50_ms=percentile(samples, 0.5),
        p95_ms=percentile(samples, 0.95),
        largest_ms=max(samples),
    )
