"""Cut text into the words that search matches; the same function serves indexing and queries.

Identifiers count in pieces (`listPullRequests`, `list_pull_requests`, `mp3ToWav`) and joined. In scripts
without spaces, each character is a word.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

import Stemmer

from maitred.word_lists import read_words

_IDENTIFIER = re.compile(r"[^\W_]+(?:[_\-./:]+[^\W_]+)*")
_PIECE = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_SEPARATORS = re.compile(r"[\W_]+")
_STEMMER = Stemmer.Stemmer("english", 0)  # its own cache would hold every word of every query
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0e7f]")

STOP_WORDS: Final = read_words(Path(__file__).with_name("data") / "words.tsv")["stop"]


def words(text: str) -> Iterator[str]:
    """Yield the words of a text, lower-case, in order; pieces of identifiers before their joined form."""
    for match in _IDENTIFIER.finditer(text):
        yield from _pieces(match.group(0))


def _pieces(token: str) -> tuple[str, ...]:
    pieces = [piece.lower() for piece in _PIECE.findall(token)]
    parts: list[str] = []
    for piece in pieces:
        parts += _UNSPACED.findall(piece) if _UNSPACED.search(piece) else [piece]
    with_spaces = [piece for piece in pieces if not _UNSPACED.search(piece)]
    return (*parts, "".join(with_spaces)) if len(with_spaces) > 1 else tuple(parts)


def query_words(text: str) -> list[str]:
    """Return the words of a query without repetition; stop words only if there are no others."""
    distinct = list(dict.fromkeys(words(text)))
    return [word for word in distinct if word not in STOP_WORDS] or distinct


def normalise_name(name: str) -> str:
    """Remove case and separators of a name, so that `listPRs`, `list_prs` and `list-prs` are the same."""
    return _SEPARATORS.sub("", name.casefold())


def index_terms(text: str) -> list[str]:
    """Return the stemmed words of a text, in order."""
    terms: list[str] = []
    for token in _IDENTIFIER.findall(text):
        terms += _terms(token)
    return terms


def identifiers(text: str) -> set[str]:
    """Return the words and identifiers of a text, each once, as they are written."""
    return set(_IDENTIFIER.findall(text))


def written_words(tokens: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the words of identifiers, lower-case, each with its stemmed form."""
    for token in tokens:
        yield from zip(_pieces(token), _terms(token), strict=True)


def word_term(word: str) -> str:
    """Return the stemmed form of a word."""
    return _term(word)


def query_terms(text: str) -> list[str]:
    """Return the stemmed words of a query without repetition; stop words only if there are no others."""
    return list(dict.fromkeys(_term(word) for word in query_words(text)))


def query_words_by_term(text: str) -> dict[str, str]:
    """Return the words of a query as they are typed, by their stemmed form, in order."""
    typed: dict[str, str] = {}
    for word in query_words(text):
        typed.setdefault(_term(word), word)
    return typed


def stop_words(text: str) -> list[str]:
    """Return the words of a query that do not count, each once."""
    counted = set(query_words(text))
    return [word for word in dict.fromkeys(words(text)) if word not in counted]


def term_trigrams(term: str) -> set[str]:
    """Return the groups of three letters in a word, its ends included."""
    word = f"^{term}$"
    return {word[at : at + 3] for at in range(len(word) - 2)}


@lru_cache(maxsize=50_000)  # the same identifiers occur in thousands of descriptions
def _terms(token: str) -> tuple[str, ...]:
    return tuple(_term(word) for word in _pieces(token))


def _term(word: str) -> str:
    if not word.isascii():
        word = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    return str(_STEMMER.stemWord(word))
