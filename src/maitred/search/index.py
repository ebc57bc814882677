"""The lexical index of a snapshot: SQLite FTS5 in memory, updated by what changed.

Not thread-safe by design of SQLite, so a lock guards it; the gateway calls it from worker threads.
"""

import sqlite3
import threading
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from maitred.catalog.snapshot import Snapshot
from maitred.model.tools import Tool, ToolKey
from maitred.search.words import normalised, query_words, words

_WEIGHTS = "3.0, 1.0, 1.0, 0.5, 0.4, 0.0"  # name, title, description, parameters, server, scope
_CANDIDATES = 500
_MAX_DESCRIPTION = 2_000
_MAX_PARAMETERS = 2_000
_MAX_QUERY_WORDS = 32


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A tool that matches; a higher `score` is a better match, comparable within one phrase only."""

    tool: Tool
    score: float


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best hits of all phrases, best first, and what matched but must not be shown, by server."""

    hits: Sequence[Hit]
    withheld: Sequence[Tool]


class LexicalIndex:
    """Finds the tools of the snapshot it was last updated to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.execute(
            "CREATE VIRTUAL TABLE docs USING fts5(name, title, description, parameters, server, scope,"
            " tokenize='porter unicode61 remove_diacritics 2')"
        )
        self._rows: dict[ToolKey, tuple[int, Tool]] = {}
        self._tools: dict[int, Tool] = {}
        self._exact: dict[str, list[Tool]] = {}
        self._servers: frozenset[str] = frozenset()
        self._next_row = 0
        self._generation = -2

    def update(self, snapshot: Snapshot) -> None:
        """Make the index agree with a snapshot; costs what changed, not what there is."""
        with self._lock:
            if snapshot.generation == self._generation:
                return
            gone = [key for key, (_, tool) in self._rows.items() if snapshot.by_key.get(key) != tool]
            for key in gone:
                row, _ = self._rows.pop(key)
                del self._tools[row]
                self._db.execute("DELETE FROM docs WHERE rowid = ?", (row,))
            fresh = [tool for tool in snapshot.tools if tool.key not in self._rows]
            self._db.executemany(
                "INSERT INTO docs(rowid, name, title, description, parameters, server, scope)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (self._document(tool, snapshot) for tool in fresh),
            )
            self._exact = {}
            for tool in snapshot.tools:
                for name in {normalised(tool.name), normalised(tool.key.name)}:
                    self._exact.setdefault(name, []).append(tool)
            self._servers = frozenset(tool.server for tool in snapshot.tools)
            self._generation = snapshot.generation

    def _document(self, tool: Tool, snapshot: Snapshot) -> tuple[int | str, ...]:
        row, self._next_row = self._next_row, self._next_row + 1
        self._rows[tool.key] = (row, tool)
        self._tools[row] = tool
        return (
            row,
            " ".join(words(tool.key.name)),
            " ".join(words(tool.title)),
            " ".join(words(tool.description[:_MAX_DESCRIPTION])),
            " ".join(words(_parameters(snapshot, tool)[:_MAX_PARAMETERS])),
            " ".join(words(tool.server)),
            _scope(tool.server),
        )

    def search(
        self, phrases: Sequence[str], *, visible: Collection[str], server: str = "", limit: int = 5
    ) -> Found:
        """Rank tools for each phrase, then merge fairly: every phrase's best first, then every second best.

        Args:
            phrases: What is wanted; each is searched on its own.
            visible: Servers whose tools may be shown; matches elsewhere are returned as withheld.
            server: Only tools of this server, if given.
            limit: How many hits at most, over all phrases.
        """
        with self._lock:
            wanted = {server} if server else self._servers
            shown = wanted & set(visible)
            rankings = [self._rank(phrase, shown) for phrase in phrases]
            withheld = [hit for phrase in phrases for hit in self._rank(phrase, wanted - shown)]
        return Found(
            hits=_merge(rankings, limit), withheld=list({hit.tool.key: hit.tool for hit in withheld}.values())
        )

    def _rank(self, phrase: str, inside: AbstractSet[str]) -> list[Hit]:
        """The best hits on some servers; the shorter list of servers, theirs or the others, is the filter."""
        if not inside:
            return []
        outside = self._servers - inside
        exact = [tool for tool in self._exact.get(normalised(phrase), []) if tool.server in inside]
        hits = [Hit(tool=tool, score=float("inf")) for tool in sorted(exact, key=lambda tool: tool.name)]
        terms = query_words(phrase)[:_MAX_QUERY_WORDS]
        if not terms:
            return hits
        match = " OR ".join(f'"{term}"' for term in terms)
        match = "{name title description parameters server} : (" + match + ")"
        if outside and len(inside) <= len(outside):
            match = f"({match}) AND {_scopes(inside)}"
        elif outside:
            match = f"({match}) NOT {_scopes(outside)}"
        rows = self._db.execute(
            f"SELECT rowid, bm25(docs, {_WEIGHTS}) AS cost FROM docs WHERE docs MATCH ?"  # noqa: S608  # constants
            " ORDER BY cost, rowid LIMIT ?",
            (match, _CANDIDATES),
        ).fetchall()
        found = [Hit(tool=self._tools[row], score=-cost) for row, cost in rows]
        taken = {tool.key for tool in exact}
        return hits + [hit for hit in found if hit.tool.key not in taken]

    def nearest(self, name: str, limit: int = 3) -> list[str]:
        """Published names that a mistaken name may have meant, likeliest first."""
        with self._lock:
            ranked = [hit.tool.name for hit in self._rank(name, self._servers)]
        return ranked[:limit]


def _merge(rankings: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    merged: dict[ToolKey, Hit] = {}
    for rank in range(max((len(ranking) for ranking in rankings), default=0)):
        for ranking in rankings:
            if rank < len(ranking) and len(merged) < limit:
                merged.setdefault(ranking[rank].tool.key, ranking[rank])
    return list(merged.values())


def _parameters(snapshot: Snapshot, tool: Tool) -> str:
    schema = snapshot.schema(tool.input_hash)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ""
    texts = []
    for name, value in properties.items():
        description = value.get("description") if isinstance(value, dict) else None
        texts.append(f"{name} {description}" if isinstance(description, str) else name)
    return " ".join(texts)


def _scopes(servers: AbstractSet[str]) -> str:
    return "scope : (" + " OR ".join(_scope(server) for server in sorted(servers)) + ")"


def _scope(server: str) -> str:
    return "scope" + server.encode("utf-8", "surrogatepass").hex()
