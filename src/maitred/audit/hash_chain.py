"""The audit trail as a hash chain in a table: append, verify, read and prune.

Each line contains the hash of the line before it. Two marks are stored separately: `anchor` is the line
before the first, `head` is the last line. So a check also notices lines that are missing at either end. With
a key the hashes are HMACs, and access to the database alone is not enough to forge them. The functions are
synchronous and take a connection in a transaction, which `maitred.audit.log` begins and ends.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from maitred.audit import line_index
from maitred.audit.line_index import BEGUN, FAILED, SUCCESSES
from maitred.storage.database import DriverConnection
from maitred.wording import count_of

MAX_FAULTS: Final = 100
_ADD: Final = "INSERT INTO audit (seq, at, body, digest) VALUES (?, ?, ?, ?)"
_MOVE: Final = "UPDATE audit_ends SET seq=?, digest=? WHERE audit_ends.name = ?"
_MARK: Final = "SELECT audit_ends.seq, audit_ends.digest FROM audit_ends WHERE audit_ends.name = ?"
_FIRST_SINCE: Final = "SELECT min(audit.seq) AS min_1 FROM audit WHERE audit.at >= ?"
_SINCE: Final = "SELECT audit.seq FROM audit WHERE audit.at >= ? ORDER BY audit.at LIMIT ?"
_LAST_UP_TO: Final = (
    "SELECT audit.seq, audit.digest FROM audit WHERE audit.seq < ? ORDER BY audit.seq DESC LIMIT ?"
)
_NEWEST_LINE: Final = "SELECT max(audit.seq) AS max_1 FROM audit"
_DROP: Final = "DELETE FROM audit WHERE audit.seq <= ?"
_ROWS: Final = (
    "SELECT audit.seq, audit.at, audit.body, audit.digest FROM audit WHERE audit.seq > ?"
    " ORDER BY audit.seq LIMIT ?"
)
_LATEST: Final = (
    "SELECT audit.seq, audit.at, audit.body FROM audit"
    " WHERE audit.seq < ? AND audit.seq >= ? AND audit.at >= ?"
    " AND audit.body LIKE ? AND audit.body LIKE ? AND audit.body LIKE ? AND audit.body LIKE ?"
    " AND audit.body LIKE ? AND audit.body LIKE ? AND audit.body LIKE ? AND audit.body LIKE ?"
    " ORDER BY audit.seq DESC LIMIT ?"
)
_NAMING: Final = "SELECT audit.body FROM audit WHERE audit.seq > ? AND audit.body LIKE ?"
_ADD_MARK: Final = "INSERT INTO audit_ends (name, seq, digest) VALUES (?, ?, ?)"
INDEXED: Final = "indexed"
"""The mark of the last line in the index; filters look at the lines after it one by one."""
ANCHOR_PREFIX: Final = "anchor-"
_PAGE: Final = 1_000
MOST_DROPPED: Final = 10_000
"""How many lines one transaction deletes: other writers wait for it."""
_INDEX_STEP: Final = 500
_SMALL_PAGE: Final = 100
_MOST_SINCE: Final = 5_000
_MOST_PATTERN: Final = 400
_NO_LETTER: Final = re.compile(r"[\\%_]")
NO_END: Final = 2**62
_CHANGED: Final = re.compile(r"line \d+ was changed")

Row = tuple[int, str, str, str]
"""A stored line: `seq, at, body, digest`."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A position in a chain: the number of a line, from 1, and its hash; 0 is before the first line.

    With `is_anchor` it is an anchor of the global chain, by which all chains are known.
    """

    seq: int = 0
    digest: str = ""
    is_anchor: bool = False

    @property
    def text(self) -> str:
        """The mark as text: `NUMBER:DIGEST`, or `anchor-NUMBER:DIGEST`."""
        return f"{ANCHOR_PREFIX if self.is_anchor else ''}{self.seq}:{self.digest}"

    def is_at(self, other: "Mark") -> bool:
        """Whether both are one position, whichever chain they are of."""
        return (self.seq, self.digest) == (other.seq, other.digest)


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Result of a check: the number of lines, the two marks, and every fault as a sentence.

    `unindexed` is how many lines a filter does not find, although the index should have them. `replicas` are
    the chains of single processes, and `anchors` the links of the global chain over them.
    """

    lines: int
    anchor: Mark
    head: Mark
    faults: Sequence[str] = ()
    unindexed: int = 0
    replicas: int = 0
    anchors: int = 0

    def to_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "ok": not self.faults,
            "lines": self.lines,
            "first": self.anchor.seq + 1,
            "head": self.head.text,
            "replicas": self.replicas,
            "anchors": self.anchors,
            "faults": list(self.faults),
        }


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Which lines to return: not older than `since` (ISO 8601, UTC), of a principal, of a tool or server.

    `client` is the name that a client gives itself, `project` the folder of a client or the name of that
    folder, `chain` the id of a chain or its beginning, `held` the id of a held call.
    `outcome` is one of the trail, or `failed` for all that are no success.
    """

    since: str = ""
    who: str = ""
    client: str = ""
    project: str = ""
    server: str = ""
    tool: str = ""
    outcome: str = ""
    chain: str = ""
    held: str = ""

    def patterns(self) -> Sequence[str]:
        """What the text of every line that matches is like; the database skips other lines unread.

        More lines may be like this. The end of an act that matches is like this too, whatever its outcome.
        """
        outcome = "" if self.outcome in (FAILED, BEGUN) else self.outcome
        return [
            _pattern("who", self.who),
            _pattern("client", self.client),
            _pattern("server", self.server),
            _pattern("", self.tool),
            _pattern("outcome", outcome),
            _pattern("chain_id", self.chain, is_whole=False),
            _pattern("project", self.project, is_end=True),
            _pattern("held", self.held),
        ]

    def terms(self) -> Sequence[int]:
        """The terms of the index that every line has that matches, and the end of an act that matches."""
        return line_index.wanted_terms(
            chain=self.chain,
            held=self.held,
            tool=self.tool,
            server=self.server,
            outcome=self.outcome,
            who=self.who,
            client=self.client,
            project=self.project,
        )


@dataclass(frozen=True, kw_only=True)
class AuditLines:
    """Some lines, the newest first. Pass `before` to get older ones; 0 means that there are no more."""

    lines: Sequence[Mapping[str, Any]]
    before: int = 0


def _pattern(field: str, value: str, *, is_whole: bool = True, is_end: bool = False) -> str:
    """A pattern for `LIKE` of lines with a value, in one field or in any; without a value, of every line.

    With `is_end`, the field may begin with something else. Characters that a pattern, or JSON, could write
    otherwise match any character.
    """
    if not value:
        return "%"
    text = json.dumps(value)[1:-1]
    end = '"' if is_whole and len(text) <= _MOST_PATTERN else ""
    start = (f'{field}":"' if field else ':"') + ("%" if is_end else "")
    return f"%{start}{_NO_LETTER.sub('_', text[:_MOST_PATTERN])}{end}%"


def digest_of(body: str, key: bytes) -> str:
    """The hash of a line in hex: an HMAC-SHA-256 if there is a key, else SHA-256."""
    data = body.encode("utf-8", "surrogatepass")
    return hmac.digest(key, data, "sha256").hex() if key else hashlib.sha256(data).hexdigest()


def mark(connection: DriverConnection, name: str) -> Mark:
    """The mark `anchor` or `head`."""
    row = connection.execute(_MARK, (name,)).fetchone()
    return Mark(seq=row[0], digest=row[1]) if row else Mark(seq=-1)


def newest(connection: DriverConnection) -> int:
    """The number of the last line, 0 without any."""
    return int(connection.execute(_NEWEST_LINE).fetchone()[0] or 0)


def oldest(connection: DriverConnection) -> int:
    """The number of the first line that is left."""
    return int(connection.execute(_ROWS, (-NO_END, 1)).fetchone()[0])


def move_mark(connection: DriverConnection, name: str, to: Mark) -> None:
    """Set a mark that is there."""
    connection.execute(_MOVE, (to.seq, to.digest, name))


def add_rows(connection: DriverConnection, rows: Sequence[Row]) -> None:
    """Add lines to the table."""
    connection.executemany(_ADD, rows)


def drop_up_to(connection: DriverConnection, seq: int) -> int:
    """Delete the lines up to a number; returns how many there were."""
    return connection.execute(_DROP, (seq,)).rowcount


def append(connection: DriverConnection, lines: Sequence[Mapping[str, Any]], key: bytes) -> int:
    """Append lines to the chain, each with the key `at`; returns the number of the first."""
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
    """Delete old lines and append `note` with their number; returns how many were deleted.

    All lines up to the last one older than `before` go, at most `MOST_DROPPED` of them at once. The last line
    of the trail always stays.
    """
    head = mark(connection, "head")
    last = last_before(connection, before, head.seq)
    if last is None or last.seq >= head.seq:
        return 0
    first = oldest(connection)
    last = last_up_to(connection, min(last.seq + 1, first + MOST_DROPPED)) or last
    for page in pages(connection, first - 1):
        line_index.drop(connection, numbered_lines(page, last.seq))
        if page[-1][0] >= last.seq:
            break
    count = drop_up_to(connection, last.seq)
    connection.execute(_MOVE, (last.seq, last.digest, "anchor"))
    append(connection, [{**note, "detail": f"dropped {count_of(count, 'line')} up to {last.seq}"}], key)
    return count


def last_before(connection: DriverConnection, before: str, head: int) -> Mark | None:
    """The line before the first one that is not older than a time: clocks go back, line numbers do not.

    `head` is the number of the last line, which always stays.
    """
    first = connection.execute(_FIRST_SINCE, (before,)).fetchone()[0]
    if first is None:  # all are older: the last line stays
        first = head
    return last_up_to(connection, first)


def last_up_to(connection: DriverConnection, seq: int) -> Mark | None:
    """The last line before a number."""
    row = connection.execute(_LAST_UP_TO, (seq, 1)).fetchone()
    return Mark(seq=row[0], digest=row[1]) if row else None


def pages(connection: DriverConnection, after: int) -> Iterator[Sequence[Row]]:
    """The rows `seq, at, body, digest` after a line, in pages."""
    while rows := connection.execute(_ROWS, (after, _PAGE)).fetchall():
        yield rows
        after = rows[-1][0]


def lines_after(connection: DriverConnection, after: int, limit: int) -> Sequence[Row]:
    """The first rows after a line, at most `limit` of them."""
    return connection.execute(_ROWS, (after, limit)).fetchall()


def latest(connection: DriverConnection, criteria: AuditFilter, before: int, limit: int) -> AuditLines:
    """The newest matching lines, the newest first, of those before a number (0: of all).

    A line with the outcome `begun` is left out if another line has the final outcome.
    """
    matches: list[Mapping[str, Any]] = []
    ended_lines: set[int] = set()
    for seq, when, body in _candidates(connection, criteria, before or NO_END, limit):
        line = _parse_line(seq, when, body)
        ended_lines.add(line.get("begun", 0))
        if seq in ended_lines or not _matches(line, criteria):
            continue
        if line.get("outcome") != BEGUN or not before or not _has_ended(connection, seq):
            matches.append(line)
            if len(matches) == limit:
                return AuditLines(lines=_by_time(matches), before=seq)
    return AuditLines(lines=_by_time(matches))


def _by_time(lines: list[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The newest first: replicas write what only reads some moments later, so numbers do not tell exactly."""
    if any("replica" in line for line in lines):
        lines.sort(key=lambda line: str(line.get("at", "")), reverse=True)
    return lines


def _candidates(
    connection: DriverConnection, criteria: AuditFilter, at: int, limit: int
) -> Iterator[tuple[int, str, str]]:
    """Rows before a number that may match, the newest first: those that the index does not have, then its."""
    page = min(max(2 * limit, _SMALL_PAGE), _PAGE)
    first = _first_since(connection, criteria.since) if criteria.since else 0
    terms = criteria.terms()
    indexed = mark(connection, INDEXED).seq if terms else -1
    least = max(first, indexed + 1)
    while rows := connection.execute(
        _LATEST, (at, least, criteria.since, *criteria.patterns(), page)
    ).fetchall():
        yield from rows
        at = rows[-1][0]
    if indexed < first:
        return
    at = min(at, indexed + 1)
    while rows := connection.execute(
        line_index.CHOSEN[len(terms)], line_index.chosen_values(terms, at, first, criteria.since, page)
    ).fetchall():
        yield from rows
        at = rows[-1][0]


def _first_since(connection: DriverConnection, since: str) -> int:
    """The least number of a line that is not older than a time; greater than all if there is none.

    The index of times is quick for a few lines, that of numbers for many. SQLite always takes the latter.
    """
    numbers = [row[0] for row in connection.execute(_SINCE, (since, _MOST_SINCE))]
    if len(numbers) < _MOST_SINCE:
        return min(numbers, default=NO_END)
    return int(connection.execute(_FIRST_SINCE, (since,)).fetchone()[0])


def _has_ended(connection: DriverConnection, seq: int) -> bool:
    indexed = mark(connection, INDEXED).seq
    ending = line_index.chosen_values([line_index.term_of("begun", seq)], NO_END, seq, "", 1)
    naming = [
        *(row[2:] for row in connection.execute(line_index.CHOSEN[1], ending)),
        *connection.execute(_NAMING, (max(seq, indexed), f'%"begun":{seq}%')),
    ]
    return any(_parse_line(0, "", body).get("begun") == seq for (body,) in naming)


# --- the index --------------------------------------------------------------------------------------------


def waiting_for_index(connection: DriverConnection) -> int:
    """How many lines the index does not have yet, about."""
    return newest(connection) - max(mark(connection, INDEXED).seq, mark(connection, "anchor").seq)


@dataclass(frozen=True, kw_only=True)
class IndexStep:
    """Some lines that the index does not have: they follow `after`, `last` is the last, `rows` are theirs."""

    after: int
    last: int
    rows: Sequence[tuple[int, int]]


def next_index_step(connection: DriverConnection, most: int = NO_END) -> IndexStep | None:
    """What the next lines up to a number add to the index, worked out before a writer takes the lock.

    `None` if few lines are left: they wait for more, since reading them one by one takes no time.
    """
    after = mark(connection, INDEXED).seq
    lines = connection.execute(_ROWS, (after, _INDEX_STEP)).fetchall()
    if len(lines) < _INDEX_STEP:
        return None
    last: int = lines[-1][0]
    if last > most:
        return None
    return IndexStep(after=after, last=last, rows=line_index.rows_of(numbered_lines(lines, last)))


def take_index_step(connection: DriverConnection, step: IndexStep) -> None:
    """Add a step to the index, unless another process was quicker."""
    if mark(connection, INDEXED).seq != step.after:
        return
    line_index.add(connection, step.rows)
    _move_index(connection, step.last)


def forget_index(connection: DriverConnection) -> None:
    """Have the index filled again from the first line; until then filters look at each line."""
    _move_index(connection, 0)


def numbered_lines(rows: Sequence[Row], last: int) -> Sequence[line_index.NumberedLine]:
    """The lines of rows up to a number."""
    return [(seq, _parse_line(seq, at, body)) for seq, at, body, _ in rows if seq <= last]


def _move_index(connection: DriverConnection, seq: int) -> None:
    if not connection.execute(_MOVE, (seq, "", INDEXED)).rowcount:
        connection.execute(_ADD_MARK, (INDEXED, seq, ""))


def _parse_line(seq: int, at: str, body: str) -> Mapping[str, Any]:
    try:
        line = json.loads(body)
    except ValueError:
        line = None
    return line if isinstance(line, dict) else {"seq": seq, "at": at, "outcome": "cannot be read"}


def _matches(line: Mapping[str, Any], criteria: AuditFilter) -> bool:
    names = (line.get("tool"), line.get("published"), line.get("server"))
    if criteria.who not in ("", line.get("who")) or criteria.client not in ("", line.get("client")):
        return False
    if criteria.server not in ("", line.get("server")) or criteria.held not in ("", line.get("held")):
        return False
    project = str(line.get("project", ""))
    if criteria.project not in ("", project, line_index.folder_name(project)):
        return False
    if (criteria.tool and criteria.tool not in names) or not _chain_of(line).startswith(criteria.chain):
        return False
    outcome = line.get("outcome")
    return outcome not in SUCCESSES if criteria.outcome == FAILED else criteria.outcome in ("", outcome)


def _chain_of(line: Mapping[str, Any]) -> str:
    return str(line.get("chain_id", ""))


class ChainWalk:
    """Walks over rows in order, from the mark before the first, and collects faults."""

    def __init__(self, anchor: Mark, known: Mark | None, key: bytes) -> None:
        self.anchor = anchor
        self.lines = 0
        self.faults: list[str] = []
        self.before = anchor
        self._known_mark = known
        self._has_known = known is None or known.seq <= anchor.seq
        self._key = key

    def step(self, row: Row) -> None:
        """Check the next row."""
        self.lines += 1
        if len(self.faults) < MAX_FAULTS:
            self.faults += _line_faults(self.before, row, self._key)
        self.before = Mark(seq=row[0], digest=row[3])
        self._has_known = self._has_known or self.before == self._known_mark

    def note_end(self, head: Mark) -> None:
        """Compare the last line with the one that is noted as the head."""
        if self.before.seq < head.seq:
            self.faults.append(f"lines {self.before.seq + 1} to {head.seq} are missing at the end")
        elif self.before != head:
            self.faults.append(
                f"the trail ends with line {self.before.seq}, which is not the one noted as its head"
            )

    def result(self) -> Verification:
        """The result up to the last row."""
        known = self._known_mark
        if known is not None and (
            not self._has_known or (known.seq == self.anchor.seq and known != self.anchor)
        ):
            self.faults.append(
                f"line {known.seq} is not the one that was noted elsewhere; the trail was rewritten"
            )
        if len(self.faults) >= min(self.lines, MAX_FAULTS) > 0 and _CHANGED.match(self.faults[0]):
            self.faults.append("no line fits; was the trail written with another key, or with none?")
        return Verification(lines=self.lines, anchor=self.anchor, head=self.before, faults=tuple(self.faults))


def verify(connection: DriverConnection, key: bytes, known: Mark | None) -> Verification:
    """Check every line; `known` is a mark that the operator saved elsewhere."""
    anchor, head = mark(connection, "anchor"), mark(connection, "head")
    walk = ChainWalk(anchor, known, key)
    walk.faults += [
        f"the mark {name!r} is missing" for name, m in (("anchor", anchor), ("head", head)) if m.seq < 0
    ]
    indexed, lost = mark(connection, INDEXED).seq, list[int]()
    for page in pages(connection, -1):
        for row in page:
            walk.step(row)
        lost += line_index.lacking(connection, numbered_lines(page, indexed))
    walk.note_end(head)
    if lost and not walk.faults:  # a line that was changed is reported as such
        walk.faults.append(f"filters did not find {count_of(len(lost), 'line')}, such as line {lost[0]}")
    return replace(walk.result(), head=head, unindexed=len(lost))


def _line_faults(before: Mark, row: Row, key: bytes) -> Iterator[str]:
    """Faults of one line, compared with the line before it."""
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
        line = json.loads(body)
        claims = (line["seq"], line["at"], line["prev"])
    except (ValueError, TypeError, KeyError):
        yield f"line {seq} cannot be read"
        return
    if claims[:2] != (seq, at):
        yield f"line {seq} was moved: it says of itself that it is line {claims[0]} of {claims[1]}"
    elif seq == before.seq + 1 and claims[2] != before.digest:
        yield f"line {seq} does not follow the line before it"
