"""Training: contrastive learning of labelled and of self-made pairs, and imitation of the teacher."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from training.cut import Pieces, QueryPieces, ToolPieces, bags, dropped, tool_bags
from training.distil import Start
from training.model import Student
from training.pairs import LabelledPool, SelfPool, self_batch

_LABELLED = 256
_SELF = 512
_HARD = 2
_IMITATED = 256
_RATE = 3e-3
_IMITATION = 10.0
_DROPPED = 0.15
_MINED = 20

SELF_SHARES = {"real": 0.4, "tooluniverse": 0.15, "aws": 0.2, "google": 0.1, "sets": 0.15}
SET_SHARES = {"metatool": 0.25, "bfcl": 0.25, "sealtools": 0.35, "apibench": 0.15}


@dataclass(frozen=True, kw_only=True)
class Imitation:
    """Texts with the vectors that the teacher gave them, as queries and as tools."""

    queries: Sequence[Pieces]
    query_targets: NDArray[np.float32]
    tools: Sequence[ToolPieces]
    tool_targets: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Learned:
    """The result of training: see `maitred.search.static_embedder.Weights`."""

    vectors: NDArray[np.float32]
    query_weights: NDArray[np.float32]
    document_weights: NDArray[np.float32]
    segment_weights: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """What one step learns from; all is embedded in one go, for that is quicker.

    Attributes:
        wholes: The labelled queries.
        clauses: Their clauses.
        owners: For each clause the position of its query.
        masked: Labelled queries x labelled tools: right as well, so not a negative.
        selves: The query halves of self-made pairs.
        queries: Queries whose teacher vectors are known, at `query_rows` of the imitation.
        labelled_tools: First the right one of each labelled query, then hard negatives.
        self_tools: The tool halves of self-made pairs.
        tools: Tools whose teacher vectors are known, at `tool_rows`.
    """

    wholes: Sequence[Pieces]
    clauses: Sequence[Pieces]
    owners: Sequence[int]
    masked: Tensor
    selves: Sequence[Pieces]
    queries: Sequence[Pieces]
    query_rows: NDArray[np.int64]
    labelled_tools: Sequence[ToolPieces]
    self_tools: Sequence[ToolPieces]
    tools: Sequence[ToolPieces]
    tool_rows: NDArray[np.int64]


class Trainer:
    """Trains one model from a start; everything random comes from `seed`."""

    def __init__(
        self,
        start: Start,
        labelled: Sequence[LabelledPool],
        unlabelled: Mapping[str, SelfPool],
        imitation: Imitation,
        *,
        seed: int,
    ) -> None:
        torch.manual_seed(seed)
        self._random = np.random.default_rng(seed)
        self._student = Student(torch.from_numpy(start.vectors), torch.from_numpy(start.weights))
        with torch.no_grad():
            self._student.to_teacher.copy_(torch.from_numpy(start.axes))
        self._labelled = labelled
        self._hard = [[list(hard) for hard in pool.hard] for pool in labelled]
        self._unlabelled = unlabelled
        self._imitation = imitation

    def run(self, steps: int, progress: Callable[[float], None]) -> Learned:
        """Train; `progress` is told each step's loss."""
        optimiser = torch.optim.Adam(self._student.parameters(), lr=_RATE)
        decay = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: max(0.02, 1 - step / steps))
        for step in range(steps):
            if step in {steps // 3, 2 * steps // 3}:
                self._mine()
            optimiser.zero_grad(set_to_none=True)
            loss = self._loss()
            loss.backward()
            optimiser.step()
            decay.step()
            progress(float(loss.detach()))
        return self._learned()

    # --- a step -------------------------------------------------------------------------------------------

    def _loss(self) -> Tensor:
        batch = self._batch()
        groups = [batch.wholes, batch.clauses, batch.selves, batch.queries]
        queries = self._student.queries(
            bags([dropped(one, _DROPPED, self._random) for g in groups for one in g])
        )
        wholes, clauses, selves, imitating = queries.split([len(group) for group in groups])
        kinds = [batch.labelled_tools, batch.self_tools, batch.tools]
        tools = self._student.tools(tool_bags([tool for kind in kinds for tool in kind]))
        labelled, self_tools, imitating_tools = tools.split([len(kind) for kind in kinds])
        data = self._imitation
        far = self._distance(imitating_tools, data.tool_targets[batch.tool_rows])
        far = far + self._distance(imitating, data.query_targets[batch.query_rows])
        right = torch.arange(len(selves))
        loss = functional.cross_entropy(selves @ self_tools.T * self._student.scale(), right)
        loss = loss + _IMITATION / 2 * far
        return loss + self._labelled_loss(batch, wholes, clauses, labelled) if len(wholes) else loss

    def _labelled_loss(self, batch: _Batch, wholes: Tensor, clauses: Tensor, tools: Tensor) -> Tensor:
        """As search ranks: half the cosine of the whole query, half that of its best clause."""
        whole, parts = wholes @ tools.T, clauses @ tools.T
        owners = torch.tensor(batch.owners)[:, None].expand_as(parts)
        best = torch.full_like(whole, -2.0).scatter_reduce(0, owners, parts, "amax")
        scale = self._student.scale()
        right = torch.arange(len(whole))
        both = ((whole + best) * (scale / 2)).masked_fill(batch.masked, -torch.inf)
        alone = (whole * scale).masked_fill(batch.masked, -torch.inf)
        return 0.7 * functional.cross_entropy(both, right) + 0.3 * functional.cross_entropy(alone, right)

    def _distance(self, vectors: Tensor, targets: NDArray[np.float32]) -> Tensor:
        seen = functional.normalize(vectors @ self._student.to_teacher, dim=-1)
        return 1 - (seen * torch.from_numpy(targets)).sum(-1).mean()

    # --- batches ------------------------------------------------------------------------------------------

    def _batch(self) -> _Batch:
        data = self._imitation
        queries, keys, masked = self._labelled_part() if self._labelled else ([], [], torch.zeros(0))
        pairs = self_batch(self._unlabelled, SELF_SHARES, _SELF, self._random)
        query_rows = self._random.integers(len(data.queries), size=_IMITATED)
        tool_rows = self._random.integers(len(data.tools), size=_IMITATED)
        return _Batch(
            wholes=[query.whole for query in queries],
            clauses=[part for query in queries for part in _parts(query)],
            owners=[number for number, query in enumerate(queries) for _ in _parts(query)],
            masked=masked,
            selves=[query for query, _ in pairs],
            queries=[data.queries[row] for row in query_rows],
            query_rows=query_rows,
            labelled_tools=[self._labelled[one].tools[row] for one, row in keys],
            self_tools=[tool for _, tool in pairs],
            tools=[data.tools[row] for row in tool_rows],
            tool_rows=tool_rows,
        )

    def _labelled_part(self) -> tuple[list[QueryPieces], list[tuple[int, int]], Tensor]:
        """Queries; the set and row of their tools; and which of these are no negatives."""
        shares = np.array([SET_SHARES[pool.name] for pool in self._labelled])
        queries, gold, negatives = [], [], []
        for one in self._random.choice(len(shares), _LABELLED, p=shares / shares.sum()):
            number = int(self._random.integers(len(self._labelled[one].queries)))
            pool, hard = self._labelled[one], self._hard[one][number]
            queries.append(pool.queries[number])
            gold.append((int(one), int(self._random.choice(pool.gold[number])), pool.gold[number]))
            negatives += [(int(one), int(row)) for row in self._random.choice(hard, _HARD)]
        keys = [(one, right) for one, right, _ in gold] + negatives
        return queries, keys, _masked(keys, gold)

    @torch.inference_mode()
    def _mine(self) -> None:
        """Add to the hard negatives of each query the wrong tools that the model now finds."""
        for pool, hard in zip(self._labelled, self._hard, strict=True):
            tools = self._student.tools(tool_bags(pool.tools))
            found = self._student.queries(bags([query.whole for query in pool.queries])) @ tools.T
            best = found.topk(min(_MINED, found.shape[1])).indices.tolist()
            for number, rows in enumerate(best):
                words = pool.hard[number]
                hard[number] = [*words, *(row for row in rows if row not in pool.gold[number])]

    def _learned(self) -> Learned:
        student = self._student
        return Learned(
            vectors=student.vectors.detach().numpy().copy(),
            query_weights=student.query_logs.detach().exp().numpy(),
            document_weights=student.tool_logs.detach().exp().numpy(),
            segment_weights=student.segment_logs.detach().exp().numpy(),
        )


def _parts(query: QueryPieces) -> Sequence[Pieces]:
    return query.clauses or [query.whole]


def _masked(keys: Sequence[tuple[int, int]], gold: Sequence[tuple[int, int, Sequence[int]]]) -> Tensor:
    """Where a tool of the batch is right for a query, other than the one that stands for it."""
    numbers = np.array([one * 1_000_000 + row for one, row in keys])
    most = max(len(all_right) for _, _, all_right in gold)
    right = np.full((len(gold), most), -1)
    for number, (one, _, all_right) in enumerate(gold):
        right[number, : len(all_right)] = [one * 1_000_000 + row for row in all_right]
    masked = (numbers[None, :, None] == right[:, None, :]).any(-1)
    masked[np.arange(len(gold)), np.arange(len(gold))] = False
    return torch.from_numpy(masked)
