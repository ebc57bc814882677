"""The index of a snapshot: words and vectors of all tools, kept in step by what changed, and searched.

It does no input or output and waits for nothing; `maitred.search.engine` runs it in worker threads, which is
why a lock guards it. Vectors may come later than words, or never: a search uses what is there.
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
from maitred.search.tokenize import normalised, query_terms

_MAX_TERMS = 48
_MORE = 15  # hits beyond the limit, from which other servers may be lifted
_USAGE_WEIGHT = 0.02
_CERTAIN = 2.0
_COMPACT_AT = 4_096
_NAME_CHARACTERS = 200
_PATIENCE_S = 0.05
_SPELLED = 100  # tools whose names are compared letter by letter


class HybridIndex:
    """Finds the tools of the snapshot it was last updated to."""

    def __init__(self, *, mode: Mode = "hybrid", exact_rows: int = EXACT_ROWS) -> None:
        self._lock = threading.Lock()
        self._mode = mode
        self._exact_rows = exact_rows
        self._used: dict[ToolKey, int] = {}
        self._before: Mapping[ToolKey, int] = {}
        self._snapshot = Snapshot(generation=-2)
        self._clear()

    def _clear(self) -> None:
        self._rows = Rows()
        self._lexical = LexicalIndex()
        self._dense = VectorIndex(self._exact_rows)
        self._pending: dict[int, ToolDocument] = {}
        self._digests: dict[int, str] = {}

    # --- keeping in step ----------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The generation of the snapshot that it agrees with."""
        return self._snapshot.generation

    @property
    def tools(self) -> int:
        """How many tools it knows."""
        return len(self._rows.tools)

    @property
    def missing(self) -> int:
        """How many of them have no vector yet."""
        return len(self._pending)

    def update(self, snapshot: Snapshot) -> None:
        """Agree with a snapshot; costs what changed, not what there is. New tools wait for their vectors."""
        with self._lock:
            if snapshot.generation == self.generation:
                return
            if self._rows.wasted > max(_COMPACT_AT, len(self._rows.tools)):
                self._clear()
            gone, fresh = self._rows.step(snapshot)
            self._lexical.remove(gone)
            self._dense.remove(gone)
            for row in gone:
                self._pending.pop(row, None)
                self._digests.pop(row, None)
            documents = [document(snapshot, tool) for _, tool in fresh]
            rows = [row for row, _ in fresh]
            self._lexical.add(rows, documents, self._rows.capacity)
            self._pending.update(zip(rows, documents, strict=True))
            self._snapshot = snapshot

    def pending(self) -> dict[int, ToolDocument]:
        """The rows that have no vector yet, with what is to be embedded."""
        with self._lock:
            return dict(self._pending)

    def keep(self, documents: Mapping[int, ToolDocument], vectors: Vectors) -> None:
        """Take the vectors of documents that were pending; those that went meanwhile are passed over."""
        with self._lock:
            rows = list(documents)
            wanted = [at for at, row in enumerate(rows) if self._pending.get(row) is documents[row]]
            kept = [rows[at] for at in wanted]
            self._dense.add(kept, vectors[wanted], self._rows.capacity)
            for row in kept:
                self._digests[row] = self._pending.pop(row).digest

    def digests(self) -> set[str]:
        """The content hashes of all tools that have a vector."""
        with self._lock:
            return set(self._digests.values())

    def used(self, key: ToolKey) -> None:
        """A tool was called with success; among equals it comes first from now on. Waits for nothing."""
        self._used[key] = self._used.get(key, 0) + 1

    def remember(self, calls: Mapping[ToolKey, int]) -> None:
        """How often tools were called as far as it was written down; own calls count beside that."""
        self._before = dict(calls)

    # --- searching ----------------------------------------------------------------------------------------

    def search(self, queries: Sequence[EmbeddedQuery], wanted: Filter, limit: int = 5) -> SearchHits:
        """Rank tools for each phrase, then merge: every phrase's best first, then every second best."""
        with self._lock:
            shown, hidden = self._rows.mask(wanted)
            rankings: dict[str, list[Hit]] = {}
            withheld: dict[ToolKey, Tool] = {}
            for query in queries:
                lexical = self._lexical.search(query_terms(query.phrase)[:_MAX_TERMS], self._rows.capacity)
                near = self._cosines(query, shown)
                rankings[query.phrase] = self._hits(query, self._ranking(lexical, near, shown), shown, limit)
                if hidden.any():
                    beyond = self._cosines(query, hidden)  # apart, so that what is hidden takes no place
                    both = near if near is None or beyond is None else np.maximum(near, beyond)
                    ranking = self._ranking(lexical, both, shown | hidden)
                    withheld |= self._missed(query, ranking, hidden, limit)
            snapshot = self._snapshot
        return SearchHits(
            snapshot=snapshot,
            hits=merge(list(rankings.values()), limit),
            withheld=list(withheld.values()),
            bands={phrase: hits[0].band if hits else "none" for phrase, hits in rankings.items()},
        )

    def nearest(self, name: str, limit: int = 3) -> list[str]:
        """Published names that a mistaken name may have meant, likeliest first; none while it is updated."""
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
        wanted = SequenceMatcher(b=normalised(name), autojunk=False)
        likeness = {tool.name: _likeness(wanted, tool) for tool in tools}
        return sorted(likeness, key=lambda one: (-likeness[one], one))[:limit]

    def _missed(
        self, query: EmbeddedQuery, ranking: Ranking, hidden: Mask, limit: int
    ) -> dict[ToolKey, Tool]:
        """The hidden tools that would be among the first hits."""
        pairs = zip(ranking.rows[:limit].tolist(), ranking.confidences[:limit].tolist(), strict=True)
        rows = self._rows.named(query.phrase, hidden)
        rows += [row for row, confidence in pairs if hidden[row] and confidence >= FAIR]
        return {self._rows.tools[row].key: self._rows.tools[row] for row in rows}

    def _hits(self, query: EmbeddedQuery, ranking: Ranking, mask: Mask, limit: int) -> list[Hit]:
        exact = self._rows.named(query.phrase, mask)
        hits = [Hit(tool=self._rows.tools[row], score=_CERTAIN) for row in exact]
        ranked = self._ranked(ranking, limit + _MORE, self._rows.of_server(query.phrase, mask))
        if hits:  # what was named is there; what is far from it would only cost tokens
            named = {hit.tool.key for hit in hits}
            ranked = [hit for hit in ranked if hit.tool.key not in named and hit.confidence >= FAIR]
        hits += ranked
        return spread(fold(hits, limit + _MORE))

    def _ranked(self, ranking: Ranking, limit: int, own: AbstractSet[int]) -> list[Hit]:
        """The first hits of a ranking; tools of a server whose name the phrase is stand before all others."""
        tools = self._rows.tools
        places = {row: place for place, row in enumerate(ranking.rows[: 2 * limit].tolist())}
        hits = []
        for row in {**places, **dict.fromkeys(own)}:
            place = places.get(row)
            score = 0.0 if place is None else float(ranking.scores[place])
            confidence = 1.0 if row in own else float(ranking.confidences[places[row]])
            calls = self._used.get(tools[row].key, 0) + self._before.get(tools[row].key, 0)
            prior = _USAGE_WEIGHT * (1 - 1 / (1 + calls))
            hits.append(Hit(tool=tools[row], score=score + prior + (row in own), confidence=confidence))
        return sorted(hits, key=lambda hit: (-round(hit.score, 5), hit.tool.name))[:limit]

    def _ranking(self, lexical: LexicalScores, near: Vectors | None, mask: Mask) -> Ranking:
        return (
            only_vectors(near, mask)
            if self._mode == "dense" and near is not None
            else fuse(lexical, near, mask)
        )

    def _cosines(self, query: EmbeddedQuery, mask: Mask) -> Vectors | None:
        """Half the similarity to the whole phrase, half that to its best part, for each row.

        `None` where words alone count: without vectors, or if the embedder knows no word of the phrase.
        """
        if self._mode == "lexical" or query.vectors is None or not query.vectors[0].any():
            return None
        scores = self._dense.search(query.vectors, mask)
        whole = scores[0]
        if len(scores) > 1:
            whole = (whole + scores[1:].max(axis=0)) / 2
        return np.asarray(whole, np.float32)


def _likeness(wanted: SequenceMatcher[str], tool: Tool) -> float:
    """How much a tool's published or raw name is spelled like the one that is wanted, from 0 to 1."""
    best = 0.0
    for name in (tool.name, tool.key.name):
        wanted.set_seq1(normalised(name))
        best = max(best, wanted.ratio())
    return best
