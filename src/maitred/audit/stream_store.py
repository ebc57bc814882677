"""How far each destination has taken the lines of the audit trail, and which process sends them to it.

The functions are synchronous and take a connection in a transaction, which `maitred.audit.stream` begins and
ends. A process owns a destination until `alive_until`, so that of several gateways one alone sends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from maitred.audit import hash_chain
from maitred.storage.database import DriverConnection

ADD: Final = (
    "INSERT INTO audit_stream (name, seq, count, skipped, sent_at, error, failed_at, owner, alive_until)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING"
)
TAKE: Final = (
    "UPDATE audit_stream SET owner=?, alive_until=? WHERE audit_stream.name = ?"
    " AND (audit_stream.owner = ? OR audit_stream.alive_until < ?)"
)
ADVANCE: Final = (
    "UPDATE audit_stream SET seq=?, count=(audit_stream.count + ?), skipped=(audit_stream.skipped + ?),"
    " sent_at=?, error=? WHERE audit_stream.name = ? AND audit_stream.owner = ?"
)
FAIL: Final = (
    "UPDATE audit_stream SET error=?, failed_at=? WHERE audit_stream.name = ? AND audit_stream.owner = ?"
)
LEAVE: Final = "UPDATE audit_stream SET alive_until=? WHERE audit_stream.name = ? AND audit_stream.owner = ?"
ALL: Final = (
    "SELECT audit_stream.name, audit_stream.seq, audit_stream.count, audit_stream.skipped,"
    " audit_stream.sent_at, audit_stream.error, audit_stream.failed_at FROM audit_stream"
)
_LONGEST_ERROR: Final = 300


@dataclass(frozen=True, kw_only=True)
class StreamPosition:
    """How far a destination is; times in ISO 8601, UTC, and empty before the first.

    Attributes:
        seq: The number of the last line that it took.
        count: How many lines it took in all, with repeated ones.
        skipped: How many lines were dropped by `keep_days` before they could be sent.
        error: Why the last attempt failed; empty if it did not.
    """

    name: str
    seq: int
    count: int = 0
    skipped: int = 0
    sent_at: str = ""
    error: str = ""
    failed_at: str = ""


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """Where a destination is; `waiting` is how many lines it lacks."""

    position: StreamPosition
    waiting: int


def begin(connection: DriverConnection, name: str, *, from_start: bool) -> None:
    """Note where a destination begins that is new: before the oldest line, or after the newest."""
    seq = hash_chain.mark(connection, "anchor").seq if from_start else _newest(connection)
    connection.execute(ADD, (name, max(0, seq), 0, 0, "", "", "", "", ""))


def take(connection: DriverConnection, name: str, owner: str, now: str, until: str) -> StreamPosition | None:
    """Own a destination until a time, and return its position; `None` if another process owns it."""
    if not connection.execute(TAKE, (owner, until, name, owner, now)).rowcount:
        return None
    return positions(connection)[name]


def positions(connection: DriverConnection) -> Mapping[str, StreamPosition]:
    """The position of every destination that ever was, by name."""
    fields: list[tuple[Any, ...]] = connection.execute(ALL).fetchall()
    found = [
        StreamPosition(
            name=name,
            seq=seq,
            count=count,
            skipped=skipped,
            sent_at=sent_at,
            error=error,
            failed_at=failed_at,
        )
        for name, seq, count, skipped, sent_at, error, failed_at in fields
    ]
    return {position.name: position for position in found}


def states(connection: DriverConnection) -> Mapping[str, StreamState]:
    """Where every destination is that ever was, by name."""
    head = _newest(connection)
    return {
        name: StreamState(position=position, waiting=max(0, head - position.seq))
        for name, position in positions(connection).items()
    }


def advance(  # the columns of one statement
    connection: DriverConnection,
    name: str,
    owner: str,
    *,
    seq: int,
    count: int,
    skipped: int,
    at: str,
    note: str,
) -> bool:
    """Note that a destination took lines up to a number; false if another process owns it by now."""
    values = (seq, count, skipped, at, note[:_LONGEST_ERROR], name, owner)
    return bool(connection.execute(ADVANCE, values).rowcount)


def fail(connection: DriverConnection, name: str, owner: str, error: str, at: str) -> None:
    """Note that a destination took nothing."""
    connection.execute(FAIL, (error[:_LONGEST_ERROR], at, name, owner))


def leave(connection: DriverConnection, names: Sequence[str], owner: str) -> None:
    """Let other processes send at once."""
    connection.executemany(LEAVE, [("", name, owner) for name in names])


def _newest(connection: DriverConnection) -> int:
    """The number of the last line, also where all lines were dropped."""
    return max(hash_chain.mark(connection, "head").seq, hash_chain.newest(connection))
