"""Texts of servers for a page: nothing invisible stays invisible, and no text is without end.

A server may write characters that do not show, that reverse the order of others, or that control a terminal.
A page draws each as a mark such as `⟦U+202E⟧`. This is text, so it is safe in elements and attributes.
`as_markup` makes the same marks as elements with the name of the character. A person sends fields of forms
back, so `field_text` and `area_text` keep each character.
"""

import re
import unicodedata
from typing import Any, Final

from markupsafe import Markup, escape

from maitred.model.hidden_text import is_hidden, pieces

MOST_CHARACTERS: Final = 4_000
"""The length of a text where a template gives no other."""

_SAFE: Final = re.compile(r"[\n\t\x20-\x7e]*")
_NO_ASCII: Final = re.compile(r"[^\n\t\x20-\x7e]")
_NO_REFERENCE: Final = re.compile(r"[\x00\x80-\x9f\ud800-\udfff]")


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def mark_hidden(text: str) -> str:
    """The text, in which each character that does not show is a mark such as `⟦U+202E⟧`."""
    if _SAFE.fullmatch(text):
        return text
    return "".join(
        f"⟦{_code(piece)}⟧" if hidden else piece for piece, hidden in pieces(text, keep_emoji=True)
    )


def shorten(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, or its beginning with how many characters are left out."""
    return text if len(text) <= most else f"{text[:most]}… and {len(text) - most:,} more characters"


def safe_text(value: Any) -> Any:
    """What a template prints of a value: markup of our own as it is, all else with marks and bounded."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, bool | int | float):
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
    return mark_hidden(shorten(str(value)))


def field_text(value: Any) -> Markup:
    """A value for an attribute of a form, whole: a browser sends the same text back.

    A character that does not show is a character reference. HTML has none for some, which are marks.
    """
    return Markup(_NO_ASCII.sub(_reference, str(escape(str(value)))))  # noqa: S704  # it is escaped


def area_text(value: Any) -> Markup:
    """A value for the content of a `textarea`, whole: browsers leave out a line feed at its beginning."""
    text = field_text(value)
    return Markup("\n") + text if text.startswith("\n") else text


def _reference(found: re.Match[str]) -> str:
    character = found[0]
    if not is_hidden(character):
        return character
    return mark_hidden(character) if _NO_REFERENCE.match(character) else f"&#x{ord(character):x};"


def as_markup(value: Any, most: int = MOST_CHARACTERS) -> Markup:
    """A text of a stranger as an element: its marks have names, and it cannot reorder what is around it."""
    text = shorten(str(value), most)
    if _SAFE.fullmatch(text):
        return Markup(f"<bdi>{escape(text)}</bdi>")  # noqa: S704  # it is escaped
    parts = [_mark(piece) if hidden else escape(piece) for piece, hidden in pieces(text, keep_emoji=True)]
    return Markup("<bdi>{}</bdi>").format(Markup("").join(parts))


def as_words(text: str) -> Markup:
    """A text of our own, in which what is between backticks is code."""
    pieces = [escape(piece) for piece in text.split("`")]
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if at % 2 else piece for at, piece in enumerate(pieces)
    )


def _mark(character: str) -> Markup:
    name = unicodedata.name(character, "a character without a name").capitalize()
    return Markup('<span class="mark" title="{}">{}</span>').format(name, _code(character))
