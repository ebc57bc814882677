"""The index of the audit trail: by which names a line is found, so that a filter reads no other lines.

It is derived from the lines and adds nothing to them: it is filled behind the newest line in small steps, and
can be filled again at any time. A term is a hash of a field and its value. Two values may have one hash, so
each line that is found is compared with the filter.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from maitred.storage.database import DriverConnection

BEGUN: Final = "begun"
"""The outcome of the line that says that an act begins."""
FAILED: Final = "failed"
"""The filter for every outcome that is no success."""
NOTHING_FOUND: Final = "nothing_found"
"""The outcome of a search that answered, and had no relevant tool."""
SUCCESSES: Final = frozenset({"ok", BEGUN, "input_required", "registered", "changed", "held", NOTHING_FOUND})
"""The outcomes of acts that did what they should, or still may."""
NumberedLine = tuple[int, Mapping[str, Any]]
"""A line with its number."""
_NAMES: Final = ("server", "tool", "published")
_PLAIN: Final = ("who", "client", "begun", "project", "held")
_CHAIN_CHARS: Final = 8
"""A chain is found by so many characters of its id, and by more."""
_NO_TERM: Final = frozenset({"", "ok", BEGUN})
"""Outcomes that are no terms: most lines are `ok`, and what has begun may end in a line of any outcome."""
_ADD: Final = "INSERT INTO audit_terms (term, seq) VALUES (?, ?) ON CONFLICT DO NOTHING"
_DROP: Final = "DELETE FROM audit_terms WHERE audit_terms.term = ? AND audit_terms.seq = ?"
_KNOWN: Final = (
    "SELECT audit_terms.seq FROM audit_terms"
    " WHERE audit_terms.term = ? AND audit_terms.seq >= ? AND audit_terms.seq <= ?"
)
_MOST_TERMS: Final = 8
_MOST_TERMS_KEPT: Final = 4_096
"""The same few names are in most lines."""


def _chosen(count: int) -> str:
    """The statement for the lines with so many terms."""
    others = "".join(
        f" AND (EXISTS (SELECT 1 FROM audit_terms AS term_{n} WHERE term_{n}.term = ?"  # noqa: S608  # our own
        f" AND term_{n}.seq = term_1.seq))"
        for n in range(2, count + 1)
    )
    return (
        "SELECT audit.seq, audit.at, audit.body FROM audit_terms AS term_1"  # noqa: S608  # as above
        " JOIN audit ON audit.seq = term_1.seq"
        " WHERE term_1.term = ? AND term_1.seq < ? AND term_1.seq >= ? AND audit.at >= ?"
        f"{others} ORDER BY term_1.seq DESC LIMIT ?"
    )


CHOSEN: Final = {count: _chosen(count) for count in range(1, _MOST_TERMS + 1)}
"""By the number of terms: lines that have all of them; values as `chosen_values` has them."""


def chosen_values(
    terms: Sequence[int], before: int, first: int, since: str, limit: int
) -> Sequence[int | str]:
    """The values of a statement of `CHOSEN`: for lines from `first` on, before a number, since a time."""
    return (terms[0], before, first, since, *terms[1:], limit)


def term_of(field: str, value: object) -> int:
    """The term of a value: 63 bits, for a column of whole numbers."""
    return _term(field, str(value))


@lru_cache(maxsize=_MOST_TERMS_KEPT)
def _term(field: str, value: str) -> int:
    data = f"{field}\0{value}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) >> 1


def folder_name(path: str) -> str:
    """The last part of a path, by which a person names a project."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def terms_of(line: Mapping[str, Any]) -> set[int]:
    """By which terms a line is found."""
    terms = {term_of("name", line[field]) for field in _NAMES if line.get(field)}
    terms.update(term_of(field, line[field]) for field in _PLAIN if line.get(field))
    if project := str(line.get("project", "")):
        terms.add(term_of("project", folder_name(project)))
    if chain := str(line.get("chain_id", "")):
        terms.add(term_of("chain", chain[:_CHAIN_CHARS]))
    outcome = str(line.get("outcome", ""))
    if outcome not in _NO_TERM:
        terms.add(term_of("outcome", outcome))
    if outcome not in SUCCESSES:
        terms.add(term_of("outcome", FAILED))
    return terms


def wanted_terms(
    *, chain: str, held: str, tool: str, server: str, outcome: str, who: str, client: str, project: str
) -> Sequence[int]:
    """The terms that all lines of a filter have, those of few lines first; none if it needs all lines."""
    fields = (
        ("chain", chain[:_CHAIN_CHARS] if len(chain) >= _CHAIN_CHARS else ""),
        ("held", held),
        ("name", tool),
        ("name", server),
        ("outcome", "" if outcome in _NO_TERM else outcome),
        ("who", who),
        ("client", client),
        ("project", project),
    )
    return list(dict.fromkeys(term_of(field, value) for field, value in fields if value))


def rows_of(lines: Iterable[NumberedLine]) -> Sequence[tuple[int, int]]:
    """The rows `term, seq` of lines, in the order of the table."""
    return sorted((term, seq) for seq, line in lines for term in terms_of(line))


def add(connection: DriverConnection, rows: Sequence[tuple[int, int]]) -> None:
    """Add rows; those that are there already stay."""
    connection.executemany(_ADD, rows)


def drop(connection: DriverConnection, lines: Iterable[NumberedLine]) -> None:
    """Remove the rows of lines."""
    connection.executemany(_DROP, rows_of(lines))


def lacking(connection: DriverConnection, lines: Sequence[NumberedLine]) -> Sequence[int]:
    """The numbers of those lines, in their order, that a filter would not find."""
    if not lines:
        return []
    wanted: dict[int, set[int]] = defaultdict(set)
    for term, seq in rows_of(lines):
        wanted[term].add(seq)
    first, last = lines[0][0], lines[-1][0]
    lost: set[int] = set()
    for term, numbers in wanted.items():
        lost |= numbers.difference(row[0] for row in connection.execute(_KNOWN, (term, first, last)))
    return sorted(lost)
