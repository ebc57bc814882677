"""Find the tools that a caller may mean by a name that is not a published one.

Models write `server.tool`, `server/tool` or `server:tool`, and repeat the prefix of their client, as in
`mcp__github__create_issue`. Pure functions over a snapshot: they return every tool that fits and choose
none.
A name with invisible characters fits no tool, since a person would read another one in a log.
"""

import re
from collections.abc import Iterable, Iterator

from maitred.backends.listing import clean
from maitred.catalog.names import SEPARATOR, prefix
from maitred.catalog.snapshot import Snapshot
from maitred.model.pages import name_in_page
from maitred.model.tools import Tool

_CLIENT_PREFIX = "mcp__"
_CUT = re.compile(r"::|[./:]")
_PUNCTUATION = re.compile(r"[\W_]+")
_EMOJI_SELECTORS = frozenset("\ufe0e\ufe0f")  # invisible, though texts may contain them


def meant_by(name: str, snapshot: Snapshot) -> list[Tool]:
    """All tools that fit a name, in the order of the snapshot: by raw name or by any form of the whole name.

    A tool whose server and name are written exactly excludes those that differ in punctuation.
    """
    if not _is_visible(name):
        return []
    fitting = {tool.key for tool in snapshot.tools if tool.key.name == name}
    for published in _without_prefix(name):
        tool = snapshot.by_name.get(published) or snapshot.formerly.get(published)
        if tool is not None:
            fitting.add(tool.key)
    fitting.update(tool.key for tool in _joined(name, snapshot))
    if not fitting:  # a page takes no name from a tool of a server
        fitting.update(tool.key for tool in snapshot.tools if name_in_page(tool.key.name) == name)
    return [tool for tool in snapshot.tools if tool.key in fitting] if fitting else []


def servers_named(name: str, servers: Iterable[str]) -> list[str]:
    """The servers to which a name or a form of it seems to belong, whether or not its tool is known."""
    if not _is_visible(name):
        return []
    starts = (name, *_without_prefix(name))
    heads = {_folded(server) for server, _ in _halves(name)}
    return [
        server
        for server in servers
        if _folded(server) in heads or any(start.startswith(prefix(server)) for start in starts)
    ]


def _is_visible(name: str) -> bool:
    return name.isprintable() and clean(name) == name and _EMOJI_SELECTORS.isdisjoint(name)


def _without_prefix(name: str) -> Iterator[str]:
    """Published names behind the prefix of a client, with its key for this gateway or without."""
    if name.startswith(_CLIENT_PREFIX):
        rest = name.removeprefix(_CLIENT_PREFIX)
        yield rest
        yield rest.partition(SEPARATOR)[2]


def _halves(name: str) -> list[tuple[str, str]]:
    """Each way to cut a name at a separator into a server and a tool."""
    pairs = [(name[: cut.start()], name[cut.end() :]) for cut in _CUT.finditer(name)]
    return [(server, tool) for server, tool in pairs if server and tool]


def _joined(name: str, snapshot: Snapshot) -> list[Tool]:
    """Tools whose server and name are on the two sides of a separator.

    Exact matches if there are any, else those that differ only in punctuation.
    """
    halves = _halves(name)
    alike = {(_folded(server), _folded(tool)) for server, tool in halves} - {("", "")}
    heads = {server for server, _ in (*halves, *alike)}
    exact, near = [], []
    for server, tools in snapshot.by_server.items():
        for tool in tools if server in heads or _folded(server) in heads else ():
            names = (tool.key.name, tool.name, tool.name.removeprefix(prefix(server)))
            if any((server, own) in halves for own in names):
                exact.append(tool)
            elif any((_folded(server), _folded(own)) in alike for own in names):
                near.append(tool)
    return exact or near


def _folded(text: str) -> str:
    """A text in which all punctuation counts the same."""
    return _PUNCTUATION.sub("_", text).strip("_")
