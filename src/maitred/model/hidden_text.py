"""Characters of a text that a person cannot see, or cannot tell from others.

One set for all places where a person decides by reading. What is drawn in their place is up to those places.
Lists of servers lose fewer of them (`maitred.backends.listing.clean`), since languages and emoji need some.
"""

import unicodedata
from collections.abc import Iterator
from typing import Final

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_JOINERS: Final = frozenset("\u200d\ufe0f")
_MOST_COMBINING: Final = 3
_PLAIN_SPACE: Final = frozenset("\n\t ")


def is_hidden(character: str) -> bool:
    """Whether a character shows as nothing, or as a space that is none."""
    if character in _PLAIN_SPACE:
        return False
    kind = unicodedata.category(character)
    variation = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return kind in _HIDDEN or kind == "Zs" or character in _BLANK or variation


def pieces(text: str, *, keep_emoji: bool) -> Iterator[tuple[str, bool]]:
    """The text as pieces, each with whether it is one character that needs a mark.

    Of a run of combining marks, those after the third need one. `keep_emoji` lets joiners pass in emoji.
    """
    plain: list[str] = []
    combining, before = 0, ""
    for character in text:
        combining = combining + 1 if _combines(character) else 0
        joins = character in _JOINERS and before and unicodedata.category(before) in ("So", "Sk")
        if (is_hidden(character) and not (joins and keep_emoji)) or combining > _MOST_COMBINING:
            if plain:
                yield "".join(plain), False
                plain = []
            yield character, True
        else:
            plain.append(character)
        before = before if joins else character
    if plain:
        yield "".join(plain), False


def _combines(character: str) -> bool:
    return unicodedata.combining(character) > 0 or unicodedata.category(character) == "Me"
