"""What search finds on labelled queries: maitred in each mode and by other models, and FastMCP's BM25.

Of the sets that our model learned from, only queries that were held back are asked.

The sets lie beside the checkout (`MAITRED_SHARED`), since they are other people's. Where they are missing,
the queries are descriptions of generated tools without their names: that compares ways of searching on words
that the documents share, and says less.
"""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import anyio
from tests.support import corpus
from tests.support.written_queries import KINDS, wanted_tools, written

from bench.peers import Bm25
from bench.replicas import tools_of
from bench.stage import ROOT, Stage
from bench.values import Size, Skipped
from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import keys, raw_tools
from maitred.evaluation.labelled_queries import (
    LabelledQuery,
    LabelledTool,
    is_held_back,
    read_queries,
    read_tools,
)
from maitred.evaluation.metrics import mean, ndcg, recall
from maitred.evaluation.paraphrase import paraphrases
from maitred.evaluation.runner import evaluate
from maitred.search.base import ToolDocument
from maitred.search.results import Mode

MODES: Sequence[Mode] = ("lexical", "dense", "hybrid")
SELF_SUPERVISED = ROOT / "build" / "training" / "self-supervised-600.npz"
LEARNED_FROM = frozenset({"metatool", "bfcl", "sealtools", "apibench"})

_AT = 5
_RESULTS = 10
_SEED = 29
_GENERATED_QUERIES = 1_000


@dataclass(frozen=True, kw_only=True)
class LabelledSet:
    """Tools, and queries with the tools that serve them."""

    name: str
    tools: Sequence[LabelledTool]
    queries: Sequence[LabelledQuery]


@dataclass(frozen=True, kw_only=True)
class Found:
    """One way of searching: shares from 0 to 1, `None` where it could not be had; `note` then says why."""

    way: str
    recall_at_5: float | None
    ndcg_at_10: float | None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class SetQuality:
    """One set, the same queries for all ways."""

    name: str
    tools: int
    queries: int
    found: Sequence[Found]


@dataclass(frozen=True, kw_only=True)
class Quality:
    """All sets."""

    sets: Sequence[SetQuality]
    skipped: Sequence[Skipped]


def measure(stage: Stage, size: Size) -> Quality:
    """Ask all ways the same queries of each set."""
    known = labelled_sets()
    sets = [_sampled(one, size.quality_queries) for one in known if len(one.tools) <= size.quality_tools]
    skipped = [
        Skipped(what=f"set {one.name}", why=f"{len(one.tools):,} tools take too long for a quick run")
        for one in known
        if len(one.tools) > size.quality_tools
    ]
    if not known:
        why = "there is no data/search in the folder `shared` beside the checkout, nor in MAITRED_SHARED"
        skipped = [Skipped(what="labelled sets", why=why)]
        sets = [_sampled(_generated(stage), size.quality_queries or _GENERATED_QUERIES)]
    return Quality(sets=[anyio.run(_measure, one) for one in sets], skipped=skipped)


async def _measure(labelled: LabelledSet) -> SetQuality:
    found = [await ours(labelled, f"maitred {mode}", Search(mode=mode)) for mode in MODES]
    if SELF_SUPERVISED.exists():
        without = Search(embedder_model=str(SELF_SUPERVISED))
        found.append(await ours(labelled, "self-supervised hybrid", without))
    if find_spec("onnxruntime") is not None:
        found.append(await ours(labelled, "minilm hybrid", Search(embedder="minilm")))
    return SetQuality(
        name=labelled.name,
        tools=len(labelled.tools),
        queries=len(labelled.queries),
        found=[*found, await _peer(labelled)],
    )


async def ours(labelled: LabelledSet, way: str, search: Search) -> Found:
    """What maitred finds with some settings."""
    found = await evaluate(labelled.tools, labelled.queries, ks=[_AT], search=search)
    if found.quality is None:
        raise ValueError(f"no query of {labelled.name} has a relevant tool")
    figures = found.quality
    if search.mode != "lexical" and not found.embedder:  # it went by words alone
        return Found(way=way, recall_at_5=None, ndcg_at_10=None, note=found.note)
    return Found(way=way, recall_at_5=figures.recall[_AT], ndcg_at_10=figures.ndcg_at_10)


async def _peer(labelled: LabelledSet) -> Found:
    ids = keys(labelled.tools)
    index = Bm25(raw_tools(labelled.tools), _RESULTS)
    await index.search("")  # makes the index
    ranked = [
        ([ids[key] for key in index.rank(query.text, _RESULTS)], query.relevant) for query in labelled.queries
    ]
    return Found(
        way="fastmcp bm25",
        recall_at_5=mean([recall(ranking, relevant, _AT) for ranking, relevant in ranked]),
        ndcg_at_10=mean([ndcg(ranking, relevant) for ranking, relevant in ranked]),
    )


def labelled_sets() -> list[LabelledSet]:
    """The sets that are at hand, by name; queries that nothing serves say nothing of what is found."""
    shared = Path(os.environ.get("MAITRED_SHARED") or ROOT.parent / "shared")
    sets = []
    for path in sorted((shared / "data" / "search").glob("*/queries.jsonl")):
        tools = read_tools(path.with_name("tools.jsonl"))
        queries = read_queries(path, [tool.id for tool in tools])
        name = path.parent.name
        asked = [
            query
            for query in queries
            if query.relevant and (name not in LEARNED_FROM or is_held_back(name, query.id))
        ]
        sets.append(LabelledSet(name=name, tools=tools, queries=asked))
    return [*sets, *_written_sets()]


def _written_sets() -> list[LabelledSet]:
    """The written queries of the servers that are held back, a set for each kind that has tools."""
    tools = wanted_tools()
    if tools is None:
        return []
    return [
        LabelledSet(name=f"written {kind}", tools=tools, queries=written(kind, "held"))
        for kind in KINDS
        if kind != "none"
    ]


def _generated(stage: Stage) -> LabelledSet:
    _, path = stage.definitions()
    raws = tools_of(corpus.read(path))
    tools = [
        LabelledTool(id=str(number), server=raw.key.server, name=raw.key.name, description=raw.description)
        for number, raw in enumerate(raws)
    ]
    queries = []
    for tool in tools:
        about = ToolDocument(name=tool.name, server=tool.server, description=tool.description)
        phrases = paraphrases(about)[:1]
        queries += [LabelledQuery(id=tool.id, phrases=(phrase,), relevant=(tool.id,)) for phrase in phrases]
    return LabelledSet(name="generated", tools=tools, queries=queries)


def _sampled(labelled: LabelledSet, count: int) -> LabelledSet:
    if not count or count >= len(labelled.queries):
        return labelled
    return replace(labelled, queries=random.Random(_SEED).sample(list(labelled.queries), count))
