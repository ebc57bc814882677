# ruff: noqa: RUF001  # the letters of other alphabets are meant
"""Letters that look like other letters, and invisible characters: a small table of our own.

This is not a copy of Unicode's list of confusables, which has thousands of entries for rare fonts.
Normalisation folds compatibility forms (wide, bold, circled), so they need no entry.
"""

import re
import unicodedata
from typing import Final

_PAIRS = (
    # Cyrillic
    "аa вb еe ѐe ёe зз іi їi јj кk мm нh оo рp сc тt уy ўy хx ѕs һh ԁd ԛq ԝw ѵv ґr гr ьb пn ӏl ԍg ɡg "
    # Greek
    "αa βb γy εe ζz ηn ιi κk λλ νv οo ρp σo τt υu χx ωw ϲc ϳj ɑa ɩi ʟl ɪi "
    # Armenian, and Latin letters whose strokes and dots are easily missed
    "օo սu հh ոn ցg ƅb ɓb ƈc đd ɗd ħh ıi ȷj ĸk łl ƚl ŋn øo ƥp ŧt ƭt ʋv ƿp ʀr ꜱs ꞓc"
)
_LETTERS: Final = str.maketrans({pair[0]: pair[1] for pair in _PAIRS.split() if pair[0] != pair[1]})
_FOREIGN: Final = re.compile("[" + "".join(map(chr, _LETTERS)) + "]")
_OTHER_ALPHABET: Final = re.compile(
    "[" + "".join(c for c in map(chr, _LETTERS) if "\u0370" <= c <= "\u058f") + "]"
)
_WORD: Final = re.compile(r"\w+")
_LATIN: Final = re.compile(r"[a-z]")

_JOINERS: Final = "\u200c\u200d"
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
