"""Put a server into the text of a TOML file, or take it out, and change nothing else."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from maitred.config.clients.entries import as_toml_table

_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}\n]|[^\s]',
    re.DOTALL,
)


class _Statement(NamedTuple):
    """A header or a pair: its whole lines, by offsets, and where it leads to, from the top."""

    start: int
    end: int
    keys: tuple[str, ...]


def with_server(text: str, key: str, name: str, entry: Any) -> str:
    """The text with a table for a server, behind the other servers, or else at the end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    inside = [one for one in _statements(text) if one.keys[:1] == (key,)]
    is_last = not inside or inside[-1].end >= len(text)
    at = len(text) if is_last else inside[-1].end
    head, tail = text[:at], text[at:]
    gap = "" if head.endswith("\n") or not head else newline
    blank = newline if head.strip() else ""
    table = newline.join(as_toml_table([key, name], entry))
    return f"{head}{gap}{blank}{table}{newline}{tail}"


def without_server(text: str, key: str, name: str) -> str:
    """The text without the tables and pairs of a server."""
    parts = []
    done = 0
    for one in _statements(text):
        if one.keys[:2] == (key, name):
            parts.append(text[done : one.start])
            done = one.end
            if text[done:].startswith(("\n", "\r\n")) and re.search(r"(?:^|\n)\r?\n\Z", "".join(parts)):
                done = text.index("\n", done) + 1  # one of two blank lines around it
    rest, head = text[done:], "".join(parts)
    if (
        done and not rest and (blank := re.search(r"(?<=\n)\r?\n\Z", head))
    ):  # one that was put before the table
        head = head[: blank.start()]
    return head + rest


def _statements(text: str) -> Iterator[_Statement]:
    """All headers and pairs, in their order; the text is valid."""
    table: tuple[str, ...] = ()
    start, depth = -1, 0
    for match in _TOKEN.finditer(f"{text}\n"):
        sign = match[0]
        if sign[0] == "#":
            continue
        if sign == "\n" and depth == 0:
            if start >= 0:
                line_start = text.rfind("\n", 0, start) + 1
                end = min(match.end(), len(text))
                keys, is_header = _keys_of(text[line_start:end])
                table = keys if is_header else table
                yield _Statement(line_start, end, keys if is_header else (*table, *keys))
            start = -1
            continue
        if sign == "\n":
            continue
        start = match.start() if start < 0 else start
        depth += (sign in ("[", "{")) - (sign in ("]", "}"))


def _keys_of(statement: str) -> tuple[tuple[str, ...], bool]:
    """The keys of a header or a pair, and whether it is a header."""
    is_header = statement.lstrip().startswith("[")
    value: Any = tomllib.loads(statement)
    keys: list[str] = []
    if not is_header:
        name = re.match(r"\s*((?:\"(?:\\.|[^\"\\])*\"|'[^']*'|[^=\"'])*)=", statement)
        value = tomllib.loads(f"{name[1]} = 0") if name else {}
    while (isinstance(value, dict) and value) or isinstance(value, list):
        if isinstance(value, list):
            value = value[-1]
            continue
        key, value = next(iter(value.items()))
        keys.append(key)
    return tuple(keys), is_header
