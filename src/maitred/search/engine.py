"""Search as the gateway uses it: the index in threads, vectors in the background, a cache of answers."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

import anyio
from cachetools import TTLCache

from maitred.background import Background
from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import ToolKey
from maitred.search.background_vectors import BackgroundVectors, VectorCache
from maitred.search.base import Candidate, Embedder
from maitred.search.reasons import PhraseReasons
from maitred.search.rerank import RerankStage
from maitred.search.results import EmbeddedQuery, Filter, Mode, SearchHits, Semantics
from maitred.search.values import read_values

if TYPE_CHECKING:  # the gateway starts without numpy
    from maitred.search.index import HybridIndex
    from maitred.search.spelling import Respelling

_CACHED_RESULTS = 1_000
_CACHED_S = 3_600.0
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class SearchEngine(anyio.AsyncContextManagerMixin):
    """Finds tools. Enter it to start the making of vectors; it calls `make_embedder` in a thread when needed.

    If vectors or the reranker fail, a search answers without them; the note beside its answer says what is
    missing.
    """

    def __init__(
        self,
        *,
        mode: Mode = "hybrid",
        make_embedder: Callable[[], Embedder | None] = lambda: None,
        cache: VectorCache | None = None,
        reranker: RerankStage | None = None,
    ) -> None:
        self._mode = mode
        self._hybrid: HybridIndex | None = None
        self._supplied_generation = -2
        self._approved: Mapping[str, str] = _NONE
        self._used_tools: Counter[ToolKey] = Counter()
        self._embedding = BackgroundVectors(make_embedder if mode != "lexical" else lambda: None, cache)
        self._reranker = reranker
        self._results: TTLCache[object, tuple[SearchHits, str]] = TTLCache(_CACHED_RESULTS, _CACHED_S)
        self._updating = anyio.Lock()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with Background() as background:
            background.start(self._embedding.run)
            if self._reranker is not None:
                background.start(self._reranker.run)
            yield self

    async def update(self, snapshot: Snapshot, approved: Mapping[str, str] = _NONE) -> None:
        """Bring the index to a snapshot; its words count at once, its vectors follow in the background.

        `approved` has the UTC times at which servers were approved.
        """
        if self._reranker is not None:
            self._reranker.prepare()
        async with self._updating:
            if self._supplied_generation != snapshot.generation or self._approved != approved:
                self._approved = approved
                await anyio.to_thread.run_sync(self._step, snapshot)
                self._embedding.supply(self._index)
                self._results.clear()
                self._supplied_generation = snapshot.generation

    def _step(self, snapshot: Snapshot) -> None:
        from maitred.search.index import HybridIndex  # noqa: PLC0415  # the gateway starts without numpy

        self._hybrid = self._hybrid or HybridIndex(mode=self._mode)
        self._hybrid.update(snapshot)
        self._hybrid.approve(self._approved)
        standings = snapshot.standings.items()
        self._hybrid.remember({key: one.usage.calls - one.usage.errors for key, one in standings})

    @property
    def _index(self) -> "HybridIndex":
        if self._hybrid is None:
            raise RuntimeError("the index is used before its first update")
        return self._hybrid

    async def settled(self) -> None:
        """Wait until every tool has a vector, or cannot get one."""
        await self._embedding.settled()

    @property
    def semantics(self) -> Semantics:
        """How far search goes by meaning now."""
        return self._embedding.semantics

    def used(self, key: ToolKey) -> None:
        """Record a successful call of a tool, which lifts it in rankings; answers from before go in time."""
        if self._hybrid is not None:
            self._hybrid.used(key)
        self._used_tools[key] += 1
        if self._used_tools[key].bit_count() == 1:  # 1, 2, 4, 8 … calls
            self._results.clear()

    def nearest(self, name: str, snapshot: Snapshot) -> list[str]:
        """Return published names that a wrong name may mean; updates the index first if necessary."""
        if self._hybrid is None or self._hybrid.generation != snapshot.generation:
            self._step(snapshot)
        return self._index.nearest(name)

    async def search(self, phrases: Sequence[str], wanted: Filter, limit: int) -> tuple[SearchHits, str]:
        """Return the best tools for each phrase, and a note on what search had to do without."""
        await self._embedding.wait_briefly()
        key = (self._index.generation, self._embedding.version, tuple(phrases), wanted, limit)
        if (cached := self._results.get(key)) is not None:
            return cached
        queries = await self._embedded(phrases, wanted)
        hits = await anyio.to_thread.run_sync(self._index.search, queries, wanted, limit)
        hits, rerank_note = await self._rerank(hits, phrases)
        answer = (hits, "; ".join(part for part in (self.semantics.note, rerank_note) if part))
        if not rerank_note:
            self._results[key] = answer
        return answer

    async def explain(
        self,
        phrases: Sequence[str],
        wanted: Filter,
        limit: int,
        *,
        expected: ToolKey | None = None,
        trial: "HybridIndex | None" = None,
    ) -> Sequence[PhraseReasons]:
        """Return why each phrase finds what it finds, in the present index or in a trial one."""
        queries = await self._embedded(phrases, wanted)
        index = trial or self._index
        return await anyio.to_thread.run_sync(index.explain, queries, wanted, limit, expected)

    async def places(
        self, phrases: Sequence[str], wanted: Filter, limit: int, *, trial: "HybridIndex | None" = None
    ) -> Mapping[str, Sequence[ToolKey]]:
        """Return the first tools of each phrase, in the present index or in a trial one."""
        queries, index = await self._embedded(phrases, wanted), trial or self._index

        def rank() -> Mapping[str, Sequence[ToolKey]]:
            hits = {query.phrase: index.search([query], wanted, limit).hits for query in queries}
            return {phrase: [hit.tool.key for hit in of_phrase] for phrase, of_phrase in hits.items()}

        return await anyio.to_thread.run_sync(rank)

    async def trial(self, snapshot: Snapshot) -> "HybridIndex":
        """Return a copy of the index that has another snapshot, with a vector for each changed tool."""

        def make_trial() -> "HybridIndex":
            trial = self._index.copy()
            trial.update(snapshot)
            self._embedding.complete(trial)
            return trial

        return await anyio.to_thread.run_sync(make_trial)

    async def _embedded(self, phrases: Sequence[str], wanted: Filter) -> list[EmbeddedQuery]:
        await self._embedding.wait_briefly()
        return [
            EmbeddedQuery(
                phrase=phrase,
                text=read.text,
                vectors=await self._embedding.of(read.text),
                corrections=read.corrections,
            )
            for phrase, read in zip(phrases, await self._read(phrases, wanted), strict=True)
        ]

    async def _read(self, phrases: Sequence[str], wanted: Filter) -> "Sequence[Respelling]":
        """Return phrases as they are searched for: with kinds for values, in English, without mistakes."""
        from maitred.search.foreign import may_be_foreign  # noqa: PLC0415  # as above
        from maitred.search.spelling import Respelling, has_strange_words  # noqa: PLC0415  # as above

        texts = [read_values(phrase) for phrase in phrases]
        if any(has_strange_words(text) or may_be_foreign(text) for text in texts):
            return await anyio.to_thread.run_sync(self._index.read, phrases, texts, wanted)
        return [Respelling(text=text) for text in texts]

    @property
    def reranks(self) -> bool:
        """Whether a language model may change the order of the first hits of a search."""
        return self._reranker is not None

    async def _rerank(self, hits: SearchHits, phrases: Sequence[str]) -> tuple[SearchHits, str]:
        if self._reranker is None or len(phrases) != 1 or not hits.hits[1:]:
            return hits, ""
        candidates = [Candidate(name=hit.tool.name, line=hit.tool.description) for hit in hits.hits]
        scores = [hit.confidence for hit in hits.hits]
        result = await self._reranker.order(phrases[0], candidates, scores)
        return replace(hits, hits=[hits.hits[place] for place in result.order]), result.note
