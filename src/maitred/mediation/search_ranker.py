"""Rank tools for proofs as the gateway's search does: the same words, vectors and weights.

It builds a small temporary index of the tools. A proof ignores what depends on the caller and on past calls:
servers, exact names, usage.
"""

from collections.abc import Sequence
from functools import lru_cache

import anyio
import numpy as np

from maitred.mediation.base import EnhancedTool, SourceTool
from maitred.mediation.proof import DEPTH
from maitred.search.base import Embedder, ToolDocument, Vectors, make_document
from maitred.search.fusion import fuse
from maitred.search.lexical import LexicalIndex
from maitred.search.tokenize import query_terms

_MAX_TERMS = 48
_REMEMBERED = 10_000


class SearchRanker:
    """Ranks with an embedder, in a worker thread; for one proof at a time. It caches some vectors."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._documents: dict[str, Vectors] = {}
        self._queries: dict[str, Vectors] = {}
        self._terms = lru_cache(maxsize=_REMEMBERED)(query_terms)

    async def rankings(
        self, tools: Sequence[SourceTool], originals: Sequence[SourceTool], queries: Sequence[str]
    ) -> Sequence[Sequence[int]]:
        """See `maitred.mediation.proof.Ranker`.

        Raises:
            Exception: Any error of the embedder.
        """
        return await anyio.to_thread.run_sync(self._rank, tools, originals, queries)

    def _rank(
        self, tools: Sequence[SourceTool], originals: Sequence[SourceTool], queries: Sequence[str]
    ) -> list[list[int]]:
        if not tools or not queries:
            return [[] for _ in queries]
        documents = [_document(tool, original) for tool, original in zip(tools, originals, strict=True)]
        near = self._cosines(documents, queries)
        index = LexicalIndex()
        count = len(documents)
        index.add(range(count), documents, count)
        mask = np.ones(count, np.bool_)
        rankings = []
        for query, cosines in zip(queries, near, strict=True):
            lexical = index.search(self._terms(query)[:_MAX_TERMS], count)
            ranking = fuse(lexical, cosines if cosines.any() else None, mask)
            rankings.append(ranking.rows[:DEPTH].tolist())
        return rankings

    def _cosines(self, documents: Sequence[ToolDocument], queries: Sequence[str]) -> Vectors:
        """Cosine of each query to each document; all 0 if no word of the query is known."""
        for cache in (self._documents, self._queries):
            if len(cache) > _REMEMBERED:
                cache.clear()
        fresh = {
            document.digest: document for document in documents if document.digest not in self._documents
        }
        if fresh:
            vectors = self._embedder.documents(list(fresh.values()))
            self._documents |= zip(fresh, vectors, strict=True)
        new_queries = [query for query in queries if query not in self._queries]
        if new_queries:
            self._queries |= zip(new_queries, self._embedder.queries(new_queries), strict=True)
        near = np.stack([self._queries[query] for query in queries])
        rows = np.stack([self._documents[document.digest] for document in documents])
        return np.asarray(np.einsum("qd,nd->qn", near, rows), np.float32)


def _document(tool: SourceTool, original: SourceTool) -> ToolDocument:
    is_changed = tool is not original
    return make_document(
        name=original.name,
        titles=[tool.title, tool.name if tool.name != original.name else "", original.title]
        if is_changed
        else [tool.title],
        descriptions=[tool.description, original.description] if is_changed else [tool.description],
        use_cases=tool.use_cases if isinstance(tool, EnhancedTool) else (),
        schema=tool.input_schema,
    )
