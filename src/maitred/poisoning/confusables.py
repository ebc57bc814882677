"""Letters that look like other letters, and invisible characters: a small table of our own, in `data`.

This is not a copy of Unicode's list of confusables, which has thousands of entries for rare fonts.
Normalisation folds compatibility forms (wide, bold, circled), so they need no entry.
"""

import re
import unicodedata
from pathlib import Path
from typing import Final

from maitred.word_lists import read_words

_PAIRS: Final = read_words(Path(__file__).with_name("data") / "letters.tsv")
_LETTERS: Final = str.maketrans({pair[0]: pair[1] for pairs in _PAIRS.values() for pair in sorted(pairs)})
_FOREIGN: Final = re.compile("[" + "".join(map(chr, _LETTERS)) + "]")
_OTHER_ALPHABET: Final = re.compile(
    "[" + "".join(c for c in map(chr, _LETTERS) if "\u0370" <= c <= "\u058f") + "]"
)
_WORD: Final = re.compile(r"\w+")
_LATIN: Final = re.compile(r"[a-z]")

_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """Remove the characters that take no place on a screen, joiners included."""
    return text if text.isascii() else _UNSEEN.sub("", text)


def fold(text: str) -> str:
    """Make texts equal that look equal.

    It folds the style, width and case of letters and removes invisible characters. It replaces letters of
    other alphabets in words that also have Latin letters. A word wholly in another alphabet does not change.
    """
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", visible(text)).lower().replace("\u2019", "'")
    return _WORD.sub(_with_latin_letters, text) if _FOREIGN.search(text) else text


def latin(text: str) -> str:
    """Fold, then replace every letter that looks like a Latin one, in any word."""
    return fold(text).translate(_LETTERS)


def mixes(word: str) -> bool:
    """Whether a word has Latin letters and letters that only look Latin."""
    word = word.lower()
    return not word.isascii() and bool(_LATIN.search(word) and _OTHER_ALPHABET.search(word))


def _with_latin_letters(match: re.Match[str]) -> str:
    return match[0].translate(_LETTERS) if mixes(match[0]) else match[0]
