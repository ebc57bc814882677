"""The first table: every entry through the teacher, on fewer dimensions; and how frequent entries are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maitred.search.base import ToolDocument
from maitred.search.static_embedder import Tokeniser, document_pieces
from training.teacher import Teacher

DIMENSIONS = 256
_RARE = 1e-3
"""The frequency at which a piece counts half."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where training starts.

    Attributes:
        vectors: V x 256.
        weights: V; frequent pieces count less.
        axes: 256 x 384, the way back to the teacher's space.
    """

    vectors: NDArray[np.float32]
    weights: NDArray[np.float32]
    axes: NDArray[np.float32]


def distil(
    teacher: Teacher,
    vocabulary: Sequence[str],
    tools: Sequence[ToolDocument],
    progress: Callable[[int], None],
) -> Start:
    """The teacher's view of each entry alone, on its 256 main axes."""
    full = teacher.embed_tokens([teacher.of_piece(piece) for piece in vocabulary], progress=progress)
    full = full - full.mean(0)
    _, axes = np.linalg.eigh((full.T @ full).astype(np.float64))
    axes = axes[:, ::-1][:, :DIMENSIONS].T
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])[:, None]
    axes = axes.astype(np.float32)
    frequency = _frequencies(Tokeniser(vocabulary), len(vocabulary), tools)
    weights = (_RARE / (_RARE + frequency)).astype(np.float32)
    return Start(vectors=full @ axes.T, weights=weights, axes=axes)


def _frequencies(tokeniser: Tokeniser, count: int, tools: Sequence[ToolDocument]) -> NDArray[np.float64]:
    found = np.ones(count)
    for tool in tools:
        for part in document_pieces(tokeniser, tool):
            np.add.at(found, part, 1)
    shares: NDArray[np.float64] = found / found.sum()
    return shares
