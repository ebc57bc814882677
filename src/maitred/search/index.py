"""The index of a snapshot: words and vectors of all tools, updated by what changed, and searched.

It does no input or output and does not block; `maitred.search.engine` runs it in worker threads, so it has a
lock. Vectors may come later than words, or never: a search uses those that are there.
"""

import copy
import threading
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np

from maitred.catalog.snapshot import Snapshot
from maitred.heap import trim_heap
from maitred.model.tools import Tool, ToolKey
from maitred.search.base import ToolDocument, Vectors, document
from maitred.search.dense import EXACT_ROWS, VectorIndex
from maitred.search.explain import RankingReader, ReadWord, folded_into
from maitred.search.foreign import ForeignReading, read_foreign
from maitred.search.fusion import Ranking, Seniority, fold, fuse, merge, only_vectors, put_copies_back, spread
from maitred.search.lexical import LexicalIndex, LexicalScores
from maitred.search.prior import usage_prior
from maitred.search.reasons import Cause, ExpectedTool, HitReasons, PhraseReasons
from maitred.search.results import FAIR, EmbeddedQuery, Filter, Hit, Mode, SearchHits
from maitred.search.rows import Mask, Rows
from maitred.search.spelling import Respelling, respell
from maitred.search.tokenize import normalise_name, query_terms, query_words_by_term, stop_words

_OWN_WORDS: Final = 0.5
"""The share of a phrase that a tool must have for the phrase to be searched for in its own language."""
_MAX_TERMS = 48
_MORE = 15  # hits beyond the limit, from which tools of other servers may move up
_ALL = 10_000  # hits, more than a ranking has
_CERTAIN = 2.0
_COMPACT_AT = 512
_TOGETHER = 2_048
_MANY = 1_000
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
        self._of_all = 0
        self._approved: Mapping[str, str] = {}
        self._snapshot = Snapshot(generation=-2)
        self._clear()

    def _clear(self) -> None:
        self._rows = Rows()
        self._lexical = LexicalIndex()
        self._dense = VectorIndex(self._exact_rows)
        self._pending: dict[int, str] = {}
        """The digests of what has no vector yet; all documents together would take much memory."""
        self._digests: dict[int, bytes] = {}

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
            for start in range(0, len(fresh), _TOGETHER):
                part = fresh[start : start + _TOGETHER]
                documents = {row: document(snapshot, tool) for row, tool in part}
                self._lexical.add(list(documents), documents.values(), self._rows.capacity)
                self._pending.update((row, one.digest) for row, one in documents.items())
            self._snapshot = snapshot
        if len(fresh) >= _MANY:
            trim_heap()

    def copy(self) -> "HybridIndex":
        """Return an index of the same snapshot, which changes apart from this one: to try something out."""
        with self._lock:
            twin = copy.copy(self)
            twin.detach()
        return twin

    def detach(self) -> None:
        """Share no table with the index that this one is a shallow copy of."""
        self._lock = threading.Lock()
        self._rows, self._lexical = copy.copy(self._rows), copy.copy(self._lexical)
        self._dense = copy.copy(self._dense)
        self._rows.detach()
        self._lexical.detach()
        self._dense.detach()
        self._pending, self._digests = dict(self._pending), dict(self._digests)
        self._calls = dict(self._calls)

    def pending(self) -> dict[int, str]:
        """Return the rows that have no vector yet, with the digests of their documents."""
        with self._lock:
            return dict(self._pending)

    def documents(self, rows: Iterable[int]) -> dict[int, ToolDocument]:
        """Return the documents of some rows, without those that have a vector or no tool by now."""
        with self._lock:
            return {
                row: document(self._snapshot, self._rows.tools[row]) for row in rows if row in self._pending
            }

    def keep(self, digests: Mapping[int, str], vectors: Vectors) -> None:
        """Store the vectors of pending documents, by their digests; skip those that are no longer pending."""
        with self._lock:
            rows = list(digests)
            current = [at for at, row in enumerate(rows) if self._pending.get(row) == digests[row]]
            current_rows = [rows[at] for at in current]
            self._dense.add(current_rows, vectors[current], self._rows.capacity)
            for row in current_rows:
                self._digests[row] = bytes.fromhex(self._pending.pop(row))

    def digests(self) -> set[str]:
        """Return the content hashes of all tools that have a vector."""
        with self._lock:
            return {digest.hex() for digest in self._digests.values()}

    def used(self, key: ToolKey) -> None:
        """Record a successful call of a tool, which lifts it in rankings. Does not block."""
        self._calls[key] = self._calls.get(key, 0) + 1
        self._of_all += 1

    def remember(self, calls: Mapping[ToolKey, int]) -> None:
        """Set the stored call counts of tools; calls of this process count beside them."""
        self._stored_calls = dict(calls)
        self._of_all = sum(self._calls.values()) + sum(calls.values())

    # Searches.

    def search(self, queries: Sequence[EmbeddedQuery], wanted: Filter, limit: int = 5) -> SearchHits:
        """Rank tools for each phrase, then merge: every phrase's best first, then every second best."""
        with self._lock:
            allowed, hidden = self._rows.mask(wanted)
            rankings: dict[str, list[Hit]] = {}
            withheld: dict[ToolKey, Tool] = {}
            for query in queries:
                lexical = self._lexical.search(query_terms(query.text)[:_MAX_TERMS], self._rows.capacity)
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
            corrections={typed: word for query in queries for typed, word in query.corrections.items()},
        )

    def respell(self, texts: Sequence[str], wanted: Filter) -> list[Respelling]:
        """Correct the mistyped words of texts by those of the tools that the caller may see.

        A phrase that is the name of a tool or a server is not mistyped; its words are in the catalog.
        """
        with self._lock:
            lexicon = self._lexical.lexicon(self._seen(wanted))
            return [respell(text, lexicon) for text in texts]

    def read(self, phrases: Sequence[str], texts: Sequence[str], wanted: Filter) -> list[Respelling]:
        """Return texts in English and without mistakes; one of another language is a correction as a whole.

        `phrases` are the texts as they were typed.
        """
        readings = [read_foreign(text) for text in texts]
        readings = [
            ForeignReading(text=text) if one.language and self._is_in_words_of_tools(text, wanted) else one
            for text, one in zip(texts, readings, strict=True)
        ]
        corrected = self.respell(["" if one.language else one.text for one in readings], wanted)
        return [
            Respelling(text=foreign.text, corrections={phrase: foreign.text}) if foreign.language else one
            for phrase, foreign, one in zip(phrases, readings, corrected, strict=True)
        ]

    def _is_in_words_of_tools(self, text: str, wanted: Filter) -> bool:
        """Whether a tool that the caller may see has most words of a text as they are."""
        with self._lock:
            lexical = self._lexical.search(query_terms(text)[:_MAX_TERMS], self._rows.capacity)
            return float(lexical.coverage[self._seen(wanted)].max(initial=0)) >= _OWN_WORDS

    def _seen(self, wanted: Filter) -> Mask:
        """The rows that a caller may see, without the other limits of a search."""
        return self._rows.mask(Filter(visible=wanted.visible, outside=wanted.outside))[0]

    def explain(
        self, queries: Sequence[EmbeddedQuery], wanted: Filter, limit: int, expected: ToolKey | None = None
    ) -> list[PhraseReasons]:
        """Rank tools for each phrase as `search` does, and say why; also what became of an expected tool."""
        found = []
        for query in queries:
            with self._lock:  # searches of others go between
                found.append(self._explain(query, wanted, limit, expected))
        return found

    def _explain(
        self, query: EmbeddedQuery, wanted: Filter, limit: int, expected: ToolKey | None
    ) -> PhraseReasons:
        allowed, hidden = self._rows.mask(wanted)
        lexical = self._lexical.search(query_terms(query.text)[:_MAX_TERMS], self._rows.capacity)
        near = self._cosines(query, allowed)
        ranking = self._ranking(lexical, near, allowed)
        hits = self._hits(query, ranking, allowed, limit)
        beyond = self._cosines(query, hidden)
        both = near if near is None or beyond is None else np.maximum(near, beyond)
        withheld = self._hidden_hits(query, self._ranking(lexical, both, allowed | hidden), hidden, limit)
        words = self._read_words(query.text)
        reader = RankingReader(ranking, words)
        reasons = [self._reasons(reader, query, hit, place) for place, hit in enumerate(hits, 1)]
        return PhraseReasons(
            phrase=query.phrase,
            band=hits[0].band if hits else "none",
            share=ranking.share,
            by_meaning=near is not None,
            hits=reasons[:limit],
            ignored=stop_words(query.text),
            unknown=[one.word for one in words if not self._is_known(one, wanted)],
            withheld=list(withheld.values()),
            candidates=len(ranking.rows),
            corrections=query.corrections,
            expected=self._fate(expected, reader, query, hits, reasons, limit, allowed, hidden)
            if expected
            else None,
        )

    def _read_words(self, text: str) -> list[ReadWord]:
        typed = query_words_by_term(text)
        terms = list(typed)[:_MAX_TERMS]
        exact = {term: self._lexical.resolve(term, alike=False) for term in terms}
        alike = not any(exact.values())  # as a search does it
        return [
            ReadWord(
                word=typed[term],
                term=term,
                read_as=self._lexical.resolve(term, alike=True) if alike else exact[term],
            )
            for term in terms
        ]

    def _is_known(self, word: ReadWord, wanted: Filter) -> bool:
        """Whether a tool that the caller may see has a word; what other tools have is not said."""
        return self._lexical.occurs([term for term, _ in word.read_as], self._seen(wanted))

    def _reasons(self, reader: RankingReader, query: EmbeddedQuery, hit: Hit, place: int) -> HitReasons:
        row = self._rows.row(hit.tool.key)
        assert row is not None  # noqa: S101  # a hit is a row
        phrase, tool = normalise_name(query.phrase), hit.tool
        is_named = phrase in (normalise_name(tool.name), normalise_name(tool.key.name))
        is_of_server = phrase == normalise_name(tool.server)
        cause: Cause = "name" if phrase and is_named else "server" if phrase and is_of_server else "rank"
        return reader.reasons(hit, row, document(self._snapshot, hit.tool), place=place, cause=cause)

    def _fate(
        self,
        key: ToolKey,
        reader: RankingReader,
        query: EmbeddedQuery,
        hits: Sequence[Hit],
        reasons: Sequence[HitReasons],
        limit: int,
        allowed: Mask,
        hidden: Mask,
    ) -> ExpectedTool:
        """Return what became of a tool that a caller expected."""
        row = self._rows.row(key)
        if row is None:
            return ExpectedTool(fate="unknown")
        if not allowed[row]:
            return ExpectedTool(fate="withheld" if hidden[row] else "filtered")
        if place := next((at for at, hit in enumerate(hits, 1) if hit.tool.key == key), 0):
            return ExpectedTool(fate="shown" if place <= limit else "below", reasons=reasons[place - 1])
        if other := folded_into(hits, key):
            return ExpectedTool(fate="folded", instead=other.tool)
        if place := reader.place(row):
            below = reader.hit(self._rows.tools[row], row)
            return ExpectedTool(fate="below", reasons=self._reasons(reader, query, below, place))
        return ExpectedTool(fate="unranked")

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
        seniority = self._seniority(query, exact)
        hits = [Hit(tool=self._rows.tools[row], score=_CERTAIN) for row in exact]
        exact_keys = {hit.tool.key for hit in hits}
        server_rows = self._rows.of_server(query.phrase, mask)
        for count in (limit + _MORE, _ALL):
            others = self._ranked_hits(ranking, count, server_rows)
            has_all = len(others) < count
            if hits:  # the named tools are in; distant others would only cost tokens
                others = [hit for hit in others if hit.tool.key not in exact_keys and hit.confidence >= FAIR]
            folded = fold([*hits, *others], limit + _MORE, seniority)
            if has_all or len(folded) >= limit:  # otherwise copies of a tool took the places of others
                break
        return spread(folded if hits else put_copies_back(folded, seniority))

    def _seniority(self, query: EmbeddedQuery, exact: Sequence[int]) -> Seniority:
        """The order of equal tools: the one whose published name was asked for, then the one known first."""
        phrase = normalise_name(query.phrase) if exact else ""

        def seniority(tool: Tool) -> tuple[Any, ...]:
            is_named = bool(phrase) and normalise_name(tool.name) == phrase
            at = max(self._approved.get(tool.server, ""), tool.since)
            return not is_named, at, tool.server, tool.key.name

        return seniority

    def approve(self, approved: Mapping[str, str]) -> None:
        """Set when servers were approved, in UTC; equal tools are ordered by that."""
        self._approved = approved

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
            prior = usage_prior(calls, self._of_all)
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
