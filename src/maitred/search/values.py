"""Replace the values in a phrase by words for their kind: a path by what the file is, an address by `url`.

People put the things at hand into their wishes: "convert /root/report.pptx". No tool has their words, but
many have those of the kind. To add a kind of file, add a line to `data/file_kinds.tsv`.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from maitred.word_lists import read_rows

_LONGEST_WORD: Final = 60
"""Characters of a run from which on it is data, such as base64."""

_ENDING: Final = re.compile(r"[^/\\.]\.([A-Za-z0-9]{1,8})$")
_DATE: Final = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
_UUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_PATH: Final = r"(?:~|\.{1,2})?/(?!/)[^\s'\"<>|]*[^\s'\"<>|.,;:!?)]|(?:[A-Za-z]:[\\/]|\\\\\w)[^\s'\"<>|]+"
_ENDS: Final = r"(?::\d{1,5})?(?![\w-]|\.\w)"
_HOST: Final = r"(?:[a-z0-9-]+\.)+(?:[a-z0-9-]+\.(?:[a-z]{2}|net|info|cloud|app|dev)|(?:com|org|edu|gov))"
_SIGNS: Final = re.compile(r"[@/\\.\d]")
_PRODUCT: Final = re.compile(r"[^./]+\.(?:js|net|ai|io|go|py)|[^./]+/[^./]+\.js", re.IGNORECASE)
"""Names that look like those of files and are usually those of products: `node.js`, `owner/next.js`."""

# Any caller may send any phrase: a part that can read characters in two ways takes exponential time.
_VALUE: Final = re.compile(
    rf"""
    (?<![\w@./\\+-])
    (?:
      (?P<mail>(?:mailto:)?[\w.+-]+@[\w-]+(?:\.[\w-]+)+)
    | (?P<url>[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'"<>]+[^\s'"<>.,;:!?)]|{_HOST}/[^\s'"<>]*[^\s'"<>.,;:!?)])
    | (?P<id>{_UUID}|(?=[0-9a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{{12,64}}(?![\w-]))
    | (?P<date>{_DATE}|(?:\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{4}}|\d{{4}}/\d{{1,2}}/\d{{1,2}})(?![\w/.-]))
    | (?P<address>\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d{{1,5}}|/\d{{1,2}})?(?![\w.-]))
    | (?P<path>{_PATH})
    | (?P<data>[A-Za-z0-9+/_=.-]{{{_LONGEST_WORD},}})
    | (?P<host>{_HOST}{_ENDS})
    | (?P<file>(?:[\w.-]+/)*[\w.-]*\w\.[A-Za-z][A-Za-z0-9]{{0,7}}(?![\w/-]|\.\w))
    )
    """,
    re.VERBOSE,
)


def read_values(phrase: str) -> str:
    """Return the phrase with words for the kinds of its values; the same text if it has none."""
    if not _SIGNS.search(phrase) and len(phrase) < _LONGEST_WORD:
        return phrase
    read = _VALUE.sub(_kind_of, phrase)
    return read if any(map(str.isalnum, read)) else phrase


def _kind_of(found: re.Match[str]) -> str:
    kind = str(found.lastgroup)
    return _KINDS[kind](found.group()) if kind in _KINDS else f" {kind} "


def _path(value: str) -> str:
    ending = _ENDING.search(value)
    is_file = ending is not None and ending[1][0].isalpha()  # `python3.11` is a folder
    return f" {_by_ending(value) or ('file' if is_file else 'folder')} "


def _file(value: str) -> str:
    """A name with a known ending is that of a file; others, such as `node.js`, stay what they are."""
    kind = "" if _PRODUCT.fullmatch(value) else _by_ending(value)
    return f" {kind} " if kind else value


def _by_ending(value: str) -> str:
    ending = _ENDING.search(value)
    return _kinds_by_ending().get(ending[1].lower(), "") if ending else ""


@cache
def _kinds_by_ending() -> Mapping[str, str]:
    rows = read_rows(Path(__file__).with_name("data") / "file_kinds.tsv")
    return {ending: kind for kind, endings in rows for ending in endings.split()}


_KINDS: Final[Mapping[str, Callable[[str], str]]] = {
    "mail": lambda _: " email ",
    "address": lambda _: " ip ",
    "host": lambda value: f" {_by_ending(value) or 'host'} ",  # `notes.2024.md` has the form of one
    "path": _path,
    "file": _file,
    "data": lambda value: f" {_by_ending(value.rstrip('.'))} ",  # a path may be as long
}
