"""Chooses the entries of the table: the teacher's pieces, and words of tools that the teacher cuts."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from maitred.search.base import ToolDocument
from maitred.search.static_embedder import runs, words_of_run
from training.sources import Source

_ENTRY = re.compile(r"(##)?[a-z0-9]+|[$%&+#@]")
_PRODUCT = re.compile(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
_SHORT_CODE = re.compile(r"[A-Za-z]+[0-9]+[A-Za-z]{0,3}[0-9]{0,3}|[0-9]+[A-Za-z]+")
_SERVERS = 3
_LONGEST = 24


def choose(teacher_pieces: Sequence[str], sources: Sequence[Source]) -> list[str]:
    """The vocabulary: the teacher's pieces of letters and digits or one symbol, then the words of tools.

    A word of tools is taken if at least three servers have it. A name such as `GitHub` is taken whole where
    people write it so; `listBuckets` is not, for its words mean more than the whole.
    """
    pieces = [piece for piece in teacher_pieces if _ENTRY.fullmatch(piece)]
    known = set(pieces)
    servers: Counter[str] = Counter()
    for source in sources:
        for texts in _by_server(source.tools):
            servers.update(_words(texts, names=source.is_prose))
    added = [word for word, count in servers.items() if count >= _SERVERS and word not in known]
    return pieces + sorted(added)


def _by_server(tools: Iterable[ToolDocument]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for tool in tools:
        text = f"{tool.name} {tool.title} {tool.description} " + " ".join(
            f"{n} {_whole(d)}" for n, d in tool.parameters
        )
        groups.setdefault(tool.server, []).append(text)
    return list(groups.values())


def _words(texts: Iterable[str], *, names: bool) -> set[str]:
    found = set()
    for text in texts:
        for run in runs(text):
            words = words_of_run(run)
            whole = names and _PRODUCT.fullmatch(run) and len(words) == 2  # noqa: PLR2004
            if len(words) == 1 or whole or _SHORT_CODE.fullmatch(run):
                found.add(run.lower())
            found.update(words)
    return {word for word in found if 1 < len(word) <= _LONGEST and not word.isdigit()}


def _whole(text: str) -> str:
    """The text without its last word, which may have been cut off."""
    return text.rpartition(" ")[0]
