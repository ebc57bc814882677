"""The words that the rules know: abbreviations with their meaning, verbs, nouns, acronyms.

The lists are in `data`; `maitred.mediation.words` uses them. An English word is never an abbreviation there.
An abbreviation with two meanings has words that decide between them.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from maitred.word_lists import read_rows, read_words

_FOLDER: Final = Path(__file__).with_name("data")
_WORDS: Final = read_words(_FOLDER / "words.tsv")

FIRST = "^"
LAST = "$"


def word_set(text: str) -> AbstractSet[str]:
    """The words of a text; a list with one word a line would be pages long."""
    return frozenset(text.split())


def _read_abbreviations() -> tuple[Mapping[str, str], Mapping[str, tuple[tuple[str, str], ...]]]:
    certain: dict[str, str] = {}
    by_context: dict[str, tuple[tuple[str, str], ...]] = {}
    for short, meaning, *needs in read_rows(_FOLDER / "abbreviations.tsv"):
        if needs:
            by_context[short] = (*by_context.get(short, ()), (meaning, needs[0]))
        else:
            certain[short] = meaning
    return certain, by_context


ABBREVIATIONS, BY_CONTEXT = _read_abbreviations()
"""Abbreviation -> meaning, for those that mean the same everywhere.

Of the others: abbreviation -> its readings, each with the words that decide for it; `^`, `$`: its place in a
name.
"""

VERBS: Final = _WORDS["verb"]
"""What tools do."""

NOUNS: Final = _WORDS["noun"]
"""The objects of those verbs."""

KNOWN: Final = VERBS | NOUNS | _WORDS["other"]
"""Words that stay as they are."""

ACRONYMS: Final = _WORDS["acronym"]
"""Acronyms, written in capitals; `uid` and the like are abbreviations instead."""

NO_ARTICLE: Final = _WORDS["no_article"]
"""Words without an article before or after them."""

EMPTY: Final = _WORDS["empty"]
"""Words that say nothing about a tool when it is looked for."""

FILLERS: Final = _WORDS["filler"]
"""Words that say nothing of their own in a description."""

ALIKE: Final = tuple(tuple(words.split()) for _, words in read_rows(_FOLDER / "alike.tsv"))
"""Groups of words that may stand for each other in a description."""
