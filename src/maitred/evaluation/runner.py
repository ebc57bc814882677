"""Ask a gateway the queries of a labelled set and measure what it finds, how fast, and at what cost.

Each query is one call of `Gateway.search`, which is what `search_tools` does. Whether an answer is a search's
way of saying nothing is decided in `is_silent` alone.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from maitred.catalog.snapshot import Snapshot
from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Search
from maitred.disclosure.answers import SearchAnswer
from maitred.disclosure.budget import estimate
from maitred.evaluation.fixture_gateway import keys, raw_tools, stocked
from maitred.evaluation.labelled_queries import LabelledQuery, LabelledTool
from maitred.evaluation.metrics import mean, ndcg, percentile, recall, reciprocal_rank
from maitred.model.access import LOCAL_USER
from maitred.model.tools import ToolKey

if TYPE_CHECKING:  # it takes a second to import, which `--help` need not wait for
    from maitred.gateway import Gateway

MAX_K = 20
"""How many results a search gives at most."""

_NDCG_AT = 10
_USUAL_RESULTS = 5
_REMOVED_SHARE = 5
_SEED = 17
_SILENT_BANDS = ("weak", "none")

Step = Callable[[], None]
"""Called after each query, for a progress bar."""


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """A query and its answer: ids best first, wall milliseconds, the text of the first five results."""

    query: LabelledQuery
    ranking: Sequence[str]
    ms: float
    text: str
    is_silent: bool


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Macro means over queries, from 0 to 1. `recall` is by k."""

    queries: int
    recall: Mapping[int, float]
    ndcg_at_10: float
    mrr: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What an answer takes: wall milliseconds, and o200k tokens of the answer with the usual five results.

    `counted` says how the tokens were: `o200k` exactly, or `estimate`, which is an upper bound.
    """

    p50_ms: float
    p95_ms: float
    p50_tokens: float
    p95_tokens: float
    counted: str


@dataclass(frozen=True, kw_only=True)
class SilenceShares:
    """Shares of answers where nothing is relevant, and of silence where something is; `None` of nothing."""

    nothing_relevant: int
    false_answers: float | None
    something_relevant: int
    false_silence: float | None


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What search answers to queries whose tools were taken out of the set, which should be nothing."""

    tools_removed: int
    silence: SilenceShares


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """All figures of one set in one mode; `quality` is `None` where no query has a relevant tool.

    `embedder` names the model that was used, `note` says what search had to do without; both may be empty.
    """

    mode: str
    embedder: str
    note: str
    tools: int
    quality: Quality | None
    cost: Cost
    silence: SilenceShares
    removal: Removal | None = None


async def evaluate(
    tools: Sequence[LabelledTool],
    queries: Sequence[LabelledQuery],
    *,
    ks: Sequence[int] = (1, 3, 5, 10),
    search: Search,
    removed: int = 0,
    step: Step = lambda: None,
) -> Evaluation:
    """Measure a search on a labelled set; there must be at least one query.

    Args:
        tools: All tools of the set.
        queries: The queries to ask.
        ks: At which places recall is taken, each from 1 to `MAX_K`.
        search: How to search.
        removed: Ask so many queries once more, of a catalog without the tools that serve them.
        step: Called after each query.
    """
    limit = max(*ks, _NDCG_AT)
    async with stocked(raw_tools(tools), search) as gateway:
        asked = await ask(gateway, keys(tools), queries, limit=limit, step=step)
        semantics = gateway.semantics
    return Evaluation(
        mode=search.mode,
        embedder=semantics.model,
        note=semantics.note,
        tools=len(tools),
        quality=quality(asked, ks),
        cost=cost(asked),
        silence=silence(asked),
        removal=await _without(tools, queries, removed, search, step) if removed else None,
    )


async def ask(
    gateway: "Gateway",
    ids: Mapping[ToolKey, str],
    queries: Sequence[LabelledQuery],
    *,
    limit: int,
    step: Step = lambda: None,
) -> list[QueryResult]:
    """Search for each query alone, one after the other, once every tool has been indexed wholly."""
    await gateway.warm(wholly=True)
    asked = []
    for query in queries:
        started = time.perf_counter()
        answer = await gateway.search([query.text], limit=limit, viewer=LOCAL_USER)
        taken_ms = (time.perf_counter() - started) * 1e3
        usual = replace(answer, results=answer.results[:_USUAL_RESULTS])
        ranking = _ranking(answer, gateway.catalog(LOCAL_USER), ids)
        asked.append(
            QueryResult(
                query=query, ranking=ranking, ms=taken_ms, text=usual.text, is_silent=is_silent(answer)
            )
        )
        step()
    return asked


def is_silent(answer: SearchAnswer) -> bool:
    """Whether an answer tells its reader that nothing suits: no results, or none that search believes in."""
    return not answer.results or answer.band in _SILENT_BANDS


def quality(asked: Sequence[QueryResult], ks: Sequence[int]) -> Quality | None:
    """How well the relevant were found, for queries that have any; what a silent answer lists counts."""
    found = [(one.ranking, one.query.relevant) for one in asked if one.query.relevant]
    if not found:
        return None
    return Quality(
        queries=len(found),
        recall={k: mean([recall(ranking, relevant, k) for ranking, relevant in found]) for k in ks},
        ndcg_at_10=mean([ndcg(ranking, relevant, _NDCG_AT) for ranking, relevant in found]),
        mrr=mean([reciprocal_rank(ranking, relevant) for ranking, relevant in found]),
    )


def cost(asked: Sequence[QueryResult]) -> Cost:
    """What the answers took."""
    counts, counted = _tokens([one.text for one in asked])
    taken = [one.ms for one in asked]
    return Cost(
        p50_ms=percentile(taken, 0.5),
        p95_ms=percentile(taken, 0.95),
        p50_tokens=percentile(counts, 0.5),
        p95_tokens=percentile(counts, 0.95),
        counted=counted,
    )


def silence(asked: Sequence[QueryResult]) -> SilenceShares:
    """How often search spoke or was silent at the wrong time."""
    spoke = [not one.is_silent for one in asked if not one.query.relevant]
    silent = [one.is_silent for one in asked if one.query.relevant]
    return SilenceShares(
        nothing_relevant=len(spoke),
        false_answers=mean(spoke) if spoke else None,
        something_relevant=len(silent),
        false_silence=mean(silent) if silent else None,
    )


def orphans(
    tools: Sequence[LabelledTool], queries: Sequence[LabelledQuery], count: int
) -> tuple[list[LabelledQuery], set[str]]:
    """Queries that nothing serves once some tools are gone, and the ids of those, at most a fifth of all.

    Which ones is drawn at random, the same ones each time; fewer than `count` where the tools do not suffice.
    """
    drawn = [query for query in queries if query.relevant]
    random.Random(_SEED).shuffle(drawn)  # noqa: S311  # a sample, not a secret
    gone: set[str] = set()
    for query in drawn:
        if len(gone.union(query.relevant)) * _REMOVED_SHARE <= len(tools):
            gone.update(query.relevant)
    left = [query for query in drawn if gone.issuperset(query.relevant)]
    return [replace(query, relevant=()) for query in left[:count]], gone


async def _without(
    tools: Sequence[LabelledTool], queries: Sequence[LabelledQuery], count: int, search: Search, step: Step
) -> Removal:
    unserved, gone = orphans(tools, queries, count)
    kept = [tool for tool in tools if tool.id not in gone]
    async with stocked(raw_tools(kept), search) as gateway:
        asked = await ask(gateway, keys(kept), unserved, limit=_USUAL_RESULTS, step=step)
    return Removal(tools_removed=len(gone), silence=silence(asked))


def _ranking(answer: SearchAnswer, snapshot: Snapshot, ids: Mapping[ToolKey, str]) -> list[str]:
    """The ids of an answer, best first; the same tools on other servers follow the one that names them."""
    found: list[str] = []
    for result in answer.results:
        found.append(ids[result.tool.key])
        found += [ids[snapshot.by_name[name].key] for name in result.also]
    return found


def _tokens(texts: Sequence[str]) -> tuple[list[int], str]:
    try:
        return count_tokens(texts), "o200k"
    except ImportError:  # an installation without its vocabulary
        return [estimate(text) for text in texts], "estimate"
