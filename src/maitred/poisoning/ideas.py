"""Ideas that words carry and that matter for poisoning: dropping rules, a secret, a way out, a reader.

The rules judge a sentence by the ideas that meet in it (see `rules.base`), so one rule serves every language
with words in `data/ideas.tsv`. The lists are small and our own. A missing word costs recall and a word too
many costs false alarms. Words with an everyday second meaning are therefore left out.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from maitred.poisoning.confusables import fold
from maitred.word_lists import read_words

_FOLDER: Final = Path(__file__).with_name("data")
_WORDS: Final = read_words(_FOLDER / "ideas.tsv")
_UNSPACED: Final = read_words(_FOLDER / "ideas_unspaced.tsv")

TRAITS: Final = ("@path", "@secret", "@talk", "@others", "@person", "@sink", "@address", "@abroad", "@given")
"""Ideas that have no words of their own; `subjects.traits` detects them."""

IDEAS: Final = {name: 1 << place for place, name in enumerate((*_WORDS, *TRAITS))}
"""The bit of each idea."""

_CREDENTIALS: Final = IDEAS["secret"] | IDEAS["token"]
_WORD: Final = re.compile(r"\w+(?:'\w+)?")
_DIGITS: Final = str.maketrans("0134578", "oieastb")
_ASIAN: Final = re.compile("[\u0590-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def _table() -> tuple[dict[str, int], dict[str, int]]:
    exact: dict[str, int] = {}
    stems: dict[str, int] = {}
    for idea, words in _WORDS.items():
        for word in words:
            table = stems if word.endswith("*") else exact
            key = fold(word.rstrip("*"))
            table[key] = table.get(key, 0) | IDEAS[idea]
    return exact, stems


_EXACT, _STEMS = _table()
_STEM_LENGTHS: Final = sorted({len(stem) for stem in _STEMS})
_SIGNS: Final = {sign: IDEAS[idea] for idea, signs in _UNSPACED.items() for sign in signs}
_SIGN: Final = re.compile("|".join(sorted(map(re.escape, _SIGNS), key=len, reverse=True)))


@lru_cache(maxsize=65_536)
def ideas_of(word: str) -> int:
    """Return the ideas of one folded word; `pr3v10us` is read as the word that it resembles."""
    ideas = _EXACT.get(word, 0)
    for length in _STEM_LENGTHS:
        if length > len(word):
            break
        ideas |= _STEMS.get(word[:length], 0)
    if not ideas and "'" in word:  # l'utilisateur, dell'utente
        return ideas_of(word.partition("'")[2])
    if "_" in word:  # client_secret
        for part in word.split("_"):
            ideas |= _EXACT.get(part, 0) & _CREDENTIALS
    if not ideas and not word.isalpha() and not word.isdecimal():
        ideas = _EXACT.get(word.translate(_DIGITS), 0)
    return ideas


def ideas_in(sentence: str) -> int:
    """Return the ideas of a folded sentence."""
    ideas = 0
    for word in _WORD.findall(sentence):
        ideas |= ideas_of(word)
    if not sentence.isascii() and _ASIAN.search(sentence):
        for sign in _SIGN.findall(sentence):
            ideas |= _SIGNS[sign]
    return ideas


def mask(names: str) -> int:
    """Return the bits of ideas, given their names separated by spaces."""
    bits = 0
    for name in names.split():
        bits |= IDEAS[name]
    return bits
