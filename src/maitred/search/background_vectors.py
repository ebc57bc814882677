"""The vectors of a search: made in the background, stored between runs, and optional.

An error of an embedder or of the cache goes to `Semantics.why` or to the log. A search never fails by it.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import anyio
import structlog
from cachetools import LRUCache

from maitred.config.redaction import redact
from maitred.errors import StoreError
from maitred.heap import trim_heap
from maitred.search.base import Embedder, Vectors
from maitred.search.results import Semantics

if TYPE_CHECKING:  # the gateway starts without numpy
    from maitred.search.index import HybridIndex

log = structlog.get_logger(__name__)

_CACHED_QUERIES = 256
_BATCH = 64
_QUICK_BATCH = 2_048
_WAIT_S = 1.0
_QUERY_S = 2.0
_PROBE = "tool"
_RETRY_S = 30.0
_MAX_CLAUSES = 8
_LENGTH_ERROR = 0.02
_FLOAT16_BYTES = 2
_MANY = 1_000
_PRUNE_SHARE = 8
"""Obsolete vectors are looked for once an eighth of all was made again, since each look reads them all."""


class VectorCache(Protocol):
    """Stores vectors between runs."""

    async def load(self, model: str, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return the stored vectors of a model for some content hashes."""
        ...

    async def save(self, model: str, fresh: Mapping[str, bytes]) -> None:
        """Add vectors of a model."""
        ...

    async def prune(self, model: str, keep: Collection[str]) -> None:
        """Delete the vectors of other models and of tools that no longer exist."""
        ...


class BackgroundVectors:
    """Keeps an index supplied with vectors. It calls `make` in a thread when the first are needed."""

    def __init__(self, make: Callable[[], Embedder | None], cache: VectorCache | None) -> None:
        self._make = make
        self._cache = cache
        self._new_embedder: Embedder | None = None
        self._embedder: Embedder | None = None
        self._preparing = False
        self._model = ""
        self._bytes = 0
        self._why = ""
        self._not_kept = ""
        self._unpruned = math.inf  # a process looks once, however little it makes
        self._retry_at = 0.0
        self._queries: LRUCache[str, Vectors] = LRUCache(_CACHED_QUERIES)
        self._index: HybridIndex | None = None
        self._work = anyio.Event()
        self._idle = anyio.Event()
        self._patience_ends = 0.0
        self.version = 0
        """A number that rises whenever a search might give another result than before."""

    @property
    def semantics(self) -> Semantics:
        """How far search goes by meaning now."""
        total = self._index.tools if self._index else 0
        done = total - self._index.missing if self._index else 0
        model = self._model if self._embedder else "loading" if self._preparing else ""
        return Semantics(model=model, done=done, total=total, why=self._why, not_kept=self._not_kept)

    def supply(self, index: "HybridIndex") -> None:
        """Embed the new tools of an index in the background."""
        self._index = index
        if self._idle.is_set():  # otherwise a caller may wait for the present event
            self._idle = anyio.Event()
        self._work.set()
        self._patience_ends = anyio.current_time() + _WAIT_S

    async def settled(self) -> None:
        """Wait until every tool has a vector, or cannot get one."""
        await self._idle.wait()

    async def wait_briefly(self) -> None:
        """Wait as long as a search may: a moment for a quick embedder, not at all for a slow one."""
        if self._embedder is None or self._embedder.is_quick:
            with anyio.move_on_at(self._patience_ends):
                await self._idle.wait()

    async def run(self) -> None:
        """Embed whenever there is something to embed; never returns."""
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            try:
                await self._embed_pending()
            except Exception as error:  # noqa: BLE001  # whatever an embedder raises, words are left
                self._fail(error)
            if not self._work.is_set():
                self._idle.set()

    async def of(self, phrase: str) -> Vectors | None:
        """Return the vectors of a phrase and its parts; `None` if there are none."""
        from maitred.search.fusion import clauses  # noqa: PLC0415  # the gateway starts without numpy

        if anyio.current_time() < self._retry_at:
            return None
        if self._why:
            self._work.set()  # try the failed documents again
        embedder = self._embedder
        if embedder is None:
            return None
        cached = self._queries.get(phrase)
        if cached is not None:
            return cached
        texts = [phrase, *clauses(phrase)[:_MAX_CLAUSES]]
        try:
            vectors = await self._ask(embedder, texts)
        except Exception as error:  # noqa: BLE001  # whatever an embedder raises, words are left
            try:  # does the embedder fail with any text, or only with this phrase?
                await self._ask(embedder, [_PROBE])
            except Exception:  # noqa: BLE001  # as above
                self._fail(error)
            else:
                log.warning(
                    "a phrase cannot be embedded; it is searched by words", reason=type(error).__name__
                )
            return None
        self._recover()
        self._queries[phrase] = vectors
        return vectors

    def complete(self, trial: "HybridIndex") -> None:
        """Embed what a trial index lacks, in the thread of the caller; if that fails, words are left."""
        if self._embedder is None or self._why:
            return
        try:
            _embed(self._embedder, list(trial.pending())[-_BATCH:], trial)
        except Exception as error:  # noqa: BLE001  # whatever an embedder raises, words are left
            log.warning("a trial text cannot be embedded", reason=type(error).__name__)

    @staticmethod
    async def _ask(embedder: Embedder, texts: Sequence[str]) -> Vectors:
        if embedder.is_quick:
            return embedder.queries(texts)
        try:
            with anyio.fail_after(_QUERY_S):
                return await anyio.to_thread.run_sync(embedder.queries, texts, abandon_on_cancel=True)
        except TimeoutError:
            raise TimeoutError(f"the embedder did not answer within {_QUERY_S:g} s") from None

    # Documents.

    async def _embed_pending(self) -> None:
        embedder, index = await self._ready_embedder(), self._index
        if embedder is None or index is None:
            return
        unembedded = await anyio.to_thread.run_sync(index.pending)
        stored = await self._load(set(unembedded.values()))
        pending = await anyio.to_thread.run_sync(self._take_over, unembedded, stored, index)
        rows = list(pending)
        batch = _QUICK_BATCH if embedder.is_quick else _BATCH
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            fresh = await anyio.to_thread.run_sync(_embed, embedder, part, index, abandon_on_cancel=True)
            self.version += 1
            await self._save(fresh)
        self._recover()
        if len(unembedded) >= _MANY:
            del unembedded, stored
            await anyio.to_thread.run_sync(trim_heap)
        self._unpruned += len(rows)
        if rows and self._unpruned * _PRUNE_SHARE >= index.tools and not self._not_kept and not index.missing:
            await self._prune(index)
            self._unpruned = 0

    async def _ready_embedder(self) -> Embedder | None:
        """Return the embedder after a test query, so that one that cannot work is never used."""
        if self._embedder is None:
            self._preparing = True
            try:
                self._embedder = await anyio.to_thread.run_sync(self._prepare, abandon_on_cancel=True)
            finally:
                self._preparing = False
                self.version += 1
        return self._embedder

    def _prepare(self) -> Embedder | None:
        self._new_embedder = self._new_embedder or self._make()
        if self._new_embedder is not None:
            self._bytes = _FLOAT16_BYTES * int(self._new_embedder.queries([_PROBE]).shape[1])
            self._model = self._new_embedder.model
        return self._new_embedder

    def _take_over(
        self, pending: dict[int, str], stored: Mapping[str, bytes], index: "HybridIndex"
    ) -> dict[int, str]:
        """Give the index the stored vectors; return the digests of what still needs one."""
        import numpy as np  # noqa: PLC0415  # the gateway starts without numpy

        bodies = {row: stored.get(digest, b"") for row, digest in pending.items()}
        known = [row for row, body in bodies.items() if len(body) == self._bytes]
        left = dict(pending)
        for start in range(0, len(known), _QUICK_BATCH):
            rows = known[start : start + _QUICK_BATCH]
            halves = np.frombuffer(b"".join(bodies[row] for row in rows), np.float16)
            vectors = halves.reshape(len(rows), -1).astype(np.float32)
            with np.errstate(all="ignore"):  # damaged vectors may have any value
                lengths = np.linalg.norm(vectors, axis=1)
            sound = (np.abs(lengths - 1) < _LENGTH_ERROR) | (lengths == 0)  # zero: it has no known word
            restored = {row: left.pop(row) for row, good in zip(rows, sound, strict=True) if good}
            index.keep(restored, vectors[sound])
        self.version += bool(known)
        return left

    async def _load(self, digests: Collection[str]) -> Mapping[str, bytes]:
        if self._cache is None:
            return {}
        try:
            return await self._cache.load(self._model, digests)
        except StoreError as error:
            self._cannot_keep(error)
            return {}

    async def _save(self, fresh: Mapping[str, bytes]) -> None:
        if self._cache is None:
            return
        try:
            await self._cache.save(self._model, fresh)
            self._not_kept = ""
        except StoreError as error:
            self._cannot_keep(error)

    async def _prune(self, index: "HybridIndex") -> None:
        if self._cache is None:
            return
        try:
            await self._cache.prune(self._model, index.digests())
        except StoreError as error:
            self._cannot_keep(error)

    def _cannot_keep(self, error: StoreError) -> None:
        if error.reason != self._not_kept:
            log.warning("vectors cannot be stored; the next start makes them again", reason=error.reason)
        self._not_kept = error.reason

    def _fail(self, error: Exception) -> None:
        reason = redact(" ".join(str(error).split()))[:200] or type(error).__name__
        if reason != self._why:
            log.warning("semantic search is off", reason=reason)
        self._why = reason
        self._retry_at = anyio.current_time() + _RETRY_S
        self.version += 1

    def _recover(self) -> None:
        if self._why or self._retry_at:
            self._why, self._retry_at = "", 0.0
            self.version += 1


def _embed(embedder: Embedder, rows: Sequence[int], index: "HybridIndex") -> dict[str, bytes]:
    """Embed a batch, give it to the index, and return the bytes to store."""
    documents = index.documents(rows)
    if not documents:
        return {}
    vectors = embedder.documents(list(documents.values()))
    digests = {row: one.digest for row, one in documents.items()}
    index.keep(digests, vectors)
    bodies = vectors.astype("float16")
    return {digest: body.tobytes() for digest, body in zip(digests.values(), bodies, strict=True)}
