"""Rank the servers of a registry for a few words, by words and by meaning, as tools are ranked.

The list is indexed for one question and forgotten again: a person asks seldom, and an index would be one
more thing to keep.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from maitred.registry.entries import RegistryEntry
from maitred.search.base import ToolDocument
from maitred.search.fusion import fuse
from maitred.search.lexical import LexicalIndex
from maitred.search.static_embedder import StaticEmbedder
from maitred.search.tokenize import normalise_name, query_terms

_LEAST_MEANING: Final = 0.4
"""The cosine from which an entry without any of the words is an answer."""


def rank(entries: Sequence[RegistryEntry], words: str) -> Sequence[RegistryEntry]:
    """The entries that fit the words, best first; without words, all of them."""
    terms = query_terms(words)
    if not entries or not terms:
        return entries
    documents = [_document(entry) for entry in entries]
    index = LexicalIndex()
    index.add(range(len(documents)), documents, len(documents))
    lexical = index.search(terms, len(documents))
    embedder = StaticEmbedder()
    cosines = (embedder.documents(documents) @ embedder.queries([words])[0]).astype(np.float32)
    ranking = fuse(lexical, cosines, np.ones(len(documents), np.bool_))
    rows = [int(r) for r in ranking.rows if lexical.scores[r] > 0 or cosines[r] >= _LEAST_MEANING]
    named = normalise_name(words)
    rows.sort(key=lambda row: not _is_called(entries[row], named))  # stable: the rest stays in its order
    return [entries[row] for row in rows]


def _is_called(entry: RegistryEntry, name: str) -> bool:
    return name in (normalise_name(entry.name), normalise_name(entry.name.rpartition("/")[2]))


def _document(entry: RegistryEntry) -> ToolDocument:
    namespace, _, name = entry.name.rpartition("/")
    return ToolDocument(
        name=name, server=namespace, title=entry.title, description=entry.description, parameters=()
    )
