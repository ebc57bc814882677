"""Chains of the audit trail on PostgreSQL: one for each process, so that none waits for another.

Lines of all chains are in one table and share its numbers, which a sequence gives. A line also has the name
of its replica, and its place in that chain. Each second the heads of the chains that grew become an anchor: a
link of one global chain. So neither a tail nor a whole chain can be taken away once it is anchored.
`trail_check` checks all of it. Writers of lines are in the lane `together`; `join` and `prune` need the lane
`barrier`, and `anchor` needs to be alone.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from maitred.audit import hash_chain, line_index
from maitred.audit.hash_chain import Mark, digest_of, mark
from maitred.storage.database import DriverConnection
from maitred.wording import count_of

ANCHORS: Final = "anchors"
"""The mark of the last anchor."""
BEFORE_ANCHORS: Final = "anchors_0"
"""The mark before the oldest anchor."""
_NO_REPLICA: Final = ""
"""The name of the one chain from before there were replicas."""
_JOIN: Final = (
    "INSERT INTO audit_replicas (replica, first_place, first_digest, place, digest, seq, at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_SYNC: Final = (
    "SELECT setval('audit_seq', newest) FROM (SELECT max(seq) AS newest FROM audit) AS lines, audit_seq"
    " WHERE newest > last_value OR (newest = last_value AND NOT is_called)"
)
"""Have the sequence go on after lines that were written without it, or restored from a copy."""
_NUMBERS: Final = (
    "SELECT nextval('audit_seq'), chain.place, chain.digest"
    " FROM (SELECT place, digest FROM audit_replicas WHERE replica = ? FOR UPDATE) AS chain,"
    " generate_series(1, ?)"
)
_MOVE_HEAD: Final = (
    "UPDATE audit_replicas SET place=?, digest=?, seq=?, at=? WHERE audit_replicas.replica = ?"
)
_MOVE_FIRST: Final = (
    "UPDATE audit_replicas SET first_place=?, first_digest=? WHERE audit_replicas.replica = ?"
)
_REPLICAS: Final = (
    "SELECT audit_replicas.replica, audit_replicas.first_place, audit_replicas.first_digest,"
    " audit_replicas.place, audit_replicas.digest, audit_replicas.seq FROM audit_replicas"
    " ORDER BY audit_replicas.replica"
)
_GROWN: Final = (
    "SELECT audit_replicas.replica, audit_replicas.place, audit_replicas.seq, audit_replicas.digest"
    " FROM audit_replicas LEFT OUTER JOIN audit_anchored"
    " ON audit_anchored.replica = audit_replicas.replica"
    " WHERE audit_replicas.place > coalesce(audit_anchored.place, ?)"
)
_ANCHORED: Final = "SELECT audit_anchored.place FROM audit_anchored WHERE audit_anchored.replica = ?"
_NOTE_ANCHORED: Final = (
    "INSERT INTO audit_anchored (replica, place, at) VALUES (?, ?, ?)"
    " ON CONFLICT (replica) DO UPDATE SET place = excluded.place, at = excluded.at"
)
_ADD_ANCHOR: Final = "INSERT INTO audit_anchors (seq, at, body, digest) VALUES (?, ?, ?, ?)"
_ANCHOR_ROWS: Final = (
    "SELECT audit_anchors.seq, audit_anchors.at, audit_anchors.body, audit_anchors.digest FROM audit_anchors"
    " WHERE audit_anchors.seq > ? ORDER BY audit_anchors.seq LIMIT ?"
)
_LAST_OLD_ANCHOR: Final = (
    "SELECT audit_anchors.seq, audit_anchors.digest FROM audit_anchors"
    " WHERE audit_anchors.at < ? ORDER BY audit_anchors.seq DESC LIMIT ?"
)
_DROP_ANCHORS: Final = "DELETE FROM audit_anchors WHERE audit_anchors.seq <= ?"
_DROP_REPLICAS: Final = (
    "DELETE FROM audit_replicas WHERE first_place = place AND at < ? AND NOT EXISTS"
    " (SELECT 1 FROM audit_anchored WHERE audit_anchored.replica = audit_replicas.replica"
    " AND audit_anchored.at >= ?)"
)
_DROP_ANCHORED: Final = (
    "DELETE FROM audit_anchored WHERE replica <> '' AND replica NOT IN (SELECT replica FROM audit_replicas)"
)
_PAGE: Final = 1_000
_BEGIN: Final = re.compile(r'\A\{"seq":[0-9]+,"replica":"([^"\\]+)","place":([0-9]+),')


class ReplicaLine(NamedTuple):
    """Where a line is, besides its number."""

    replica: str
    place: int


class Replica(NamedTuple):
    """A chain: place and digest of the line before its oldest and of its last, with the number of that."""

    replica: str
    first_place: int
    first_digest: str
    place: int
    digest: str
    seq: int


def join(connection: DriverConnection, replica: str) -> None:
    """Begin a chain, if there is none of this name."""
    connection.execute(_SYNC).fetchall()
    _join(connection, replica)


def _join(connection: DriverConnection, replica: str) -> None:
    connection.execute(_JOIN, (replica, 0, "", 0, "", 0, ""))


def append(
    connection: DriverConnection, lines: Sequence[Mapping[str, Any]], key: bytes, replica: str
) -> Sequence[int]:
    """Append lines to the chain of a replica, each with the key `at`; returns their numbers."""
    found = connection.execute(_NUMBERS, (replica, len(lines))).fetchall()
    if not found:  # nothing was written for so long that the chain was pruned
        _join(connection, replica)
        found = connection.execute(_NUMBERS, (replica, len(lines))).fetchall()
    _, place, digest = found[0]
    rows: list[tuple[Any, ...]] = []
    numbers = sorted(row[0] for row in found)
    for number, line in zip(numbers, lines, strict=True):
        place += 1
        head = {"seq": number, "replica": replica, "place": place, "prev": digest}
        body = json.dumps({**head, **line}, separators=(",", ":"))
        digest = digest_of(body, key)
        rows.append((number, line["at"], body, digest))
    hash_chain.add_rows(connection, rows)
    connection.execute(_MOVE_HEAD, (place, digest, numbers[-1], rows[-1][1], replica))
    return numbers


def replicas(connection: DriverConnection) -> Mapping[str, Replica]:
    """All chains, by the names of their replicas."""
    return {row[0]: Replica(*row) for row in connection.execute(_REPLICAS)}


# --- anchors ----------------------------------------------------------------------------------------------


def grown(connection: DriverConnection) -> Mapping[str, Sequence[Any]]:
    """The heads of chains that are not anchored: `place, number, digest` by replica."""
    heads = {row[0]: list(row[1:]) for row in connection.execute(_GROWN, (0,))}
    old = mark(connection, "head")
    if old.seq > 0 and not connection.execute(_ANCHORED, (_NO_REPLICA,)).fetchall():
        heads[_NO_REPLICA] = [old.seq, old.seq, old.digest]
    return heads


def anchor(connection: DriverConnection, at: str, key: bytes) -> bool:
    """Add an anchor with the heads of all chains that grew; false if none did."""
    if not (heads := grown(connection)):
        return False
    last = mark(connection, ANCHORS)
    body = json.dumps(
        {"anchor": last.seq + 1, "at": at, "prev": last.digest, "heads": heads}, separators=(",", ":")
    )
    digest = digest_of(body, key)
    connection.execute(_ADD_ANCHOR, (last.seq + 1, at, body, digest))
    connection.executemany(_NOTE_ANCHORED, [(name, head[0], at) for name, head in heads.items()])
    hash_chain.move_mark(connection, ANCHORS, Mark(seq=last.seq + 1, digest=digest))
    return True


def anchor_pages(connection: DriverConnection, after: int = -1) -> Iterator[Sequence[hash_chain.Row]]:
    """The anchors after a number, in pages."""
    while rows := connection.execute(_ANCHOR_ROWS, (after, _PAGE)).fetchall():
        yield rows
        after = rows[-1][0]


# --- pruning ----------------------------------------------------------------------------------------------


def prune(
    connection: DriverConnection, before: str, note: Mapping[str, Any], key: bytes, replica: str
) -> int:
    """Delete old lines and anchors, and append `note`; see `hash_chain.prune`."""
    newest = hash_chain.newest(connection)
    last = hash_chain.last_before(connection, before, newest)
    if last is None or last.seq >= newest:
        return 0
    first = hash_chain.oldest(connection)
    last = hash_chain.last_up_to(connection, min(last.seq + 1, first + hash_chain.MOST_DROPPED)) or last
    ends: dict[str, Mark] = {}
    for page in hash_chain.pages(connection, first - 1):
        dropped = [row for row in page if row[0] <= last.seq]
        line_index.drop(connection, hash_chain.numbered_lines(dropped, last.seq))
        for seq, _, body, digest in dropped:
            where = place_of(body)
            ends[where.replica if where else _NO_REPLICA] = Mark(
                seq=where.place if where else seq, digest=digest
            )
        if len(dropped) < len(page):
            break
    count = hash_chain.drop_up_to(connection, last.seq)
    if (old := ends.pop(_NO_REPLICA, None)) is not None:
        hash_chain.move_mark(connection, "anchor", old)
    connection.executemany(_MOVE_FIRST, [(end.seq, end.digest, name) for name, end in ends.items()])
    _prune_anchors(connection, before)
    detail = f"dropped {count_of(count, 'line')} up to {last.seq}"
    append(connection, [{**note, "detail": detail}], key, replica)
    return count


def _prune_anchors(connection: DriverConnection, before: str) -> None:
    """Drop old anchors but the last one, and chains of which nothing is left."""
    row = connection.execute(_LAST_OLD_ANCHOR, (before, 1)).fetchone()
    if row is not None and row[0] < mark(connection, ANCHORS).seq:
        connection.execute(_DROP_ANCHORS, (row[0],))
        hash_chain.move_mark(connection, BEFORE_ANCHORS, Mark(seq=row[0], digest=row[1]))
    connection.execute(_DROP_REPLICAS, (before, before))
    connection.execute(_DROP_ANCHORED)


def place_of(body: str) -> ReplicaLine | None:
    """The replica and the place of a line by its text; `None` of one from before there were replicas."""
    if not (begin := _BEGIN.match(body)):
        return None
    return ReplicaLine(replica=begin[1], place=int(begin[2]))
