"""Tools and queries as piece numbers, and how a batch of them is laid out for torch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maitred.search.base import ToolDocument
from maitred.search.static_embedder import SEGMENTS, Tokeniser, document_pieces, query_pieces
from training.clauses import clauses

Pieces = Sequence[int]
ToolPieces = Sequence[Pieces]
"""The five segments of a tool."""


@dataclass(frozen=True, kw_only=True)
class QueryPieces:
    """A query whole and in clauses."""

    whole: Pieces
    clauses: Sequence[Pieces]


@dataclass(frozen=True, kw_only=True)
class Bags:
    """Lists of pieces, laid end to end.

    Attributes:
        ids: All piece numbers.
        offsets: Where each list starts.
    """

    ids: Tensor
    offsets: Tensor


def cut_tool(tokeniser: Tokeniser, tool: ToolDocument) -> ToolPieces:
    """The pieces of a tool."""
    return document_pieces(tokeniser, tool)


def cut_query(tokeniser: Tokeniser, text: str) -> QueryPieces:
    """The pieces of a query and of its clauses."""
    parts = [query_pieces(tokeniser, part) for part in clauses(text)]
    return QueryPieces(whole=query_pieces(tokeniser, text), clauses=[part for part in parts if part])


def bags(lists: Sequence[Pieces]) -> Bags:
    """Lay lists out."""
    lengths = [len(one) for one in lists]
    ids = np.fromiter((i for one in lists for i in one), np.int64, sum(lengths))
    offsets = np.cumsum([0, *lengths[:-1]]) if lengths else np.zeros(0, np.int64)
    return Bags(ids=torch.from_numpy(ids), offsets=torch.from_numpy(np.asarray(offsets, np.int64)))


def tool_bags(tools: Sequence[ToolPieces]) -> Bags:
    """Lay tools out, five lists each."""
    return bags([segment for tool in tools for segment in tool])


def dropped(pieces: Pieces, share: float, random: np.random.Generator) -> Pieces:
    """The pieces without a random share of them, but never without all."""
    if len(pieces) < 3:  # noqa: PLR2004
        return pieces
    keep: NDArray[np.bool_] = random.random(len(pieces)) >= share
    return [piece for piece, kept in zip(pieces, keep, strict=True) if kept] or pieces


def without(tool: ToolPieces, *segments: int) -> ToolPieces:
    """The tool with some segments empty."""
    return [() if number in segments else tool[number] for number in range(SEGMENTS)]
