"""The audit trail as rows of a table: lines added to the chain, checked, read and pruned.

Each line holds the hash of the one before it, and its own hash is kept beside it. Two marks stand apart: the
`anchor` is the line before the first that is kept, the `head` the last one, so lines that are missing at
either end are noticed too. With a key the hashes are HMACs, and whoever has only the file cannot forge them.
These are plain functions on a connection in a transaction, which `maitred.audit.log` begins and ends.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from maitred.storage.database import DriverConnection
from maitred.wording import counted

_MAX_FAULTS: Final = 100
_ADD: Final = "INSERT INTO audit (seq, at, body, digest) VALUES (?, ?, ?, ?)"
_MOVE: Final = "UPDATE audit_ends SET seq=?, digest=? WHERE audit_ends.name = ?"
_MARK: Final = "SELECT audit_ends.seq, audit_ends.digest FROM audit_ends WHERE audit_ends.name = ?"
_FIRST_SINCE: Final = "SELECT min(audit.seq) AS min_1 FROM audit WHERE audit.at >= ?"
_LAST_UP_TO: Final = (
    "SELECT audit.seq, audit.digest FROM audit WHERE audit.seq < ? ORDER BY audit.seq DESC LIMIT ?"
)
_DROP: Final = "DELETE FROM audit WHERE audit.seq <= ?"
_ROWS: Final = (
    "SELECT audit.seq, audit.at, audit.body, audit.digest FROM audit WHERE audit.seq > ?"
    " ORDER BY audit.seq LIMIT ?"
)
_LATEST: Final = (
    "SELECT audit.seq, audit.at, audit.body FROM audit WHERE audit.seq < ? AND audit.at >= ?"
    " ORDER BY audit.seq DESC LIMIT ?"
)
_NAMING: Final = "SELECT audit.body FROM audit WHERE audit.seq > ? AND audit.body LIKE ?"
_PAGE: Final = 1_000
_NEWEST: Final = 2**62
_DIGEST_AT_END: Final = re.compile(r',"digest":"([0-9a-f]{64})"\}\Z')
_CHANGED: Final = re.compile(r"line \d+ was changed")

Row = tuple[int, str, str, str]
"""A line as it is kept: `seq, at, body, digest`."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A place in the chain: the number of a line, from 1, and its hash; 0 is before the first."""

    seq: int = 0
    digest: str = ""

    @property
    def text(self) -> str:
        """As it is written down: `NUMBER:DIGEST`."""
        return f"{self.seq}:{self.digest}"


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What checking the trail found: how many lines, between which marks, and every fault as a sentence."""

    lines: int
    anchor: Mark
    head: Mark
    faults: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Which lines are looked for: from a time on (ISO, UTC), of one principal, of one tool or server."""

    since: str = ""
    who: str = ""
    tool: str = ""


@dataclass(frozen=True, kw_only=True)
class AuditLines:
    """Some lines, the newest first; there may be more `before` this number, and none if it is 0."""

    lines: Sequence[Mapping[str, Any]]
    before: int = 0


def digest_of(body: str, key: bytes) -> str:
    """The hash of a line, in hex: SHA-256, or an HMAC of it where there is a key."""
    data = body.encode("utf-8", "surrogatepass")
    return hmac.digest(key, data, "sha256").hex() if key else hashlib.sha256(data).hexdigest()


def mark(connection: DriverConnection, name: str) -> Mark:
    """The mark `anchor` or `head`."""
    row = connection.execute(_MARK, (name,)).fetchone()
    return Mark(seq=row[0], digest=row[1]) if row else Mark(seq=-1)


def append(connection: DriverConnection, lines: Sequence[Mapping[str, Any]], key: bytes) -> int:
    """Add lines at the end of the chain; each needs the key `at`. The first's number."""
    head = mark(connection, "head")
    first = head.seq + 1
    rows: list[tuple[Any, ...]] = []
    for line in lines:
        body = json.dumps({"seq": head.seq + 1, "prev": head.digest, **line}, separators=(",", ":"))
        head = Mark(seq=head.seq + 1, digest=digest_of(body, key))
        rows.append((head.seq, line["at"], body, head.digest))
    connection.executemany(_ADD, rows)
    connection.execute(_MOVE, (head.seq, head.digest, "head"))
    return first


def prune(connection: DriverConnection, before: str, note: Mapping[str, Any], key: bytes) -> int:
    """Drop the lines up to the last of those older than a time, and add `note` with their number; how many.

    The last line of the trail is never dropped.
    """
    last, head = _last_before(connection, before), mark(connection, "head")
    if last is None or last.seq >= head.seq:
        return 0
    gone = connection.execute(_DROP, (last.seq,)).rowcount
    connection.execute(_MOVE, (last.seq, last.digest, "anchor"))
    append(connection, [{**note, "detail": f"dropped {counted(gone, 'line')} up to {last.seq}"}], key)
    return gone


def _last_before(connection: DriverConnection, before: str) -> Mark | None:
    """The line before the first that is as young as a time: clocks go back, the order of lines does not."""
    first = connection.execute(_FIRST_SINCE, (before,)).fetchone()[0]
    if first is None:  # all are older: the last line of all is kept
        first = mark(connection, "head").seq
    row = connection.execute(_LAST_UP_TO, (first, 1)).fetchone()
    return Mark(seq=row[0], digest=row[1]) if row else None


def pages(connection: DriverConnection, after: int) -> Iterator[Sequence[Row]]:
    """The rows `seq, at, body, digest` after a line, some at a time."""
    while rows := connection.execute(_ROWS, (after, _PAGE)).fetchall():
        yield rows
        after = rows[-1][0]


def latest(connection: DriverConnection, wanted: AuditFilter, before: int, limit: int) -> AuditLines:
    """The newest lines that are wanted, the newest first, of those before a number (0: of all).

    A line that says that something has begun is left out where another line says how it ended.
    """
    found: list[Mapping[str, Any]] = []
    ended: set[int] = set()
    at = before or _NEWEST
    while rows := connection.execute(_LATEST, (at, wanted.since, _PAGE)).fetchall():
        for seq, when, body in rows:
            at = seq
            line = _read(seq, when, body)
            ended.add(line.get("begun", 0))
            if seq in ended or not _is_wanted(line, wanted):
                continue
            if line.get("outcome") != "begun" or not before or not _has_ended(connection, seq):
                found.append(line)
                if len(found) == limit:
                    return AuditLines(lines=found, before=at)
    return AuditLines(lines=found)


def _has_ended(connection: DriverConnection, seq: int) -> bool:
    naming = connection.execute(_NAMING, (seq, f'%"begun":{seq}%'))
    return any(_read(0, "", body).get("begun") == seq for (body,) in naming)


def _read(seq: int, at: str, body: str) -> Mapping[str, Any]:
    try:
        line = json.loads(body)
    except ValueError:
        line = None
    return line if isinstance(line, dict) else {"seq": seq, "at": at, "outcome": "cannot be read"}


def _is_wanted(line: Mapping[str, Any], wanted: AuditFilter) -> bool:
    named = (line.get("tool"), line.get("published"), line.get("server"))
    return wanted.who in ("", line.get("who")) and (not wanted.tool or wanted.tool in named)


# --- verifying --------------------------------------------------------------------------------------------


class _ChainWalk:
    """Goes over rows in their order, from the mark before the first, and keeps what is wrong with them."""

    def __init__(self, anchor: Mark, known: Mark | None, key: bytes) -> None:
        self.anchor = anchor
        self.lines = 0
        self.faults: list[str] = []
        self.before = anchor
        self._known = known
        self._noted = known is None or known.seq <= anchor.seq
        self._key = key

    def step(self, row: Row) -> None:
        """Look at the next row."""
        self.lines += 1
        if len(self.faults) < _MAX_FAULTS:
            self.faults += _line_faults(self.before, row, self._key)
        self.before = Mark(seq=row[0], digest=row[3])
        self._noted = self._noted or self.before == self._known

    def found(self) -> Verification:
        """What was found, up to the last line that was seen."""
        known = self._known
        if known is not None and (not self._noted or (known.seq == self.anchor.seq and known != self.anchor)):
            self.faults.append(
                f"line {known.seq} is not the one that was noted elsewhere; the trail was written anew"
            )
        if len(self.faults) >= min(self.lines, _MAX_FAULTS) > 0 and _CHANGED.match(self.faults[0]):
            self.faults.append("no line fits; was the trail written with another key, or with none?")
        return Verification(lines=self.lines, anchor=self.anchor, head=self.before, faults=tuple(self.faults))


def verify(connection: DriverConnection, key: bytes, known: Mark | None) -> Verification:
    """Check every line; `known` is a mark that was noted elsewhere before."""
    anchor, head = mark(connection, "anchor"), mark(connection, "head")
    walk = _ChainWalk(anchor, known, key)
    walk.faults += [
        f"the mark {name!r} is missing" for name, m in (("anchor", anchor), ("head", head)) if m.seq < 0
    ]
    for page in pages(connection, -1):
        for row in page:
            walk.step(row)
    if walk.before.seq < head.seq:
        walk.faults.append(f"lines {walk.before.seq + 1} to {head.seq} are missing at the end")
    elif walk.before != head:
        walk.faults.append(
            f"the trail ends with line {walk.before.seq}, which is not the one noted as its head"
        )
    return replace(walk.found(), head=head)


def exported(body: str, digest: str) -> str:
    """A line for an export: the body with its digest as the last field."""
    return f'{body[:-1]},"digest":"{digest}"}}'


def verify_export(lines: Iterable[str], key: bytes, known: Mark | None) -> Verification:
    """Check exported lines by themselves; where they begin is taken from the first.

    That lines are missing at the end is noticed by `known` alone.
    """
    walk: _ChainWalk | None = None
    unread: list[str] = []
    for number, text in enumerate(lines, 1):
        row = _imported(text.rstrip("\r\n"))
        if row is None:
            unread.append(f"line {number} of the file cannot be read")
            continue
        if walk is None:
            walk = _ChainWalk(Mark(seq=row[0] - 1, digest=json.loads(row[2]).get("prev", "")), known, key)
        walk.step(row)
    found = walk.found() if walk else Verification(lines=0, anchor=Mark(), head=Mark())
    return replace(found, faults=(*unread[:_MAX_FAULTS], *found.faults))


def _imported(text: str) -> Row | None:
    """The row that an exported line tells of; its body is the text itself, without the digest."""
    if not (end := _DIGEST_AT_END.search(text)):
        return None
    body = text[: end.start()] + "}"
    try:
        said = json.loads(body)
    except ValueError:
        return None
    if not isinstance(said, dict) or not isinstance(said.get("seq"), int):
        return None
    return said["seq"], str(said.get("at")), body, end[1]


def _line_faults(before: Mark, row: Row, key: bytes) -> Iterator[str]:
    """What is wrong with one line, by the line before it as it is."""
    seq, at, body, digest = row
    if seq != before.seq + 1:
        gap = (
            f"lines {before.seq + 1} to {seq - 1} are missing"
            if seq > before.seq
            else f"line {seq} is too many"
        )
        yield gap
    if not hmac.compare_digest(digest_of(body, key), digest):
        yield f"line {seq} was changed"
        return
    try:
        said = json.loads(body)
        told = (said["seq"], said["at"], said["prev"])
    except (ValueError, TypeError, KeyError):
        yield f"line {seq} cannot be read"
        return
    if told[:2] != (seq, at):
        yield f"line {seq} was moved: it says of itself that it is line {told[0]} of {told[1]}"
    elif seq == before.seq + 1 and told[2] != before.digest:
        yield f"line {seq} does not follow the line before it"
