"""Reads the word lists of packages, which people review who know the words and not the code."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path


def read_rows(path: Path) -> Iterator[list[str]]:
    """The lines of a word list, cut at their tabs; empty lines and those that begin with `#` are left out."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


def read_words(path: Path) -> Mapping[str, AbstractSet[str]]:
    """The words of each key of a word list: lines of a key, a tab and words. A key may have several lines."""
    words: dict[str, set[str]] = {}
    for key, line in read_rows(path):
        words.setdefault(key, set()).update(line.split())
    return {key: frozenset(values) for key, values in words.items()}
