"""Measures models on queries that nobody trained on: alone, and together with field BM25."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from maitred.search.base import ToolDocument
from training.bm25 import Bm25
from training.clauses import clauses
from training.labelled import LabelledSet, Query
from training.teacher import Teacher

_TOP = 100
_LEXICAL_SHARE = 0.5

Scores = NDArray[np.float64]


class Model(Protocol):
    """What is measured: an `Embedder`, or the teacher in its clothes."""

    def documents(self, documents: Sequence[ToolDocument]) -> NDArray[np.float32]:
        """Vectors of tools, of length 1."""
        ...

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of queries, of length 1."""
        ...


class TeacherModel:
    """The teacher as a search model; it reads a tool as one text."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher

    def documents(self, documents: Sequence[ToolDocument]) -> NDArray[np.float32]:
        """Vectors of tools, of length 1."""
        return self._teacher.embed([document.text for document in documents])

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of queries, of length 1."""
        return self._teacher.embed(texts, tokens=256)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Means over the queries of a set, x100."""

    recall_5: float
    ndcg_10: float


def lexical_scores(one: LabelledSet) -> Scores:
    """Queries x tools."""
    index = Bm25(one.tools)
    return np.array([index.scores(query.text) for query in one.held_back])


def dense_scores(one: LabelledSet, model: Model) -> Scores:
    """Queries x tools: half the cosine of the whole query, half that of its best clause."""
    tools = model.documents(one.tools)
    whole = model.queries([query.text for query in one.held_back]) @ tools.T
    parts = [clauses(query.text) for query in one.held_back]
    flat = model.queries([part for some in parts for part in some]) @ tools.T
    starts = np.cumsum([0, *(len(some) for some in parts[:-1])])
    return (whole + np.maximum.reduceat(flat, starts, axis=0)).astype(np.float64) / 2


def fused(lexical: Scores, dense: Scores) -> Scores:
    """The convex sum of both, each between 0 and 1 over its hundred best."""
    return _LEXICAL_SHARE * _scaled(lexical) + (1 - _LEXICAL_SHARE) * _scaled(dense)


def figures(queries: Sequence[Query], scores: Scores) -> Figures:
    """Recall in the first five and NDCG of the first ten."""
    recalls, gains = [], []
    discounts = 1 / np.log2(np.arange(2, 12))
    for query, row in zip(queries, scores, strict=True):
        order = np.argsort(-row, kind="stable")[:10]
        right = np.isin(order, query.gold) & (row[order] > 0)
        recalls.append(right[:5].sum() / len(query.gold))
        gains.append((right * discounts[: len(right)]).sum() / discounts[: len(query.gold)].sum())
    return Figures(recall_5=100 * float(np.mean(recalls)), ndcg_10=100 * float(np.mean(gains)))


def measure(
    sets: Sequence[LabelledSet], models: dict[str, Model], progress: Callable[[str], None]
) -> dict[str, dict[str, Figures]]:
    """Figures by way of ranking, then by set."""
    found: dict[str, dict[str, Figures]] = {"lexical": {}}
    for one in sets:
        lexical = lexical_scores(one)
        found["lexical"][one.name] = figures(one.held_back, lexical)
        for name, model in models.items():
            progress(f"{name} on {one.name}")
            dense = dense_scores(one, model)
            found.setdefault(f"{name} dense", {})[one.name] = figures(one.held_back, dense)
            found.setdefault(f"{name} hybrid", {})[one.name] = figures(one.held_back, fused(lexical, dense))
    return found


def table(found: dict[str, dict[str, Figures]]) -> Table:
    """The figures as a table: R@5 / NDCG@10."""
    shown = Table(title="R@5 / NDCG@10, x100, on queries that were held back")
    shown.add_column("ranking")
    for name in found["lexical"]:
        shown.add_column(name, justify="right")
    for ranking, by_set in found.items():
        shown.add_row(ranking, *(f"{f.recall_5:.1f} / {f.ndcg_10:.1f}" for f in by_set.values()))
    return shown


def _scaled(scores: Scores) -> Scores:
    count = min(_TOP, scores.shape[1])
    least = np.partition(scores, -count, axis=1)[:, -count][:, None]
    greatest = scores.max(1, keepdims=True)
    scaled: Scores = np.clip((scores - least) / np.maximum(greatest - least, 1e-9), 0, 1)
    return scaled
