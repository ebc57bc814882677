"""Tools that a text names: those of its own server, which it may give orders about, and those of others.

Names that are everyday words, such as `search`, do not count. Neither does a name that the text lists as an
operation of its own, since servers choose the same names.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final

from maitred.poisoning.ideas import ideas_in, mask
from maitred.poisoning.tool_index import DISTINCT, ToolNameIndex, ToolNameLookup, is_distinct

_TOKEN = re.compile(r"[\w.-]+")
_NAMED = re.compile(r"(?<!\w)[^\W_]\w*[_.-]\w[\w.-]*|\b[a-z]+[A-Z]\w*")
_CALLED = re.compile(
    r"\b(?:must|should|always|have to|need to|first|now|also)\b[^.]{0,30}\b(?:call|invoke|run"
    r"|use) (?:the )?(?:tool )?[`'\"]?"
    r"([a-z][a-z0-9]*(?:[_-][a-z0-9]+)+)(?![\w(=]|[_/-]\w)[`'\"]?(?: tool| function)?(?: first| now| with"
    r"| to|\.|$)",
    re.IGNORECASE,
)
_NEAR = 40
_LEADS_TO = re.compile(
    r"\b(?:before|after|when|whenever|once|until|time|call(?:ing)?|run(?:ning)?|invok(?:e|ing)|execut(?:e"
    r"|ing)|us(?:e|ing)|have|with|by|through|on|via|in|from|is|requires?|replaces?|overrides?)[ :]+"
    r"(?:the |tool |function |of ){0,2}[`'\"]?$",
    re.IGNORECASE,
)
_NO_ORDER = re.compile(r"[`'\"]?,?\s?(?:[=/(]|,\s?[`'\"]?\w+[_-]\w|\band\b|\bor\b)")
_FOLLOWS = re.compile(
    r"[`'\"]?(?: tool| function)? (?:must|should|has|have|is|expects|needs|behaves|will|cannot|was"
    r"|beforehand|first|means|to )\b"
)
_AN_EXAMPLE = re.compile(
    r"\b(?:such as|like|e\.g\.,?|for example,?|unlike|than|similar to)\s[`'\"]?$", re.IGNORECASE
)
_GRAVE: Final = mask("broken destroy hide")
_LEAST_WORD = 4


class ToolNames:
    """The names of the tools of the scanned servers, and a lookup of those of all others."""

    def __init__(self, names: Mapping[str, Collection[str]], others: ToolNameLookup | None = None) -> None:
        """`names` are the tools of each server; without `others` they are those of all servers."""
        self._names = names
        self._others = others or ToolNameIndex(names)
        self._own: dict[str, frozenset[str]] = {}

    def of(self, server: str) -> Collection[str]:
        """Return the tools of a server, in small letters."""
        own = self._own.get(server)
        if own is None:
            own = self._own[server] = frozenset(tool.lower() for tool in self._names.get(server, ()))
        return own

    def are_own(self, server: str, sentence: str) -> bool:
        """Return whether a sentence limits itself to its own server, by tool names or as `Shop tools`."""
        lower = sentence.lower()
        words = [word for word in re.split(r"[\W_]+", server.lower()) if len(word) >= _LEAST_WORD]
        if any(f"{word} tool" in lower for word in words):
            return True
        own = self.of(server)
        return any(token.strip(".-") in own for token in _TOKEN.findall(lower) if DISTINCT.fullmatch(token))

    def foreign_tool_reasons(self, server: str, text: str, sentence: str) -> Iterator[str]:
        """Yield a reason for each problem with the tools that a sentence of a text names."""
        if not (names := _names_in(sentence)):
            return
        own = self.of(server)
        order = _CALLED.search(sentence) if own and ("_" in sentence or "-" in sentence) else None
        if own and order and order[1].lower() not in own and not _resembles(order[1], server):
            yield f"it has the model call {order[1]!r}, which is not a tool of this server"
        for name in names:
            if (
                self._others.has(name.lower(), but=server)
                and not self._is_own(server, name.lower())
                and _is_directed(name, sentence)
                and not _is_listed(name, text)
            ):
                yield f"it speaks of {name!r}, a tool of another server"

    def _is_own(self, server: str, name: str) -> bool:
        """Return whether a server has a tool of this name that is no everyday word."""
        if name not in self.of(server):
            return False
        return any(tool.lower() == name and is_distinct(tool) for tool in self._names.get(server, ()))


@lru_cache(maxsize=8_192)  # servers repeat sentences
def _names_in(sentence: str) -> tuple[str, ...]:
    return tuple(token.strip(".-") for token in _NAMED.findall(sentence))


def _resembles(name: str, server: str) -> bool:
    """Return whether a tool is named like those of a server: `shop_list` of `shop`."""
    return re.split(r"[_-]", name.lower())[0] in re.split(r"[\W_]+", server.lower())


def _is_directed(name: str, sentence: str) -> bool:
    """Return whether a sentence says what to do with a tool; a list of names or an example call does not."""
    at = sentence.find(name)
    before, after = sentence[max(at - _NEAR, 0) : at], sentence[at + len(name) : at + len(name) + _NEAR]
    if _AN_EXAMPLE.search(before):
        return False
    if (_LEADS_TO.search(before) and not _NO_ORDER.match(after)) or _FOLLOWS.match(after):
        return True
    return bool(ideas_in(sentence.lower()) & _GRAVE) and not _NO_ORDER.match(after)


def _is_listed(name: str, text: str) -> bool:
    return re.search(rf"^\s*[-*•#]+\s*[`*]*{re.escape(name)}[`*]*\s*[:(-]", text, re.MULTILINE) is not None
