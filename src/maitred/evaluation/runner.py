"""Ask a gateway the queries of a labelled set and measure what it finds, how fast, and at what price.

Each query is one call of `Gateway.search`, like `search_tools`. Only `is_silent` decides whether an answer
means that nothing fits.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Search
from maitred.disclosure.answers import FoundTool, SearchAnswer
from maitred.disclosure.budget import estimate
from maitred.evaluation.fixture_gateway import gateway_with_tools, keys, raw_tools
from maitred.evaluation.intervals import Interval, Measures, intervals
from maitred.evaluation.labelled_queries import LabelledQuery, LabelledTool
from maitred.evaluation.metrics import hit, mean, ndcg, needs_met, percentile, recall, reciprocal_rank
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.tools import ToolKey

if TYPE_CHECKING:  # it takes a second to import, too long for `--help`
    from maitred.gateway import Gateway

MAX_K = 20
"""The maximum number of results of a search."""

_NDCG_AT = 10
_NDCG = f"NDCG@{_NDCG_AT}"
_USUAL_RESULTS = 5
_REMOVED_SHARE = 5
_SEED = 17
_SILENT_BANDS = ("weak", "none")

Step = Callable[[], None]
"""Called after each query, for a progress bar."""


@dataclass(frozen=True, kw_only=True)
class QueryResult:
    """A query and its answer: ids best first, wall milliseconds, the text of five results for each phrase.

    `shown` are the ids that this text has.
    """

    query: LabelledQuery
    ranking: Sequence[str]
    ms: float
    text: str
    is_silent: bool
    shown: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Macro means over queries, from 0 to 1. `recall` and `hit` are by k.

    `needs_met` is the share of the needs that the tools in the lines of an answer meet. `intervals` are those
    of all measures by their printed names, and `by_query` has the measures of each query by its id.
    """

    queries: int
    recall: Mapping[int, float]
    hit: Mapping[int, float]
    ndcg_at_10: float
    mrr: float
    needs_met: float
    intervals: Mapping[str, Interval]
    by_query: Mapping[str, Measures]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The price of an answer: wall milliseconds, and o200k tokens of the answer with the usual five results.

    `counted` says how: `o200k` exactly, or `estimate`, which is an upper bound.
    """

    p50_ms: float
    p95_ms: float
    p50_tokens: float
    p95_tokens: float
    counted: str


@dataclass(frozen=True, kw_only=True)
class SilenceShares:
    """Shares of answers if nothing is relevant, and of silence if something is; `None` if there are none."""

    nothing_relevant: int
    false_answers: float | None
    something_relevant: int
    false_silence: float | None


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Answers to queries whose tools were removed from the set; a search should find nothing."""

    tools_removed: int
    silence: SilenceShares


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """All figures of one set in one mode; `quality` is `None` if no query has a relevant tool.

    `embedder` names the model, `note` says what search had to do without; both may be empty.
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
        ks: The places of recall, each from 1 to `MAX_K`.
        search: The settings of search.
        removed: Ask so many queries again, of a catalog without the tools that serve them.
        step: Called after each query.
    """
    limit = max(*ks, _NDCG_AT)
    async with gateway_with_tools(raw_tools(tools), search) as gateway:
        results = await ask(gateway, keys(tools), queries, limit=limit, step=step)
        semantics = gateway.semantics
    return Evaluation(
        mode=search.mode,
        embedder=semantics.model,
        note=semantics.note,
        tools=len(tools),
        quality=quality(results, ks),
        cost=cost(results),
        silence=silence(results),
        removal=await _without(tools, queries, removed, search, step) if removed else None,
    )


async def ask(
    gateway: "Gateway",
    ids: Mapping[ToolKey, str],
    queries: Sequence[LabelledQuery],
    *,
    limit: int,
    step: Step = lambda: None,
    viewer: Viewer = LOCAL_USER,
) -> list[QueryResult]:
    """Search for each query alone, one after the other, after every tool has a vector."""
    await gateway.warm(wholly=True)
    results = []
    for query in queries:
        start = time.perf_counter()
        answer = await gateway.search(query.phrases, limit=limit, viewer=viewer)
        taken_ms = (time.perf_counter() - start) * 1e3
        usual = replace(answer, results=answer.results[: _USUAL_RESULTS * len(query.phrases)])
        by_name = gateway.catalog(viewer).by_name
        results.append(
            QueryResult(
                query=query,
                ranking=[ids[by_name[name].key] for one in answer.results for name in _names(one)],
                ms=taken_ms,
                text=usual.text,
                is_silent=is_silent(answer),
                shown=[ids[by_name[name].key] for one in usual.lines for name in _names(one)],
            )
        )
        step()
    return results


def is_silent(answer: SearchAnswer) -> bool:
    """Return whether an answer says that nothing fits: no results, or only weak ones."""
    return not answer.results or answer.band in _SILENT_BANDS


def quality(results: Sequence[QueryResult], ks: Sequence[int]) -> Quality | None:
    """Measure how well search finds the relevant tools; results of a silent answer count."""
    by_query = {one.query.id: measures(one, ks) for one in results if one.query.relevant}
    if not by_query:
        return None
    means = intervals(list(by_query.values()))
    return Quality(
        queries=len(by_query),
        recall={k: means[f"R@{k}"].mean for k in ks},
        hit={k: means[f"hit@{k}"].mean for k in ks},
        ndcg_at_10=means[_NDCG].mean,
        mrr=means["MRR"].mean,
        needs_met=means["needs met"].mean,
        intervals=means,
        by_query=by_query,
    )


def measures(result: QueryResult, ks: Sequence[int]) -> Measures:
    """Return the measures of one query, which must have a relevant tool, by their printed names."""
    query, ranking = result.query, result.ranking
    return {
        **{f"R@{k}": recall(ranking, query.relevant, k) for k in ks},
        **{f"hit@{k}": hit(ranking, query.relevant, k) for k in ks},
        _NDCG: ndcg(ranking, query.relevant, _NDCG_AT, grades=query.grades),
        "MRR": reciprocal_rank(ranking, query.relevant),
        "needs met": needs_met(result.shown, query.wants),
    }


def cost(results: Sequence[QueryResult]) -> Cost:
    """Measure the price of the answers."""
    counts, method = _tokens([one.text for one in results])
    times_ms = [one.ms for one in results]
    return Cost(
        p50_ms=percentile(times_ms, 0.5),
        p95_ms=percentile(times_ms, 0.95),
        p50_tokens=percentile(counts, 0.5),
        p95_tokens=percentile(counts, 0.95),
        counted=method,
    )


def silence(results: Sequence[QueryResult]) -> SilenceShares:
    """Measure how often search spoke or was silent at the wrong time."""
    spoke = [not one.is_silent for one in results if not one.query.relevant]
    silent = [one.is_silent for one in results if one.query.relevant]
    return SilenceShares(
        nothing_relevant=len(spoke),
        false_answers=mean(spoke) if spoke else None,
        something_relevant=len(silent),
        false_silence=mean(silent) if silent else None,
    )


def orphans(
    tools: Sequence[LabelledTool], queries: Sequence[LabelledQuery], count: int
) -> tuple[list[LabelledQuery], set[str]]:
    """Choose queries that no tool serves after some tools are removed, and the ids of those, at most a fifth.

    A random generator with a fixed seed chooses them; there are fewer than `count` if the tools do not
    suffice.
    """
    shuffled = [query for query in queries if query.relevant]
    random.Random(_SEED).shuffle(shuffled)  # noqa: S311  # a sample, not a secret
    removed_ids: set[str] = set()
    for query in shuffled:
        if len(removed_ids.union(query.relevant)) * _REMOVED_SHARE <= len(tools):
            removed_ids.update(query.relevant)
    unserved = [query for query in shuffled if removed_ids.issuperset(query.relevant)]
    return [replace(query, relevant=()) for query in unserved[:count]], removed_ids


async def _without(
    tools: Sequence[LabelledTool], queries: Sequence[LabelledQuery], count: int, search: Search, step: Step
) -> Removal:
    unserved, removed_ids = orphans(tools, queries, count)
    remaining = [tool for tool in tools if tool.id not in removed_ids]
    async with gateway_with_tools(raw_tools(remaining), search) as gateway:
        results = await ask(gateway, keys(remaining), unserved, limit=_USUAL_RESULTS, step=step)
    return Removal(tools_removed=len(removed_ids), silence=silence(results))


def _names(result: FoundTool) -> list[str]:
    """Return the name of a result, followed by those of its equals on other servers."""
    return [result.tool.name, *result.also]


def _tokens(texts: Sequence[str]) -> tuple[list[int], str]:
    try:
        return count_tokens(texts), "o200k"
    except ImportError:  # the installation lacks the vocabulary
        return [estimate(text) for text in texts], "estimate"
