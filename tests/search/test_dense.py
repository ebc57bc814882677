"""Vectors by row: exact where it matters, masked before ranking, and quick where there are many."""

import numpy as np
import pytest

from maitred.search.base import Vectors
from maitred.search.dense import VectorIndex

ROWS = 3_000


def unit(count: int, dimensions: int, seed: int = 0) -> Vectors:
    vectors = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def index_of(vectors: Vectors, exact_rows: int = 20_000) -> VectorIndex:
    index = VectorIndex(exact_rows)
    index.add(range(len(vectors)), vectors, len(vectors))
    return index


@pytest.mark.parametrize("dimensions", [256, 384, 100])
def test_a_whole_phrase_is_compared_exactly(dimensions: int) -> None:
    """Up to 20,000 tools. Source: issue "Search", Engine."""
    vectors, query = unit(ROWS, dimensions), unit(1, dimensions, seed=1)

    scores = index_of(vectors).search(query, np.ones(ROWS, np.bool_))

    assert np.allclose(scores[0], vectors @ query[0], atol=1e-5)


@pytest.mark.parametrize("dimensions", [256, 384, 100])
@pytest.mark.parametrize("exact_rows", [20_000, 1_000])
def test_what_lies_near_any_part_is_found(dimensions: int, exact_rows: int) -> None:
    """Beyond the exact part, signs choose whom to compare: the near ones must be among them."""
    vectors = unit(ROWS, dimensions)
    queries = vectors[[10, 2_000]] + 0.3 * unit(2, dimensions, seed=2)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)

    scores = index_of(vectors, exact_rows).search(queries, np.ones(ROWS, np.bool_))

    assert scores.argmax(axis=1).tolist() == [10, 2_000]
    precision = 1e-5 if exact_rows > ROWS else 1e-3  # half precision, as of vectors from the database
    assert np.allclose(scores[0, 10], vectors[10] @ queries[0], atol=precision)


def test_a_masked_or_removed_row_never_matches() -> None:
    """Not even where it is the query itself."""
    vectors = unit(ROWS, 256)
    index = index_of(vectors)
    index.remove([7])
    mask = np.ones(ROWS, np.bool_)
    mask[8] = False

    scores = index.search(vectors[[7, 8]], mask)

    assert scores[:, 7].tolist() == scores[:, 8].tolist() == [-1, -1]
    assert not index.has(ROWS)[7]


def test_rows_that_are_added_later_are_found() -> None:
    """The arrays grow; what was there stays."""
    vectors = unit(200, 256)
    index = VectorIndex()
    for row in range(200):
        index.add([row], vectors[[row]], row + 1)

    scores = index.search(vectors[[3, 199]], np.ones(200, np.bool_))

    assert scores.argmax(axis=1).tolist() == [3, 199]


def test_an_empty_index_matches_nothing() -> None:
    """The first search may come before the first vector."""
    assert VectorIndex().search(unit(1, 8), np.ones(5, np.bool_)).tolist() == [[-1.0] * 5]
