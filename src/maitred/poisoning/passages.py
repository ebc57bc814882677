"""Texts of a definition as a model reads them: their places, sentences, decoded forms and safe quotes.

It judges nothing. Every string of a definition counts, because a model reads an enum or a default like a
description. The names of properties count too. Nothing here recurses, and every step is linear in the text.
"""

import base64
import binascii
import codecs
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from maitred.poisoning.confusables import fold

MAX_CHARACTERS: Final = 200_000
"""Characters of one definition that the scan reads; a finding says that there are more."""

SHORT: Final = 400
"""Characters of a text that is worth a place in a cache: parameters of many tools have the same text."""

_CACHED: Final = 8_192
_MAX_DEPTH = 200
_MAX_SENTENCE = 600
_EXCERPT = 160
_LABELS = frozenset({"name", "type", "format", "required", "$ref", "$id", "$schema", "contentEncoding"})

_END = re.compile(
    r"(?<![.!?])[.!?]++(?=[\s)\"'`*_<\]]|$)|[\u3002\uff01\uff1f]"
    r"|\n[ \t]*(?=[\n\-*#|<>\[\d•]|$)|</?[a-z][^<>\n]{0,80}>"
)
_BASE64 = re.compile(r"(?<![\w+/-])[\w+/-]{24,}={0,2}", re.ASCII)
_HEX = re.compile(r"(?<![\w])(?:0x)?((?:[0-9a-f]{2}){16,})(?!\w)", re.IGNORECASE)
_PERCENT = re.compile(r"(?:%[0-9a-f]{2}){4,}", re.IGNORECASE)
_ESCAPES = re.compile(r"(?:\\u[0-9a-f]{4}|\\x[0-9a-f]{2}){4,}", re.IGNORECASE)
_ENTITIES = re.compile(r"(?:&#x?[0-9a-f]{1,6};){4,}", re.IGNORECASE)
_CODES = re.compile(r"\b[0-9]{2,3}(?:[ ,]{1,2}[0-9]{2,3}){9,}\b")
_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_SPACED = re.compile(r"(?<!\w)[a-z](?:[ .·_-][a-z]){5,}(?!\w)", re.IGNORECASE)
_SPREAD = re.compile(r"(?<![^\s])\S(?: {1,4}\S){15,}(?![^\s])")
_CODED = re.compile(
    r"[^\s,]{24}|[0-9][ ,]{1,2}[0-9]{2,3}[ ,]{1,2}[0-9]{2,3}[ ,]{1,2}[0-9]|%[0-9a-fA-F]{2}%|&#|\\[ux]"
)
_LINE_MARKS = re.compile(r"^(?:[\s>*#|+\-\u2022\u00b7\u2013\u2014]|[0-9]{1,3}[.)]|\[[ x]\])+")
_LEAST_BARS: Final = 2
_LEAST_PART: Final = 3
_UNPRINTED = re.compile("[\u034f\u115f\u1160\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e0fff]")
_PROSE = re.compile(r"[^\W\d_]{2,}(?:'[a-z]+)?")


_Item = tuple[str, Any, bool, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """One text of a definition; `where` is the JSON pointer to it, or to the value that it names.

    `label` marks names and other words that are not prose, such as the name of a property.
    """

    where: str
    text: str
    label: bool = False


def passages(definition: Mapping[str, Any]) -> Iterator[Passage]:
    """Yield every text of a definition that can say something, in the order of the definition.

    It skips single plain words, and values that are nested deeper than any honest schema.
    """
    stack: list[_Item] = [("", definition, False, 0)]
    while stack:
        where, value, label, depth = stack.pop()
        if isinstance(value, str):
            yield Passage(where=where, text=value, label=label)
        elif depth <= _MAX_DEPTH:
            stack += _children(where, value, depth + 1, label=label)[::-1]


def _children(where: str, value: Any, depth: int, *, label: bool) -> list[_Item]:
    if isinstance(value, list):
        return [
            (f"{where}/{place}", item, label, depth) for place, item in enumerate(value) if _matters(item)
        ]
    children: list[_Item] = []
    has_names = where.endswith(_NAMING)
    for key, item in value.items():
        name = key if isinstance(key, str) else str(key)
        if not _matters(item) and not _matters(name):
            continue
        at = f"{where}/{_pointer_part(name)}"
        if (has_names or name not in _USUAL) and _matters(name):
            children.append((at, name, True, depth))
        if _matters(item) and at != "/icons":
            children.append((at, item, name in _LABELS and not has_names, depth))
    return children


def _matters(value: Any) -> bool:
    """Return whether a value holds text of more than one plain word."""
    if isinstance(value, str):
        return len(value) > _WORD_LENGTH or not (value.isascii() and value.isprintable()) or " " in value
    return isinstance(value, _HOLDERS) and bool(value)


def _pointer_part(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1") if "/" in key or "~" in key else key


_WORD_LENGTH = 15
_HOLDERS = (dict, list)  # JSON has no others, and a check of abstract types takes ten times as long
_NAMING = ("/properties", "/$defs", "/definitions")
_USUAL = frozenset(
    (
        *("name", "title", "description", "inputSchema", "outputSchema", "annotations", "arguments"),
        *("type", "properties", "required", "items", "enum", "default", "format", "anyOf", "oneOf", "allOf"),
        *("additionalProperties", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
        *("const", "examples", "example", "pattern", "$schema", "$ref", "$defs", "definitions", "not"),
        *("exclusiveMinimum", "exclusiveMaximum", "contentEncoding", "instructions", "_meta", "execution"),
        *("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"),
    )
)


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a text with their offsets; mark-up ends a sentence, a line break alone does not.

    A sentence that is too long is cut into pieces that overlap, so that a phrase in it stays whole.
    """
    start = 0
    for match in _END.finditer(text):
        yield from _pieces(start, text[start : match.end()])
        start = match.end()
    yield from _pieces(start, text[start:])


def folded_sentences(text: str) -> Sequence[tuple[str, str]]:
    """Return the sentences of a text, whose gaps are closed, each with its folded form."""
    return _folded_short(text) if len(text) <= SHORT else _folded_sentences(text)


def _folded_sentences(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((part, " ".join(fold(part).split())) for _, part in sentences(close_gaps(text)))


_folded_short = lru_cache(maxsize=_CACHED)(_folded_sentences)


def plain_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text that say something by themselves, each with its folded form.

    These are its sentences, the items of lists and the cells of tables, without the marks that begin a line
    of a list, a quotation or a heading. So a mark in front of a sentence hides nothing.
    """
    for part, folded in folded_sentences(text):
        if folded.count("|") < _LEAST_BARS:
            bare = _LINE_MARKS.sub("", folded)
            if len(bare) >= _LEAST_PART:
                yield part, bare
            continue
        for cell in part.split("|"):
            bare = _LINE_MARKS.sub("", " ".join(fold(cell).split()))
            if len(bare) >= _LEAST_PART:
                yield cell, bare


def _pieces(start: int, sentence: str) -> Iterator[tuple[int, str]]:
    if not sentence or sentence.isspace():
        return
    step = _MAX_SENTENCE // 2
    for place in range(0, max(len(sentence) - step, 1), step):
        yield start + place, sentence[place : place + _MAX_SENTENCE]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedPassage:
    """The decoded form of a part of a text; `shown` is the part as it was written."""

    how: str
    shown: str
    text: str


def decode_parts(text: str) -> Iterator[DecodedPassage]:
    """Decode the readable coded parts of a text: prose of at least three words."""
    if text.isascii() and not _CODED.search(text):
        return
    for how, pattern, decode in _CODINGS:
        for match in pattern.finditer(text):
            plain = decode(match[0])
            if len(_PROSE.findall(plain)) >= _LEAST_WORDS and _readable(plain):
                yield DecodedPassage(how=how, shown=match[0], text=plain)


_LEAST_WORDS = 3
_READABLE = 0.85  # a quarter of random bytes are letters


def _readable(text: str) -> bool:
    letters = sum(character.isalpha() or character in " .,'" for character in text)
    return text.isprintable() and letters >= _READABLE * len(text)


def _base64(text: str) -> str:
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4)).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _hex(text: str) -> str:
    return bytes.fromhex(text.removeprefix("0x")).decode("utf-8", "replace")


def _escapes(text: str) -> str:
    return "".join(chr(int(code, 16)) for code in re.findall(r"\\[ux]([0-9a-fA-F]+)", text))


def _character_codes(text: str) -> str:
    return "".join(map(chr, map(int, re.findall(r"\d+", text))))


def _tags(text: str) -> str:
    return "".join(chr(ord(character) - 0xE0000) for character in text)


_CODINGS: Final = (
    ("base64", _BASE64, _base64),
    ("hexadecimal", _HEX, _hex),
    ("percent signs", _PERCENT, unquote),
    ("escapes", _ESCAPES, _escapes),
    ("HTML entities", _ENTITIES, html.unescape),
    ("character codes", _CODES, _character_codes),
    ("tag characters", _TAGS, _tags),
)


def rotate_letters(text: str) -> str:
    """Move each letter of a text by thirteen places."""
    return codecs.encode(text, "rot13")


def close_gaps(text: str) -> str:
    """Close up words that are spelled with gaps (`i g n o r e`)."""
    text = _SPREAD.sub(lambda match: re.sub(r"(?<=\S) (?=\S)", "", match[0]), text) if "   " in text else text
    return _SPACED.sub(lambda match: re.sub(r"[ .·_-]", "", match[0]), text)


def quote_text(text: str) -> str:
    """Quote a text for a report: one line, shortened, with each invisible character written as its number."""
    line = re.sub(r"\s+", " ", text.strip()[: 2 * _EXCERPT])
    line = "".join(c if c.isprintable() and not _UNPRINTED.match(c) else f"\\u{{{ord(c):X}}}" for c in line)
    return line if len(line) <= _EXCERPT else line[: _EXCERPT - 1] + "…"
