"""Read a phrase in another language as the English words that tools use.

Each file of `data/languages/` is a glossary: words of one language with the English words of tools that they
mean. To add a language, add a file. Words that no glossary has, such as names of products, stay as they are.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, Literal, cast

import Stemmer

from maitred.search.spelling import is_usual_word
from maitred.search.tokenize import STOP_WORDS
from maitred.word_lists import read_rows

_FOLDER: Final = Path(__file__).with_name("data") / "languages"
_WORD: Final = re.compile(r"[^\W\d_]+|[\d][\w.]*")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_KANA: Final = re.compile(r"[\u3040-\u30ff]")
_RUN: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+|[A-Za-z0-9][A-Za-z0-9_.+#-]*")
_LONGEST_PIECE: Final = 10
"""Characters of the longest piece that is looked for in text without spaces."""
_SHORTEST_WORD: Final = 4
"""Letters of a word that may show a language, and of a part of a compound."""
_LONGEST_WORD: Final = 30
_SHORTEST_COMPOUND: Final = 8
_LINKS: Final = ("", "s", "n", "es", "en")
"""What is written between the parts of a compound."""
_MOST_PARTS: Final = 3
_MOST_WORDS: Final = 64
"""Words of a phrase that are looked up, a bound on time."""
_LONGEST_TEXT: Final = 1_000
_MEANINGS: Final = 2
_READ_SHARE: Final = 0.4
"""Of the words of a phrase, which a glossary must have to be that of its language."""
_CHARACTERS_A_WORD: Final = 4

Writing = Literal["spaced", "compounds", "unspaced"]


@dataclass(frozen=True, kw_only=True)
class ForeignReading:
    """A phrase as it is searched for, and the language that it was in; empty where that is English."""

    text: str
    language: str = ""


def may_be_foreign(text: str) -> bool:
    """Whether a text needs a closer look although it has no strange words."""
    return bool(_UNSPACED.search(text)) or not _function_words().isdisjoint(_words(text))


def read_foreign(text: str) -> ForeignReading:
    """Return the English words for a phrase; the same text if it is English or in no known language.

    The first call reads the glossaries, which takes a tenth of a second.
    """
    if len(text) > _LONGEST_TEXT:
        return ForeignReading(text=text)
    return _read_unspaced(text) if _UNSPACED.search(text) else _read_spaced(text)


def _read_spaced(text: str) -> ForeignReading:
    words = _words(text)
    glossary = max(_spaced(), key=lambda one: (sum(map(one.evidence, words)), sum(map(one.reads, words))))
    evidence = sum(map(glossary.evidence, words))
    english = sum(word in STOP_WORDS and word not in glossary.stop for word in words)
    if evidence < 1 or evidence <= english or sum(map(glossary.reads, words)) < _READ_SHARE * len(words):
        return ForeignReading(text=text)
    found: list[str] = []
    for word in words:
        if word not in glossary.stop:
            found += glossary.meanings_of(word)[:_MEANINGS] or [_plain(word)]
    return _reading(text, found, glossary)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)[:_MOST_WORDS]]


def _read_unspaced(text: str) -> ForeignReading:
    runs = _RUN.findall(text)
    characters = sum(len(run) for run in runs if _UNSPACED.match(run))
    if _CHARACTERS_A_WORD * sum(run.lower() in STOP_WORDS for run in runs) > characters:
        return ForeignReading(text=text)  # an English phrase about some words in another script
    is_japanese = _KANA.search(text) is not None
    readings = [
        (_cut(runs, glossary), glossary)
        for glossary in reversed(_unspaced())  # of equals the last: without kana it is rather Chinese
        if not is_japanese or glossary.language == "Japanese"
    ]
    (found, _), glossary = max(readings, key=lambda one: one[0][1])
    return _reading(text, found, glossary)


def _cut(runs: Iterable[str], glossary: "_Glossary") -> tuple[list[str], int]:
    """Return the English words for the longest pieces from the left, and how many characters those have."""
    found: list[str] = []
    covered = 0
    for run in runs:
        if not _UNSPACED.match(run):
            found.append(run)
            continue
        at = 0
        while at < len(run):
            longest = range(min(len(run), at + _LONGEST_PIECE), at, -1)
            end = next((end for end in longest if run[at:end] in glossary.meanings), 0)
            if end:
                found += glossary.meanings[run[at:end]][:_MEANINGS]
                covered += end - at
            at = end or at + 1
    return found, covered


def _reading(text: str, words: Iterable[str], glossary: "_Glossary") -> ForeignReading:
    read = " ".join(dict.fromkeys(words))
    return ForeignReading(text=read, language=glossary.language) if read else ForeignReading(text=text)


def _plain(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


# --- glossaries -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _Glossary:
    """The words of a language; `meanings` are by stem, or by the written piece where words are not spaced."""

    language: str
    writing: Writing
    stop: AbstractSet[str]
    meanings: Mapping[str, Sequence[str]]

    def reads(self, word: str) -> bool:
        """Whether the glossary has a word."""
        return word in self.stop or bool(self.meanings_of(word))

    def evidence(self, word: str) -> float:
        """How far a word shows this language: 1, or 0.5 for a form or a compound, or 0."""
        if word in self.stop:
            return float(len(word) > 1 and word not in STOP_WORDS)
        if len(word) < _SHORTEST_WORD or is_usual_word(word):
            return 0.0
        if word in self.meanings or _plain(word) in self.meanings:
            return 1.0
        return 0.5 if self.meanings_of(word) else 0.0

    @lru_cache(maxsize=4_096)  # noqa: B019  # there is one of each language as long as the process lives
    def meanings_of(self, word: str) -> Sequence[str]:
        """Return the English words for a word, for its parts where it is a compound; none if unknown."""
        found = self._meanings(word)
        return found or (self._of_parts(word, _MOST_PARTS) if self.writing == "compounds" else ())

    def _meanings(self, word: str) -> Sequence[str]:
        plain = _plain(word)
        for form in (word, plain):
            if found := self.meanings.get(form):
                return found
        for form in (word, plain):
            if found := self.meanings.get(_stem(self.language, form)):
                return found
        return ()

    def _of_parts(self, word: str, most: int) -> Sequence[str]:
        """Cut a compound into the longest first part and the rest, each of them known."""
        if most == 1 or not _SHORTEST_COMPOUND <= len(word) <= _LONGEST_WORD:
            return ()
        for end in range(len(word) - _SHORTEST_WORD, _SHORTEST_WORD - 1, -1):
            for link in _LINKS:
                first = self._meanings(word[:end].removesuffix(link)) if word[:end].endswith(link) else ()
                rest = first and (self._meanings(word[end:]) or self._of_parts(word[end:], most - 1))
                if rest:
                    return (*first[:1], *rest)
        return ()


def _stem(language: str, word: str) -> str:
    return _plain(str(_stemmer(language).stemWord(word)))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language.lower(), 0)


@cache
def _spaced() -> Sequence[_Glossary]:
    return [one for one in _glossaries() if one.writing != "unspaced"]


@cache
def _unspaced() -> Sequence[_Glossary]:
    return [one for one in _glossaries() if one.writing == "unspaced"]


@cache
def _glossaries() -> Sequence[_Glossary]:
    return [_read_glossary(path) for path in _files()]


@cache
def _function_words() -> AbstractSet[str]:
    """Those of all languages that are no English ones, for a look without the glossaries."""
    words = {word for path in _files() for word in _head(path)[2]}
    return frozenset(word for word in words if len(word) > 1 and word not in STOP_WORDS)


def _files() -> list[Path]:
    return sorted(_FOLDER.glob("*.tsv"))


def _head(path: Path) -> tuple[str, Writing, AbstractSet[str]]:
    """The name of a language, how it is written, and its function words."""
    language, writing, stop = "", "spaced", frozenset[str]()
    for key, *rest in read_rows(path):
        if key == ":language":
            language, writing = rest
        elif key == ":stop":
            stop = frozenset(rest[0].split())
        else:
            break
    return language, cast("Writing", writing), stop


def _read_glossary(path: Path) -> _Glossary:
    language, writing, stop = _head(path)
    meanings: dict[str, list[str]] = {}
    for word, english in _entries(path):
        forms = {word} if writing == "unspaced" else {word, _stem(language, word)}
        for form in forms:
            known = meanings.setdefault(form, [])
            known += [one for one in english if one not in known]
    return _Glossary(language=language, writing=writing, stop=stop, meanings=meanings)


def _entries(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    for word, *rest in read_rows(path):
        if not word.startswith(":"):
            yield word, rest[0].split()
