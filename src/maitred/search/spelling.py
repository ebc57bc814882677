"""Replace mistyped words of a phrase by words of the catalog, so that both halves of search read those.

A word is mistyped if neither the catalog nor the vocabulary of the built-in embedder has it. Where that is so
for most words of a phrase, the phrase is in another language and stays as it is.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from string import ascii_lowercase
from typing import Final

import numpy as np

from maitred.search.static_embedder import WEIGHTS, read_vocabulary
from maitred.search.tokenize import identifiers, word_term, written_words

_SHORTEST: Final = 4
_LONGEST: Final = 24
_TWO_EDITS_FROM: Final = 6
"""Letters of a word from which on two edits are allowed."""
_USUAL_FROM: Final = 7
"""Letters of a word from which on it may be read as one that no tool has; shorter ones are often names."""
_EDITS: Final = 2
_KNOWN_TOKENS: Final = 50_000
_COMPARED: Final = 300
"""Words that are compared letter by letter, a bound on time: a server may have any number of words alike."""
_MOST: Final = 12
"""Words of a phrase that are corrected, a bound on time."""
_WORD: Final = re.compile(rf"(?<![^\W_])[^\W\d_]{{{_SHORTEST},}}(?![^\W_])")
_LETTERS: Final = re.compile(r"[a-z]+")
_A: Final = ord("a")


@dataclass(frozen=True, kw_only=True)
class Respelling:
    """A phrase with words of the catalog in place of mistyped ones, and those words by what was typed."""

    text: str
    corrections: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Lexicon:
    """What a catalog says of words; `counts` returns for indexed terms how many tools have each."""

    counts: Callable[[Iterable[str]], Mapping[str, int]]
    spellings: "Spellings"


def has_strange_words(text: str) -> bool:
    """Whether the embedder's vocabulary lacks a word of a text: only then is there something to correct."""
    return any(not is_usual_word(word) for word in _words(text))


def respell(text: str, lexicon: Lexicon) -> Respelling:
    """Replace the mistyped words of a text by the nearest words, of these by the commonest."""
    words = dict.fromkeys(_words(text))
    strange = [word for word in words if not is_usual_word(word)]
    known = lexicon.counts(word_term(word) for word in strange)
    mistyped = [word for word in strange if not known[word_term(word)]]
    if len(words) > 1 and 2 * len(mistyped) > len(words):
        return Respelling(text=text)
    is_single = len(words) == 1  # it may be a word of another language
    found = {
        word: _nearest(word, lexicon, only_near=is_single)
        for word in mistyped[:_MOST]
        if len(word) <= _LONGEST and _LETTERS.fullmatch(word)
    }
    corrections = {word: other for word, other in found.items() if other}
    if not corrections:
        return Respelling(text=text)
    read = _WORD.sub(lambda match: corrections.get(match[0].lower(), match[0]), text)
    return Respelling(text=read, corrections=corrections)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _nearest(word: str, lexicon: Lexicon, *, only_near: bool) -> str:
    """Return the word that a mistyped one is read as; empty if none is near enough.

    Words within one edit come first: those of the catalog, then for a long word those that the embedder
    knows. `only_near` takes the first alone.
    """
    usual = _vocabulary()[0]
    near = _within_one(word, lexicon.spellings.terms, usual)
    if found := _commonest(lexicon.spellings.those_of(near), lexicon):
        return found
    if only_near:
        return ""
    if len(word) >= _USUAL_FROM and (others := [other for other in near if other in usual]):
        return min(others, key=usual.__getitem__)  # the vocabulary begins with the usual words
    return _commonest(lexicon.spellings.within_two(word), lexicon) if len(word) >= _TWO_EDITS_FROM else ""


def _commonest(words: Mapping[str, str], lexicon: Lexicon) -> str:
    """Return the word that most tools have, from words with their terms."""
    counts = lexicon.counts(words.values())
    best = max(words, key=lambda word: (counts[words[word]], word), default="")
    return best if best and counts[words[best]] else ""


def _within_one(word: str, words: Mapping[str, object], more: Mapping[str, object]) -> set[str]:
    """Return which of some words are one edit away.

    An edit is a letter left out, swapped with the next, replaced or added.
    """
    parts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    shorter = [before + after[1:] for before, after in parts if after]
    swapped = [before + after[1] + after[0] + after[2:] for before, after in parts if after[1:]]
    near = {other for other in shorter + swapped if other in words or other in more}
    near.update(
        [
            other
            for before, after in parts
            for letter in ascii_lowercase
            for other in (before + letter + after, before + letter + after[1:])
            if other in words or other in more
        ]
    )
    return near


# --- the embedder's vocabulary ----------------------------------------------------------------------------


def is_usual_word(word: str) -> bool:
    """Whether the embedder knows a lower-case word of four letters or more, or a form of it, whole."""
    words, terms = _vocabulary()
    return word in words or word_term(word) in terms


@cache
def _vocabulary() -> tuple[Mapping[str, int], frozenset[str]]:
    """The words that the embedder knows whole, with their places, and their stemmed forms.

    There are none if its weights cannot be read.
    """
    try:
        pieces = read_vocabulary(WEIGHTS)
    except (OSError, ValueError):
        return {}, frozenset()
    words = {
        piece: place for place, piece in enumerate(pieces) if len(piece) >= _SHORTEST and piece.isalpha()
    }
    return words, frozenset(map(word_term, words))


# --- the words of a catalog -------------------------------------------------------------------------------


class Spellings:
    """The words of a catalog as they are written, to find those that are spelled alike.

    A signature has two bits for each letter: whether a word has it, and has it twice. An edit adds one bit at
    most and takes one away, so few words remain to be compared letter by letter.
    """

    def __init__(self) -> None:
        self.terms: dict[str, str] = {}
        """The indexed term of each word."""
        self._tokens: set[str] = set()
        self._list: list[str] = []
        self._signatures = array("Q")
        self._lengths = array("B")
        self._initials = array("B")

    def add(self, text: str) -> None:
        """Add the words of a text."""
        fresh = identifiers(text) - self._tokens
        if len(self._tokens) > _KNOWN_TOKENS:
            self._tokens.clear()
        self._tokens |= fresh
        for word, term in written_words(fresh):
            if word in self.terms or not _SHORTEST <= len(word) <= _LONGEST or not _LETTERS.fullmatch(word):
                continue
            self.terms[word] = term
            self._list.append(word)
            self._signatures.append(_signature(word))
            self._lengths.append(len(word))
            self._initials.append(ord(word[0]))

    def those_of(self, words: AbstractSet[str]) -> Mapping[str, str]:
        """Return those of some words that the catalog has, with their terms."""
        return {word: self.terms[word] for word in words if word in self.terms}

    def within_two(self, word: str) -> Mapping[str, str]:
        """Return the words within two edits of a word that begin as it does, with their terms."""
        signature = np.uint64(_signature(word))
        same = np.flatnonzero(np.frombuffer(self._initials, np.uint8) == ord(word[0]))
        signatures = np.frombuffer(self._signatures, np.uint64)[same]
        lengths = np.frombuffer(self._lengths, np.uint8)[same].astype(np.int16)
        likely = np.bitwise_count(signature & ~signatures) <= _EDITS
        likely &= np.bitwise_count(signatures & ~signature) <= _EDITS
        likely &= np.abs(lengths - len(word)) <= _EDITS
        words = [self._list[at] for at in same[likely][:_COMPARED].tolist()]
        return {other: self.terms[other] for other in words if edit_distance(word, other, _EDITS) <= _EDITS}

    def detach(self) -> None:
        """Share no table with the words that these are a shallow copy of."""
        self.terms, self._list = dict(self.terms), list(self._list)
        self._tokens = set(self._tokens)
        self._signatures, self._lengths = self._signatures[:], self._lengths[:]
        self._initials = self._initials[:]


def _signature(word: str) -> int:
    bits = 0
    for letter in word:
        bit = 1 << 2 * (ord(letter) - _A)
        bits |= bit << 1 if bits & bit else bit
    return bits


def edit_distance(word: str, other: str, most: int) -> int:
    """Return how many letters must be left out, added, replaced or swapped with the next.

    A distance over `most` is inexact. Optimal string alignment: no letter is edited twice.
    """
    start = 0
    while start < min(len(word), len(other)) and word[start] == other[start]:
        start += 1
    word, other = word[start:], other[start:]
    while word and other and word[-1] == other[-1]:
        word, other = word[:-1], other[:-1]
    if not word or not other:
        return len(word) or len(other)
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(word, 1):
        before, last, row = row, before, [at]
        for place, another in enumerate(other, 1):
            cost = min(before[place] + 1, row[-1] + 1, before[place - 1] + (letter != another))
            if last and place > 1 and letter == other[place - 2] and word[at - 2] == another:
                cost = min(cost, last[place - 2] + 1)
            row.append(cost)
        if min(row) > most and (not last or min(before) > most):
            return most + 1
    return row[-1]
