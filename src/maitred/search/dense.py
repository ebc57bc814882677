"""The vector half of search: exact cosines in numpy, with a one-bit prefilter for many rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maitred.search.base import Vectors

EXACT_ROWS = 20_000
_PREFILTERED = 1_000
_NEAR_A_PART = 500
_WORDS_IN_ONE = 4


class VectorIndex:
    """Vectors by row number. A row without a vector never matches. Not thread-safe: its owner locks.

    With more rows than are compared one by one, vectors have half precision, as in the database.
    """

    def __init__(self, exact_rows: int = EXACT_ROWS) -> None:
        self._exact_rows = exact_rows
        self._vectors: NDArray[np.float32 | np.float16] = np.zeros((0, 0), np.float32)
        self._codes: NDArray[np.uint8] = np.zeros((0, 0), np.uint8)
        self._has: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def detach(self) -> None:
        """Share no table with the index that this one is a shallow copy of."""
        self._vectors, self._codes, self._has = self._vectors.copy(), self._codes.copy(), self._has.copy()

    def has(self, capacity: int) -> NDArray[np.bool_]:
        """Return which of the first `capacity` rows have a vector."""
        has = np.zeros(capacity, np.bool_)
        has[: min(capacity, len(self._has))] = self._has[:capacity]
        return has

    def add(self, rows: Sequence[int], vectors: Vectors, capacity: int) -> None:
        """Store the vectors of some rows below `capacity`."""
        if not len(rows):
            return
        self._grow(capacity, vectors.shape[1])
        places = list(rows)
        self._vectors[places] = vectors
        self._codes[places] = np.packbits(vectors > 0, axis=1)
        self._has[places] = True

    def remove(self, rows: Sequence[int]) -> None:
        """Remove some rows; rows without a vector are allowed."""
        self._has[[row for row in rows if row < len(self._has)]] = False

    def search(self, queries: Vectors, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return cosines of shape (queries, rows of `mask`); -1 where mask or prefilter excludes a row.

        The first query is a whole phrase, the others are its parts. Of many rows, a part gets exact cosines
        only for the nearest; the others get the lowest of those.
        """
        capacity = len(mask)
        scores = np.full((len(queries), capacity), -1.0, np.float32)
        rows = np.flatnonzero(mask & self.has(capacity))
        if not len(rows) or not len(queries):
            return scores
        if len(rows) > self._exact_rows:
            rows = np.unique(np.concatenate([self._near(query, rows, _PREFILTERED) for query in queries]))
        scores[0, rows] = self._exact(queries[0], rows, capacity)
        for score, query in zip(scores[1:], queries[1:], strict=True):
            near = rows if len(rows) <= _NEAR_A_PART else self._near(query, rows, _NEAR_A_PART)
            cosines = self._exact(query, near, capacity)
            score[rows] = cosines.min()
            score[near] = cosines
        return scores

    def _exact(self, query: Vectors, rows: NDArray[np.intp], capacity: int) -> NDArray[np.float32]:
        """Return the cosines of some rows."""
        # Not `@`: the threads of a linear algebra library wait for each other when processors are busy.
        if 2 * len(rows) > capacity and self._vectors.dtype == np.float32:
            # to copy rows costs more than to score those that are not needed
            return np.asarray(np.einsum("nd,d->n", self._vectors[:capacity], query)[rows])
        return np.asarray(np.einsum("nd,d->n", self._vectors[rows].astype(np.float32, copy=False), query))

    def _near(self, query: Vectors, rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
        """Return the rows whose signs differ least from those of a query."""
        if len(rows) <= count:
            return rows
        codes = self._codes[: rows[-1] + 1]
        words = codes.view(np.uint64) if codes.shape[1] % 8 == 0 else codes
        bits = np.bitwise_count(words ^ np.packbits(query > 0).view(words.dtype))
        if bits.shape[1] == _WORDS_IN_ONE:  # adds four small numbers as the bytes of one
            distance = (bits.view(np.uint32).ravel() * np.uint32(0x01010101)) >> np.uint32(24)
        else:
            distance = bits.sum(axis=1, dtype=np.uint32)
        if len(rows) < len(distance):
            distance = distance[rows]
        return rows[np.argpartition(distance, count)[:count]]

    def _grow(self, capacity: int, dimensions: int) -> None:
        size = len(self._has)
        if capacity <= size:
            return
        size = max(capacity, size + size // 4, 64)
        vectors = np.zeros((size, dimensions), np.float32 if size <= self._exact_rows else np.float16)
        codes = np.zeros((size, (dimensions + 7) // 8), np.uint8)
        has = np.zeros(size, np.bool_)
        if len(self._has):
            vectors[: len(self._has)] = self._vectors
            codes[: len(self._has)] = self._codes
            has[: len(self._has)] = self._has
        self._vectors, self._codes, self._has = vectors, codes, has
