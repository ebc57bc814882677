"""The index of a snapshot: words and vectors of all tools, updated by what changed, and searched.

It does no input or output and does not block; `maitred.search.engine` runs it in worker threads, so it has a
lock. Vectors may come later than words, or never: a search uses those that are there.
"""

import threading
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import SequenceMatcher

import numpy as np

from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import Tool, ToolKey
from maitred.search.base import ToolDocument, Vectors, document
from maitred.search.dense import EXACT_ROWS, VectorIndex
from maitred.search.fusion import Ranking, fold, fuse, merge, only_vectors, spread
from maitred.search.lexical import LexicalIndex, LexicalScores
from maitred.search.results import FAIR, EmbeddedQuery, Filter, Hit, Mode, SearchHits
from maitred.search.rows import Mask, Rows
from maitred.search.tokenize import normalise_name, query_terms

_MAX_TERMS = 48
_MORE = 15  # hits beyond the limit, from which tools of other servers may move up
_USAGE_WEIGHT = 0.02
_CERTAIN = 2.0
_COMPACT_AT = 4_096
_NAME_CHARACTERS = 200
_PATIENCE_S = 0.05
_SPELLED = 100  # tools whose names are compared letter by letter


class HybridIndex:
    """Finds the tools of the snapshot of its last update."""

    def __init__(self, *, mode: Mode = "hybrid", exact_rows: int = EXACT_ROWS) -> None:
        self._lock = threading.Lock()
        self._mode = mode
        self._exact_rows = exact_rows
        self._calls: dict[ToolKey, int] = {}
        self._stored_calls: Mapping[ToolKey, int] = {}
        self._snapshot = Snapshot(generation=-2)
        self._clear()

    def _clear(self) -> None:
        self._rows = Rows()
        self._lexical = LexicalIndex()
        self._dense = VectorIndex(self._exact_rows)
        self._pending: dict[int, ToolDocument] = {}
        self._digests: dict[int, str] = {}

    # Updates.

    @property
    def generation(self) -> int:
        """The generation of the snapshot that it has."""
        return self._snapshot.generation

    @property
    def tools(self) -> int:
        """The number of its tools."""
        return len(self._rows.tools)

    @property
    def missing(self) -> int:
        """The number of its tools that have no vector yet."""
        return len(self._pending)

    def update(self, snapshot: Snapshot) -> None:
        """Bring the index to a snapshot, at the cost of the changes. New tools wait for their vectors."""
        with self._lock:
            if snapshot.generation == self.generation:
                return
            if self._rows.unused > max(_COMPACT_AT, len(self._rows.tools)):
                self._clear()
            removed, fresh = self._rows.step(snapshot)
            self._lexical.remove(removed)
            self._dense.remove(removed)
            for row in removed:
                self._pending.pop(row, None)
                self._digests.pop(row, None)
            documents = [document(snapshot, tool) for _, tool in fresh]
            rows = [row for row, _ in fresh]
            self._lexical.add(rows, documents, self._rows.capacity)
            self._pending.update(zip(rows, documents, strict=True))
            self._snapshot = snapshot

    def pending(self) -> dict[int, ToolDocument]:
        """Return the rows that have no vector yet, with the documents to embed."""
        with self._lock:
            return dict(self._pending)

    def keep(self, documents: Mapping[int, ToolDocument], vectors: Vectors) -> None:
        """Store the vectors of pending documents; skip documents that are no longer pending."""
        with self._lock:
            rows = list(documents)
            current = [at for at, row in enumerate(rows) if self._pending.get(row) is documents[row]]
            current_rows = [rows[at] for at in current]
            self._dense.add(current_rows, vectors[current], self._rows.capacity)
            for row in current_rows:
                self._digests[row] = self._pending.pop(row).digest

    def digests(self) -> set[str]:
        """Return the content hashes of all tools that have a vector."""
        with self._lock:
            return set(self._digests.values())

    def used(self, key: ToolKey) -> None:
        """Record a successful call of a tool, which then comes first among equals. Does not block."""
        self._calls[key] = self._calls.get(key, 0) + 1

    def remember(self, calls: Mapping[ToolKey, int]) -> None:
        """Set the stored call counts of tools; calls of this process count beside them."""
        self._stored_calls = dict(calls)

    # Searches.

    def search(self, queries: Sequence[EmbeddedQuery], wanted: Filter, limit: int = 5) -> SearchHits:
        """Rank tools for each phrase, then merge: every phrase's best first, then every second best."""
        with self._lock:
            allowed, hidden = self._rows.mask(wanted)
            rankings: dict[str, list[Hit]] = {}
            withheld: dict[ToolKey, Tool] = {}
            for query in queries:
                lexical = self._lexical.search(query_terms(query.phrase)[:_MAX_TERMS], self._rows.capacity)
                near = self._cosines(query, allowed)
                rankings[query.phrase] = self._hits(
                    query, self._ranking(lexical, near, allowed), allowed, limit
                )
                if hidden.any():
                    beyond = self._cosines(query, hidden)  # separate, so that hidden tools take no place
                    both = near if near is None or beyond is None else np.maximum(near, beyond)
                    ranking = self._ranking(lexical, both, allowed | hidden)
                    withheld |= self._hidden_hits(query, ranking, hidden, limit)
            snapshot = self._snapshot
        return SearchHits(
            snapshot=snapshot,
            hits=merge(list(rankings.values()), limit),
            withheld=list(withheld.values()),
            bands={phrase: hits[0].band if hits else "none" for phrase, hits in rankings.items()},
        )

    def nearest(self, name: str, limit: int = 3) -> list[str]:
        """Return published names that a wrong name may mean, likeliest first; none during an update."""
        name = name[:_NAME_CHARACTERS]
        if not self._lock.acquire(timeout=_PATIENCE_S):
            return []
        try:
            terms = query_terms(name)[:_MAX_TERMS]
            scores = self._lexical.search(terms, self._rows.capacity, misspelled=True).scores
            rows = np.argsort(-scores, kind="stable")[:_SPELLED]
            near = [self._rows.tools[row] for row in rows.tolist() if scores[row] > 0]
            tools = [tool for tool in near if not tool.withheld]
        finally:
            self._lock.release()
        matcher = SequenceMatcher(b=normalise_name(name), autojunk=False)
        likeness = {tool.name: _likeness(matcher, tool) for tool in tools}
        return sorted(likeness, key=lambda one: (-likeness[one], one))[:limit]

    def _hidden_hits(
        self, query: EmbeddedQuery, ranking: Ranking, hidden: Mask, limit: int
    ) -> dict[ToolKey, Tool]:
        """Return the hidden tools that would be among the first hits."""
        pairs = zip(ranking.rows[:limit].tolist(), ranking.confidences[:limit].tolist(), strict=True)
        rows = self._rows.rows_of_name(query.phrase, hidden)
        rows += [row for row, confidence in pairs if hidden[row] and confidence >= FAIR]
        return {self._rows.tools[row].key: self._rows.tools[row] for row in rows}

    def _hits(self, query: EmbeddedQuery, ranking: Ranking, mask: Mask, limit: int) -> list[Hit]:
        exact = self._rows.rows_of_name(query.phrase, mask)
        hits = [Hit(tool=self._rows.tools[row], score=_CERTAIN) for row in exact]
        others = self._ranked_hits(ranking, limit + _MORE, self._rows.of_server(query.phrase, mask))
        if hits:  # the named tools are in; distant others would only cost tokens
            exact_keys = {hit.tool.key for hit in hits}
            others = [hit for hit in others if hit.tool.key not in exact_keys and hit.confidence >= FAIR]
        hits += others
        return spread(fold(hits, limit + _MORE))

    def _ranked_hits(self, ranking: Ranking, limit: int, server_rows: AbstractSet[int]) -> list[Hit]:
        """Return the first hits; tools of a server come first if the phrase is the name of that server."""
        tools = self._rows.tools
        places = {row: place for place, row in enumerate(ranking.rows[: 2 * limit].tolist())}
        hits = []
        for row in {**places, **dict.fromkeys(server_rows)}:
            place = places.get(row)
            score = 0.0 if place is None else float(ranking.scores[place])
            confidence = 1.0 if row in server_rows else float(ranking.confidences[places[row]])
            calls = self._calls.get(tools[row].key, 0) + self._stored_calls.get(tools[row].key, 0)
            prior = _USAGE_WEIGHT * (1 - 1 / (1 + calls))
            hits.append(
                Hit(tool=tools[row], score=score + prior + (row in server_rows), confidence=confidence)
            )
        return sorted(hits, key=lambda hit: (-round(hit.score, 5), hit.tool.name))[:limit]

    def _ranking(self, lexical: LexicalScores, near: Vectors | None, mask: Mask) -> Ranking:
        return (
            only_vectors(near, mask)
            if self._mode == "dense" and near is not None
            else fuse(lexical, near, mask)
        )

    def _cosines(self, query: EmbeddedQuery, mask: Mask) -> Vectors | None:
        """Return for each row half the similarity to the whole phrase plus half that to its best part.

        `None` if words alone count: without vectors, or if the embedder knows no word of the phrase.
        """
        if self._mode == "lexical" or query.vectors is None or not query.vectors[0].any():
            return None
        scores = self._dense.search(query.vectors, mask)
        cosines = scores[0]
        if len(scores) > 1:
            cosines = (cosines + scores[1:].max(axis=0)) / 2
        return np.asarray(cosines, np.float32)


def _likeness(matcher: SequenceMatcher[str], tool: Tool) -> float:
    """Return how similar the spelling of a tool's published or raw name is to a name, from 0 to 1."""
    best = 0.0
    for name in (tool.name, tool.key.name):
        matcher.set_seq1(normalise_name(name))
        best = max(best, matcher.ratio())
    return best
