"""The embedder that ships with the package: the average of word-piece vectors. English; numpy only.

`training/` makes the table, `weights/MODEL_CARD.md` describes it. A tool has five segments (name, first
sentence, rest, parameter names, server). Each becomes the weighted mean of its pieces at length 1, and the
tool is their weighted sum at length 1. A query is one such mean, with other weights for its pieces.
"""

import re
import unicodedata
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maitred.search.base import ToolDocument, Vectors

WEIGHTS = Path(__file__).parent / "weights" / "static.npz"
SEGMENTS = 5
_LIMITS = (24, 48, 96, 64, 16)  # pieces that count of each segment
_QUERY_PIECES = 512
_QUERY_CHARACTERS = 8_000
_LONGEST_RUN = 40
_CHUNK = 256  # tools or queries at a time, a bound on memory
_GROUP = 20  # lists of pieces at a time, so that their vectors stay in the processor's cache

_RUN = re.compile(r"[A-Za-z0-9]+|[$%&+#@\u20ac\u00a3\u00b0]")
_PIECE = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

Ids = NDArray[np.intp]


class Tokeniser:
    """Cuts text into the pieces of a vocabulary, where `##x` is a piece within a word."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids: Mapping[str, int] = {piece: number for number, piece in enumerate(vocabulary)}
        self._run = lru_cache(maxsize=60_000)(self._cut_run)

    def ids(self, text: str, limit: int) -> list[int]:
        """Return the numbers of the text's pieces in order, at most `limit`; unknown pieces are dropped."""
        ids: list[int] = []
        for run in _RUN.findall(plain(text)):
            ids += self._run(run)
            if len(ids) >= limit:
                return ids[:limit]
        return ids

    def _cut_run(self, run: str) -> tuple[int, ...]:
        whole_run = self._ids.get(run.lower())
        if whole_run is not None:
            return (whole_run,)
        if len(run) > _LONGEST_RUN:
            return ()
        return tuple(i for piece in _PIECE.findall(run) for i in self._cut_word(piece.lower()))

    def _cut_word(self, word: str) -> list[int]:
        """Cut a word into its longest pieces from the left; none if its rest has no piece."""
        ids: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._ids.get(prefix + word[start:end])
                if number is not None:
                    ids.append(number)
                    start = end
                    break
            else:
                return []
        return ids


def plain(text: str) -> str:
    """Remove accents, so that `résumé` is `resume`."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def runs(text: str) -> list[str]:
    """Return the runs of letters and digits, and the symbols, that the vocabulary may have as a whole."""
    return _RUN.findall(plain(text))


def words_of_run(run: str) -> list[str]:
    """Return the words of an identifier, lower-case: `listURLs` is `list`, `urls`."""
    return [piece.lower() for piece in _PIECE.findall(run)]


def segments(document: ToolDocument) -> tuple[str, str, str, str, str]:
    """Return the five texts of a tool: name and title, first sentence, rest, parameter names, server."""
    first, _, rest = _split_once(document.description)
    name = f"{document.name} {document.title}" if document.title else document.name
    return name, first, rest, " ".join(p for p, _ in document.parameters), document.server


def _split_once(text: str) -> tuple[str, str, str]:
    text = text.strip()
    match = _SENTENCE_END.search(text)
    return (text[: match.start()], match.group(0), text[match.end() :]) if match else (text, "", "")


def document_pieces(tokeniser: Tokeniser, document: ToolDocument) -> list[list[int]]:
    """Return the pieces of the five segments of a tool."""
    texts = segments(document)
    return [tokeniser.ids(text, limit) for text, limit in zip(texts, _LIMITS, strict=True)]


def query_pieces(tokeniser: Tokeniser, text: str) -> list[int]:
    """Return the pieces of a query that count."""
    return tokeniser.ids(text[:_QUERY_CHARACTERS], _QUERY_PIECES)


@dataclass(frozen=True, kw_only=True)
class EmbeddingWeights:
    """The result of training.

    Attributes:
        model: The name of these weights, by their content.
        vocabulary: The V pieces.
        vectors: V x D, int8; the scale of each row is part of both piece weights.
        query_weights: V, float32: the weight of a piece in a query.
        document_weights: V, float32: the weight of a piece in a tool.
        segment_weights: 5, float32.
    """

    model: str
    vocabulary: Sequence[str]
    vectors: NDArray[np.int8]
    query_weights: NDArray[np.float32]
    document_weights: NDArray[np.float32]
    segment_weights: NDArray[np.float32]


def load(path: Path) -> EmbeddingWeights:
    """Read a weights file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a whole weights file of this format.
    """
    try:
        with path.open("rb") as data, np.load(data, allow_pickle=False) as file:
            weights = _unpack(file)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"the weights of the built-in embedder are missing: {path}") from error
    except (zipfile.BadZipFile, KeyError, EOFError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(
            f"the weights of the built-in embedder are damaged ({error}): {path}. Install maitred again."
        ) from error
    return weights


def read_vocabulary(path: Path) -> Sequence[str]:
    """Read the pieces of a weights file alone.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a weights file of this format.
    """
    try:
        with path.open("rb") as data, np.load(data, allow_pickle=False) as file:
            return _pieces_of(file)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ValueError(f"the weights are damaged ({error}): {path}") from error


def _pieces_of(file: Mapping[str, NDArray[Any]]) -> Sequence[str]:
    return file["vocabulary"].tobytes().decode("ascii").split("\n")


def _unpack(file: Mapping[str, NDArray[Any]]) -> EmbeddingWeights:
    vocabulary = _pieces_of(file)
    weights = EmbeddingWeights(
        model=file["model"].tobytes().decode("ascii"),
        vocabulary=vocabulary,
        vectors=file["vectors"],
        query_weights=file["query_weights"].astype(np.float32),
        document_weights=file["document_weights"].astype(np.float32),
        segment_weights=file["segment_weights"].astype(np.float32),
    )
    count = len(vocabulary)
    per_piece = (weights.query_weights, weights.document_weights)
    if weights.vectors.dtype != np.int8 or weights.vectors.ndim != 2 or len(weights.vectors) != count:  # noqa: PLR2004
        raise ValueError("the table does not fit the vocabulary")
    if any(one.shape != (count,) for one in per_piece) or weights.segment_weights.shape != (SEGMENTS,):
        raise ValueError("the piece or segment weights have another shape")
    return weights


class StaticEmbedder:
    """Averages the bundled word-piece vectors.

    The first use of `model`, `documents` or `queries` reads the weights, not the constructor. Each of the
    three therefore raises `OSError` or `ValueError` if the file is missing or damaged. Thread-safe.
    """

    is_quick = True

    def __init__(self, path: Path = WEIGHTS) -> None:
        self._path = path
        self._lock = Lock()

    @property
    def model(self) -> str:
        """The name of the weights, by their content."""
        return self._table.weights.model

    def documents(self, documents: Sequence[ToolDocument]) -> Vectors:
        """Return vectors of tools: float32, one row each, of length 1, or 0 if no piece is known."""
        table = self._table
        chunks = [documents[i : i + _CHUNK] for i in range(0, len(documents), _CHUNK)]
        return np.concatenate([table.empty, *(table.documents(chunk) for chunk in chunks)])

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of queries: float32, one row each, of length 1, or 0 if no piece is known."""
        table = self._table
        chunks = [texts[i : i + _CHUNK] for i in range(0, len(texts), _CHUNK)]
        return np.concatenate([table.empty, *(table.queries(chunk) for chunk in chunks)])

    @property
    def _table(self) -> "_Table":
        with self._lock:
            return self._loaded_table

    @cached_property
    def _loaded_table(self) -> "_Table":
        return _Table(load(self._path))


class _Table:
    """Weights, ready for averages."""

    def __init__(self, weights: EmbeddingWeights) -> None:
        self.weights = weights
        self.tokeniser = Tokeniser(weights.vocabulary)
        self.empty = np.zeros((0, weights.vectors.shape[1]), np.float32)

    def documents(self, documents: Sequence[ToolDocument]) -> Vectors:
        """Return vectors of a few tools."""
        pieces = [part for document in documents for part in document_pieces(self.tokeniser, document)]
        parts = self._sums(pieces, self.weights.document_weights)
        parts = parts.reshape(len(documents), SEGMENTS, -1)
        lengths = np.sqrt(np.einsum("nsd,nsd->ns", parts, parts))
        shares = self.weights.segment_weights / np.maximum(lengths, 1e-9)
        return _at_length_1(np.einsum("ns,nsd->nd", shares, parts))

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of a few queries."""
        pieces = [query_pieces(self.tokeniser, text) for text in texts]
        return _at_length_1(self._sums(pieces, self.weights.query_weights))

    def _sums(self, pieces: Sequence[Sequence[int]], weights: NDArray[np.float32]) -> Vectors:
        """Return the weighted sum of the vectors of each list of pieces."""
        sums = np.zeros((len(pieces), self.weights.vectors.shape[1]), np.float32)
        for first in range(0, len(pieces), _GROUP):
            group = pieces[first : first + _GROUP]
            ids = np.array(list(chain.from_iterable(group)), np.intp)
            lengths = np.array([len(part) for part in group], np.intp)
            filled = np.flatnonzero(
                lengths
            )  # `reduceat` would give an empty part the next one's first vector
            if len(filled):
                weighted = self.weights.vectors[ids].astype(np.float32) * weights[ids][:, None]
                starts = (np.cumsum(lengths) - lengths)[filled]
                sums[first + filled] = np.add.reduceat(weighted, starts, axis=0)
        return sums


def _at_length_1(vectors: Vectors) -> Vectors:
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
    units: Vectors = vectors / np.maximum(lengths, np.float32(1e-9))
    return units
