"""Writes the weights file: int8 rows, their scales folded into the weights of the pieces."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.train import Learned

_FORMAT = "static-en-1"


def pack(path: Path, vocabulary: Sequence[str], learned: Learned) -> str:
    """Write the file and return the name of the model, which contains a hash of all that is in it."""
    scales = np.maximum(np.abs(learned.vectors).max(1), 1e-12) / 127
    arrays = {
        "vocabulary": np.frombuffer("\n".join(vocabulary).encode("ascii"), np.uint8),
        "vectors": np.round(learned.vectors / scales[:, None]).astype(np.int8),
        "query_weights": _half(learned.query_weights * scales),
        "document_weights": _half(learned.document_weights * scales),
        "segment_weights": learned.segment_weights.astype(np.float32),
    }
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(name.encode())
        digest.update(array.tobytes())
    model = f"{_FORMAT}-{digest.hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, model=np.frombuffer(model.encode(), np.uint8), **arrays)
    return model


def _half(weights: NDArray[np.float32]) -> NDArray[np.float16]:
    """In half precision; only the proportions matter, so the greatest becomes 1,000."""
    halves: NDArray[np.float16] = (weights * (1_000 / weights.max())).astype(np.float16)
    return halves
