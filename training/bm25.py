"""A small field BM25 for hard negatives and for the report; the gateway's own search is not needed here."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import Stemmer
from numpy.typing import NDArray

from maitred.search.base import ToolDocument
from maitred.search.tokenize import STOP_WORDS, words

_K1 = 1.2
_B = 0.75
_WEIGHTS = (3.0, 1.0, 0.5, 0.4)  # name, description, parameters, server


class Bm25:
    """Scores all tools of one set for a query."""

    def __init__(self, tools: Sequence[ToolDocument]) -> None:
        self._stemmer = Stemmer.Stemmer("english")
        self._stems: dict[str, str] = {}
        fields = [[self._terms(text) for text in _fields(tool)] for tool in tools]
        lengths = np.array([[len(field) for field in one] for one in fields], float)
        factors = np.array(_WEIGHTS) / (1 - _B + _B * lengths / np.maximum(lengths.mean(0), 1e-9))
        postings: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for row, one in enumerate(fields):
            for field, factor in zip(one, factors[row], strict=True):
                for term in field:
                    postings[term][row] += factor
        self._count = len(tools)
        self._postings = {term: self._weighted(rows) for term, rows in postings.items()}

    def scores(self, query: str) -> NDArray[np.float64]:
        """One score a tool; 0 where no word matches."""
        scores = np.zeros(self._count)
        for term in dict.fromkeys(self._terms(query)):
            if term in self._postings:
                rows, gains = self._postings[term]
                scores[rows] += gains
        return scores

    def _weighted(self, found: dict[int, float]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        idf = np.log1p((self._count - len(found) + 0.5) / (len(found) + 0.5))
        frequency = np.array(list(found.values()))
        return np.array(list(found), np.intp), idf * frequency / (frequency + _K1)

    def _terms(self, text: str) -> list[str]:
        found = []
        for word in words(text):
            if word not in STOP_WORDS:
                stem = self._stems.get(word)
                if stem is None:
                    stem = self._stems[word] = self._stemmer.stemWord(word)
                found.append(stem)
        return found


def _fields(tool: ToolDocument) -> tuple[str, str, str, str]:
    about = " ".join(f"{name} {text}" for name, text in tool.parameters)
    return tool.name, f"{tool.title} {tool.description}", about, tool.server
