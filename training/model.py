"""The model while it learns: the same sums as `maitred.search.static_embedder`, in torch."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from maitred.search.static_embedder import SEGMENTS
from training.cut import Bags
from training.teacher import WIDTH

_FIRST_SEGMENT_WEIGHTS = (1.0, 1.0, 0.5, 0.3, 0.3)


class Student(nn.Module):
    """A table of vectors, weights of pieces for queries and for tools, and weights of segments."""

    def __init__(self, vectors: Tensor, piece_weights: Tensor) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors.clone())
        self.query_logs = nn.Parameter(piece_weights.log())
        self.tool_logs = nn.Parameter(piece_weights.log())
        self.segment_logs = nn.Parameter(torch.tensor(_FIRST_SEGMENT_WEIGHTS).log())
        self.sharpness = nn.Parameter(torch.tensor(3.0))
        self.to_teacher = nn.Parameter(torch.zeros(vectors.shape[1], WIDTH))

    def queries(self, bags: Bags) -> Tensor:
        """Vectors of queries, of length 1."""
        return functional.normalize(self._sums(bags, self.query_logs), dim=-1)

    def tools(self, bags: Bags) -> Tensor:
        """Vectors of tools, of length 1; `bags` has five lists a tool."""
        sums = self._sums(bags, self.tool_logs)
        parts = functional.normalize(sums, dim=-1).reshape(-1, SEGMENTS, sums.shape[1])
        mixed = torch.einsum("s,nsd->nd", self.segment_logs.exp(), parts)
        return functional.normalize(mixed, dim=-1)

    def scale(self) -> Tensor:
        """What cosines are multiplied with before the softmax."""
        return self.sharpness.clamp(max=4.6).exp()

    def _sums(self, bags: Bags, logs: Tensor) -> Tensor:
        weights = logs.exp()[bags.ids]
        return functional.embedding_bag(
            bags.ids, self.vectors, bags.offsets, mode="sum", per_sample_weights=weights
        )
