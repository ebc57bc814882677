"""Find names that can be mistaken for others: of tools of different servers, and of servers.

Models and approving persons go by names. A server whose tool has a name like another server's gets calls that
were meant for the other. Equal names are common and honest (many servers have a `search`) and the gateway
separates them, so they are only reported. A person has to judge a name that only looks equal, or that
contains the name of another server.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from maitred.model.approvals import Severity
from maitred.poisoning.confusables import latin

Likeness = Literal["same", "spelling", "letters", "digits", "typo", "one-off"]
"""How two names are alike, the closest first.

They are equal, or equal except for one thing: case and separators, letters that look alike, digits in place
of letters, a doubled letter or two swapped ones, one character.
"""

LEAST_FOR_ONE_OFF: Final = 7
"""Least length of a name in characters for a finding about one different character."""

_MOST_FOR_ONE_OFF: Final = 128
"""Greatest such length: a longer name hides the difference anyway, and the search would take too long."""
_SEPARATORS = re.compile(r"[\W_]+")
_SWAPS: Final = str.maketrans(
    {"0": "o", "1": "l", "i": "l", "3": "e", "5": "s", "8": "b", "$": "s", "@": "a"}
)
_PAIRS: Final = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_LEAST_PREFIX = 4
_REASONS: Final[Mapping[Likeness, str]] = {
    "same": "is called the same as",
    "spelling": "differs in case or separators only from",
    "letters": "has letters that only look like those of",
    "digits": "has digits or letters that are easily taken for those of",
    "typo": "is a misspelling of",
    "one-off": "differs in one character from",
}
_OF_TOOLS: Final[Mapping[Likeness, Severity]] = {
    "same": "warn",
    "spelling": "warn",
    "letters": "refuse",
    "digits": "ask",
    "typo": "ask",
    "one-off": "warn",
}
_OF_SERVERS: Final[Mapping[Likeness, Severity]] = {
    "same": "refuse",
    "spelling": "ask",
    "letters": "refuse",
    "digits": "ask",
    "typo": "ask",
    "one-off": "ask",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class NameFinding:
    """A name of `server` that is like one of `other_server`; about servers themselves, it names no tools."""

    rule: Literal["tool-lookalike", "tool-impersonation", "server-lookalike"]
    server: str
    other_server: str
    tool: str = ""
    other_tool: str = ""
    severity: Severity
    reason: str
    fix: str = "give it a name of its own"


def likeness(name: str, other: str) -> Likeness | None:
    """How a name is like another one; `None` if it is not."""
    if name == other:
        return "same"
    plain, plain_other = _plain(name), _plain(other)
    if plain == plain_other:
        return "spelling" if name.isascii() and other.isascii() else "letters"
    if _skeleton(plain) == _skeleton(plain_other):
        return "digits"
    return _one_off(plain, plain_other)


def compare_servers(server: str, known: Collection[str]) -> Sequence[NameFinding]:
    """The known servers whose names are like that of a new one."""
    return [
        NameFinding(
            rule="server-lookalike",
            server=server,
            other_server=other,
            severity=_OF_SERVERS[how],
            reason=f"{server!a} {_REASONS[how]} {other!a}",
        )
        for other in known
        if (how := likeness(server, other))
    ]


class KnownTools:
    """The names of the tools of all known servers, for comparison with those of one."""

    def __init__(self, names: Mapping[str, Collection[str]]) -> None:
        """`names` are those of the tools of each server."""
        self._servers = {server: _plain(server) for server in names}
        self._like: dict[str, list[tuple[str, str]]] = {}
        for server, tools in names.items():
            for tool in tools:
                for key in _keys(_plain(tool)):
                    self._like.setdefault(key, []).append((server, tool))

    def compare(self, server: str, tools: Collection[str]) -> Sequence[NameFinding]:
        """The tools of a server whose names are like another server's tool or name."""
        return [finding for tool in tools for finding in self._of_tool(server, tool)]

    def _of_tool(self, server: str, tool: str) -> Iterator[NameFinding]:
        visited = {(server, tool)}
        for key in _keys(_plain(tool)):
            for other in self._like.get(key, ()):
                if other[0] == server or other in visited:
                    continue
                visited.add(other)
                if how := likeness(tool, other[1]):
                    yield _finding(server, tool, other, how)
        own = _plain(server)
        for other_server, plain in self._servers.items():
            if other_server != server and _bears(tool, plain) and plain not in own and own not in plain:
                yield NameFinding(
                    rule="tool-impersonation",
                    server=server,
                    other_server=other_server,
                    tool=tool,
                    severity="ask",
                    reason=f"{tool!a} bears the name of the server {other_server!a}",
                )


def _finding(server: str, tool: str, other: tuple[str, str], how: Likeness) -> NameFinding:
    return NameFinding(
        rule="tool-lookalike",
        server=server,
        other_server=other[0],
        tool=tool,
        other_tool=other[1],
        severity=_OF_TOOLS[how],
        reason=f"{tool!a} {_REASONS[how]} {other[1]!a} of {other[0]!a}",
    )


def _bears(tool: str, server: str) -> bool:
    """Whether a tool's name begins like the published names of a server's tools."""
    if len(server) < _LEAST_PREFIX or "__" not in tool:
        return False
    return _plain(tool.partition("__")[0]) == server


def _plain(name: str) -> str:
    return _SEPARATORS.sub("", latin(name))


def _skeleton(plain: str) -> str:
    for pair, letter in _PAIRS:
        plain = plain.replace(pair, letter)
    return plain.translate(_SWAPS)


def _keys(plain: str) -> Iterator[str]:
    """Keys that similar names share: the skeleton, and the name without each one of its letters."""
    yield "=" + _skeleton(plain)
    if LEAST_FOR_ONE_OFF - 1 <= len(plain) <= _MOST_FOR_ONE_OFF:
        yield plain
        for place in range(len(plain)):
            yield plain[:place] + plain[place + 1 :]


def _one_off(plain: str, other: str) -> Likeness | None:
    """Whether one character was inserted, removed or replaced, or two were swapped.

    A plural or another number is an obvious difference (`get_user`, `get_users`; `step1`, `step2`).
    """
    short, long = sorted((plain, other), key=len)
    if len(long) < LEAST_FOR_ONE_OFF or len(long) - len(short) > 1:
        return None
    place = next((at for at, letter in enumerate(short) if letter != long[at]), len(short))
    rest, long_rest = short[place:], long[place:]
    if len(short) < len(long):
        if rest != long_rest[1:] or long_rest[0].isdigit():
            return None
        if place and long[place - 1] == long_rest[0]:
            return "typo"
        return None if long_rest == "s" else "one-off"
    if rest[1:] == long_rest[1:]:
        return None if rest[0].isdigit() or long_rest[0].isdigit() else "one-off"
    return "typo" if rest[:2] == long_rest[1::-1] and rest[2:] == long_rest[2:] else None
