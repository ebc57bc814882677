"""The names of the tools of all servers, indexed once for many judgements, and what one of these asked.

A judgement asks about a few names only. It stays valid for as long as the answers do, whatever else the
other servers publish. This module knows no rules, so it loads fast.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final, Protocol

from maitred.poisoning.confusables import latin
from maitred.shared_map import SharedMap

DISTINCT: Final = re.compile(r"[^\W_][\w.-]*[_.-][\w.-]*\w|[a-z]+[A-Z]\w+")
"""A name that is no everyday word."""

_MOST_ANSWERS: Final = 20_000
"""More answers are not kept, since a server's texts decide how many there are."""

Servers = tuple[str, ...]


class ToolNameLookup(Protocol):
    """Answers whether other servers have a tool of a name."""

    def has(self, name: str, *, but: str) -> bool:
        """Whether a server other than `but` has a tool of this name; `name` is in small letters."""
        ...


class ToolNameIndex:
    """The raw names of the tools of each server. It does not change; `with_names` makes another one."""

    def __init__(self, names: Mapping[str, Collection[str]] | None = None) -> None:
        self.names: Mapping[str, Collection[str]] = {}
        self._by_name: SharedMap[str, Servers] = SharedMap()
        self._by_look: SharedMap[str, Servers] = SharedMap()
        self._use(names or {})

    def with_names(self, names: Mapping[str, Collection[str]]) -> "ToolNameIndex":
        """The index of other names; it costs only what has changed."""
        changed = ToolNameIndex()
        changed.names = self.names
        changed._by_name, changed._by_look = self._by_name, self._by_look
        changed._use(names)
        return changed

    def with_server(self, server: str, tools: Collection[str]) -> "ToolNameIndex":
        """The index in which one server has other tools."""
        return self.with_names({**self.names, server: tools})

    def has(self, name: str, *, but: str) -> bool:
        """Whether a server other than `but` has a tool of this name, which is no everyday word."""
        return any(server != but for server in self._by_name.get(name, ()))

    def lookalike(self, name: str, *, but: str) -> str:
        """The server other than `but` with a tool that resembles this name; empty if there is none.

        Names resemble each other if they are equal except for case, separators, width and alphabet.
        """
        return next((server for server in self._by_look.get(_look(name), ()) if server != but), "")

    def _use(self, names: Mapping[str, Collection[str]]) -> None:
        changed = {
            server: (before, after)
            for server in self.names.keys() | names.keys()
            if (before := self.names.get(server, ())) is not (after := names.get(server, ()))
        }
        self._by_name = _with_servers(self._by_name, changed, _names)
        self._by_look = _with_servers(self._by_look, changed, _looks)
        self.names = dict(names)


def _with_servers(
    table: SharedMap[str, Servers],
    changed: Mapping[str, tuple[Collection[str], Collection[str]]],
    keys: Callable[[Iterable[str]], set[str]],
) -> SharedMap[str, Servers]:
    """A table of servers by key, after some servers have other tools than before."""
    groups: dict[str, Servers] = {}
    for server, (before, after) in changed.items():
        old, new = keys(before), keys(after)
        for key in old ^ new:
            there = groups[key] if key in groups else table.get(key, ())
            others = [one for one in there if one != server]
            groups[key] = tuple(sorted([*others, server] if key in new else others))
    return table.updated({key: servers for key, servers in groups.items() if servers}, groups)


class OtherTools:
    """The tools of other servers as the judgement of one server sees them; it keeps the answers."""

    def __init__(self, index: ToolNameIndex, server: str) -> None:
        self._index = index
        self._server = server
        self._named: dict[str, bool] = {}
        self._resembled: dict[str, str] = {}

    def has(self, name: str, *, but: str) -> bool:
        """See `ToolNameLookup`."""
        answer = self._index.has(name, but=but)
        if len(self._named) < _MOST_ANSWERS:
            self._named[name] = answer
        return answer

    def lookalike(self, name: str) -> str:
        """See `ToolNameIndex.lookalike`."""
        answer = self._index.lookalike(name, but=self._server)
        if len(self._resembled) < _MOST_ANSWERS:
            self._resembled[name] = answer
        return answer

    def agrees(self, index: ToolNameIndex) -> bool:
        """Whether an index gives the same answers; false if not all answers were kept."""
        if max(len(self._named), len(self._resembled)) >= _MOST_ANSWERS:
            return False
        server = self._server
        return all(index.has(name, but=server) == answer for name, answer in self._named.items()) and all(
            index.lookalike(name, but=server) == answer for name, answer in self._resembled.items()
        )


@lru_cache(maxsize=10_000)
def is_distinct(tool: str) -> bool:
    """Whether a name is no everyday word."""
    return DISTINCT.fullmatch(tool) is not None


def _names(tools: Iterable[str]) -> set[str]:
    return {tool.lower() for tool in tools if is_distinct(tool)}


def _looks(tools: Iterable[str]) -> set[str]:
    return {_look(tool) for tool in tools}


@lru_cache(maxsize=10_000)
def _look(name: str) -> str:
    plain = latin(name).casefold()
    return "".join(c for c in plain if c.isalnum()) or plain
