"""Blends the model with its variant without labels, which learned less of the labelled sets' own words.

A model that has learned from labelled queries gains most on queries of the same kind. Moved a part of the way
back, it loses a little there and gains on tools that it has never seen. The share was chosen by leaving sets
out of training and measuring on those; see README.md.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maitred.search.static_embedder import EmbeddingWeights, load
from training.pack import pack
from training.train import Learned

SHARE = 0.3
"""Of the variant without labels."""


def blend(labelled: Path, bare: Path, out: Path, share: float = SHARE) -> str:
    """Write the blend of two weights files of one vocabulary and return the name of the model."""
    first, second = load(labelled), load(bare)
    if first.vocabulary != second.vocabulary:
        raise ValueError(f"{labelled} and {bare} have different vocabularies")
    (ours, ours_query, ours_document), (theirs, theirs_query, theirs_document) = _parts(first), _parts(second)
    vectors = (1 - share) * ours * np.sqrt(ours_query * ours_document)[:, None]
    vectors += share * theirs * np.sqrt(theirs_query * theirs_document)[:, None]
    learned = Learned(
        vectors=vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12),
        query_weights=(1 - share) * ours_query + share * theirs_query,
        document_weights=(1 - share) * ours_document + share * theirs_document,
        segment_weights=(1 - share) * first.segment_weights + share * second.segment_weights,
    )
    return pack(out, first.vocabulary, learned)


def _parts(weights: EmbeddingWeights) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Unit vectors of the pieces, and how much each counts in queries and in tools, 1 in the median."""
    rows = weights.vectors.astype(np.float32)
    lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
    query, document = weights.query_weights * lengths, weights.document_weights * lengths
    return rows / lengths[:, None], query / np.median(query), document / np.median(document)
