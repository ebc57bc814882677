"""Check the whole audit trail: the chain of each replica, and the global chain that anchors their heads.

Of a trail on SQLite there is one chain and nothing else. An export is checked in the same way, without the
database: its lines come first, then its anchors.
"""

import hmac
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from maitred.audit import hash_chain, line_index, replica_chain
from maitred.audit.hash_chain import MAX_FAULTS, ChainWalk, Mark, Row, Verification, digest_of, mark
from maitred.audit.replica_chain import Replica, place_of
from maitred.storage.database import DriverConnection
from maitred.wording import count_of

_DIGEST_AT_END: Final = re.compile(r',"digest":"([0-9a-f]{64})"\}\Z')
_AT_ONCE: Final = 500
_SELECT_DIGESTS: Final = "SELECT audit.seq, audit.digest FROM audit WHERE audit.seq IN (?{})"
_ANCHOR: Final = '{"anchor":'
_NO_REPLICA: Final = ""


@dataclass(kw_only=True)
class _ReplicaWalk:
    """Walks over the lines of one replica; `before` is its last line so far, with the place as its number."""

    name: str
    before: Mark
    faults: list[str] = field(default_factory=list)

    def step(self, row: Row, place: int, key: bytes) -> None:
        """Check the next line."""
        seq, _, body, digest = row
        if place != self.before.seq + 1:
            gap = (
                f"places {self.before.seq + 1} to {place - 1} of replica {self.name} are missing"
                if place > self.before.seq
                else f"line {seq} is too many in replica {self.name}"
            )
            self.faults.append(gap)
        if not hmac.compare_digest(digest_of(body, key), digest):
            self.faults.append(f"line {seq} was changed")
        else:
            self.faults += self._claims(row, follows=place == self.before.seq + 1)
        self.before = Mark(seq=place, digest=digest)

    def _claims(self, row: Row, *, follows: bool) -> Iterator[str]:
        try:
            line = json.loads(row[2])
            claims = (line["seq"], line["at"], line["prev"])
        except (ValueError, TypeError, KeyError):
            yield f"line {row[0]} cannot be read"
            return
        if claims[:2] != row[:2]:
            yield f"line {row[0]} was moved: it says of itself that it is line {claims[0]} of {claims[1]}"
        elif follows and claims[2] != self.before.digest:
            yield f"line {row[0]} does not follow the line before it in replica {self.name}"

    def end(self, head: Replica) -> None:
        """Compare the last line with what is noted of it."""
        if self.before.seq < head.place:
            self.faults.append(
                f"places {self.before.seq + 1} to {head.place} of replica {self.name} are missing at the end"
            )
        elif self.before != Mark(seq=head.place, digest=head.digest):
            self.faults.append(f"replica {self.name} does not end with the line that is noted as its last")


class _AnchorWalk:
    """Walks over anchors in order, and collects what they say of lines."""

    def __init__(self, first: Mark | None, known: Mark | None, key: bytes) -> None:
        self.before = first
        self.count = 0
        self.faults: list[str] = []
        self._known = known
        self._has_known = known is None or (
            first is not None and (known.seq < first.seq or known.is_at(first))
        )
        self._key = key

    def step(self, row: Row) -> Mapping[str, Sequence[Any]]:
        """Check the next anchor; returns its heads, or none if it cannot be believed."""
        seq, _, body, digest = row
        self.count += 1
        try:
            claims = json.loads(body)
            number, prev = claims["anchor"], claims["prev"]
            heads: Mapping[str, Sequence[Any]] = claims["heads"]
        except (ValueError, TypeError, KeyError):
            number, prev, heads = seq, "", {}
        before = self.before or Mark(seq=seq - 1, digest=prev)
        if seq != before.seq + 1:
            self.faults.append(f"anchors {before.seq + 1} to {seq - 1} are missing")
        if not hmac.compare_digest(digest_of(body, self._key), digest) or number != seq:
            self.faults.append(f"anchor {seq} was changed")
            heads = {}
        elif seq == before.seq + 1 and prev != before.digest:
            self.faults.append(f"anchor {seq} does not follow the anchor before it")
        self.before = Mark(seq=seq, digest=digest)
        known = self._known
        self._has_known = self._has_known or (known is not None and known.is_at(self.before))
        return heads

    def end(self, last: Mark | None) -> None:
        """Compare the last anchor with what is noted of it, and with what the operator knows."""
        at = self.before or Mark()
        if last is not None and at.seq < last.seq:
            self.faults.append(f"anchors {at.seq + 1} to {last.seq} are missing at the end")
        elif last is not None and at != last:
            self.faults.append("the last anchor is not the one that is noted")
        if not self._has_known and self._known is not None:
            self.faults.append(
                f"anchor {self._known.seq} is not the one that was noted elsewhere; the trail was rewritten"
            )


class _TrailWalk:
    """Walks over the lines of all chains in the order of their numbers."""

    def __init__(self, old: ChainWalk | None, chains: Mapping[str, Replica], key: bytes) -> None:
        self.old = old
        self.lines = 0
        self.replicas: dict[str, _ReplicaWalk] = {
            name: _ReplicaWalk(name=name, before=Mark(seq=chain.first_place, digest=chain.first_digest))
            for name, chain in chains.items()
        }
        self._key = key

    def step(self, row: Row) -> None:
        """Check the next line in its chain."""
        self.lines += 1
        where = place_of(row[2])
        if where is None:
            if self.old is None:
                self.old = ChainWalk(Mark(seq=row[0] - 1, digest=_prev(row[2])), None, self._key)
            self.old.step(row)
            return
        walk = self.replicas.get(where.replica)
        if walk is None:
            before = Mark(seq=where.place - 1, digest=_prev(row[2]))
            walk = self.replicas[where.replica] = _ReplicaWalk(name=where.replica, before=before)
        walk.step(row, where.place, self._key)


def verify(connection: DriverConnection, key: bytes, known: Mark | None) -> Verification:
    """Check every line and every anchor; `known` is a mark that the operator saved elsewhere."""
    chains = replica_chain.replicas(connection)
    last_anchor = mark(connection, replica_chain.ANCHORS)
    if not chains and last_anchor.seq <= 0 and (known is None or not known.is_anchor):
        return hash_chain.verify(connection, key, known)
    known_line = known if known is not None and not known.is_anchor else None
    anchors = _AnchorWalk(
        mark(connection, replica_chain.BEFORE_ANCHORS), known if known_line is None else None, key
    )
    first, head = mark(connection, "anchor"), mark(connection, "head")
    old = ChainWalk(first, known_line, key)
    trail = _TrailWalk(old, chains, key)
    indexed, lost = mark(connection, hash_chain.INDEXED).seq, list[int]()
    for page in hash_chain.pages(connection, -1):
        for row in page:
            trail.step(row)
        lost += line_index.lacking(connection, hash_chain.numbered_lines(page, indexed))
    old.note_end(head)
    faults = [*old.result().faults, *_chain_faults(trail, chains)]
    for page in replica_chain.anchor_pages(connection):
        faults += _unlike(connection, [(row[0], anchors.step(row)) for row in page], chains, first)
    anchors.end(last_anchor)
    faults += anchors.faults
    if lost and not faults:
        faults.append(f"filters did not find {count_of(len(lost), 'line')}, such as line {lost[0]}")
    return Verification(
        lines=trail.lines,
        anchor=Mark(seq=hash_chain.oldest(connection) - 1 if trail.lines else 0),
        head=replace(last_anchor, is_anchor=True),
        faults=tuple(faults[:MAX_FAULTS]),
        unindexed=len(lost),
        replicas=len(chains),
        anchors=anchors.count,
    )


def _chain_faults(trail: _TrailWalk, chains: Mapping[str, Replica]) -> Iterator[str]:
    for name, walk in trail.replicas.items():
        if (chain := chains.get(name)) is None:
            walk.faults.append(f"nothing is noted of replica {name}, which has lines")
        else:
            walk.end(chain)
        yield from walk.faults


def _unlike(
    connection: DriverConnection,
    anchors: Iterable[tuple[int, Mapping[str, Sequence[Any]]]],
    chains: Mapping[str, Replica],
    old: Mark,
) -> Iterator[str]:
    """Lines that are not those of the anchors. Those that were pruned may be missing."""
    heads = [(number, name, *head) for number, said in anchors for name, head in said.items()]
    for start in range(0, len(heads), _AT_ONCE):
        some = heads[start : start + _AT_ONCE]
        statement = _SELECT_DIGESTS.format(", ?" * (len(some) - 1))
        digests = dict(connection.execute(statement, [head[3] for head in some]).fetchall())
        for number, name, place, seq, digest in some:
            pruned = old.seq if name == _NO_REPLICA else chains[name].first_place if name in chains else -1
            yield from _compare(number, name, seq, digest, digests.get(seq), may_be_gone=place <= pruned)


def _compare(
    anchor: int, name: str, seq: int, said: str, stored: str | None, *, may_be_gone: bool
) -> Iterator[str]:
    whose = f"line {seq} of replica {name}" if name else f"line {seq}"
    if stored is None and not may_be_gone:
        yield f"{whose} is missing: anchor {anchor} has it"
    elif stored is not None and stored != said:
        yield f"{whose} is not the one that anchor {anchor} has"


# --- exports ----------------------------------------------------------------------------------------------


def export_line(body: str, digest: str) -> str:
    """A line or an anchor for an export: the body, with its digest as the last field."""
    return f'{body[:-1]},"digest":"{digest}"}}'


def verify_export(lines: Iterable[str], key: bytes, known: Mark | None) -> Verification:
    """Check exported lines without the database; the first line of each chain says where it begins.

    Lines that are missing at the end of a chain are noticed by an anchor, or by `known`.
    """
    known_line = known if known is not None and not known.is_anchor else None
    trail = _TrailWalk(None, {}, key)
    anchors = _AnchorWalk(None, None if known_line else known, key)
    faults: list[str] = []
    digests: dict[int, str] = {}
    for number, text in enumerate(lines, 1):
        row = _parse_export(text.rstrip("\r\n"))
        if row is None:
            faults.append(f"line {number} of the file cannot be read")
        elif row[2].startswith(_ANCHOR):
            for name, (_, seq, digest) in anchors.step(row).items():
                gone = not digests or seq < min(digests)
                faults += _compare(row[0], name, seq, digest, digests.get(seq), may_be_gone=gone)
        else:
            if trail.old is None and place_of(row[2]) is None:
                trail.old = ChainWalk(Mark(seq=row[0] - 1, digest=_prev(row[2])), known_line, key)
            trail.step(row)
            digests[row[0]] = row[3]
    return _export_result(trail, anchors, faults)


def _export_result(trail: _TrailWalk, anchors: _AnchorWalk, faults: list[str]) -> Verification:
    result = trail.old.result() if trail.old else Verification(lines=0, anchor=Mark(), head=Mark())
    own = [fault for walk in trail.replicas.values() for fault in walk.faults]
    anchors.end(None)
    head = replace(anchors.before, is_anchor=True) if anchors.before else result.head
    return replace(
        result,
        lines=trail.lines,
        head=head,
        faults=(*faults[:MAX_FAULTS], *result.faults, *own[:MAX_FAULTS], *anchors.faults[:MAX_FAULTS]),
        replicas=len(trail.replicas),
        anchors=anchors.count,
    )


def _prev(body: str) -> str:
    try:
        return str(json.loads(body).get("prev", ""))
    except (ValueError, AttributeError):
        return ""


def _parse_export(text: str) -> Row | None:
    """The row of an exported line or anchor; its body has no digest. `None` if it is neither."""
    if not (end := _DIGEST_AT_END.search(text)):
        return None
    body = text[: end.start()] + "}"
    try:
        line = json.loads(body)
    except ValueError:
        return None
    seq = line.get("seq", line.get("anchor")) if isinstance(line, dict) else None
    if not isinstance(seq, int):
        return None
    return seq, str(line.get("at")), body, end[1]
