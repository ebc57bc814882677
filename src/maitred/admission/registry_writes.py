"""What the registry writes, statement by statement; loaded with the first event, since SQLAlchemy is slow.

Each function runs in the transaction of `maitred.admission.registry`, which decides what is written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from maitred.storage import core
from maitred.storage.tables import approvals, definitions, registrations


def turns(connection: sa.Connection, server: str) -> int:
    """How many events there are of a server."""
    query = sa.select(sa.func.max(approvals.c.turn)).where(approvals.c.server == server)
    return int(connection.execute(query).scalar() or 0)


def last(connection: sa.Connection, server: str, columns: Sequence[str]) -> tuple[Any, ...] | None:
    """Some columns of the last event of a server."""
    newest = approvals.c.turn.desc()
    query = sa.select(*(approvals.c[name] for name in columns)).where(approvals.c.server == server)
    row = connection.execute(query.order_by(newest).limit(1)).first()
    return tuple(row) if row else None


def drop_after(connection: sa.Connection, server: str, turn: int) -> None:
    """Drop the events of a server after a turn."""
    connection.execute(sa.delete(approvals).where((approvals.c.server == server) & (approvals.c.turn > turn)))


def add(connection: sa.Connection, server: str, rows: Sequence[Mapping[str, Any]], *, after: int) -> None:
    """Add events of a server after a turn."""
    numbered = [{"server": server, "turn": turn, **row} for turn, row in enumerate(rows, after + 1)]
    if numbered:
        connection.execute(sa.insert(approvals), numbered)


def register(connection: sa.Connection, row: Mapping[str, Any]) -> None:
    """Keep a registration, in place of an older one."""
    core.put(connection, registrations, [row])


def withdraw(connection: sa.Connection, server: str) -> None:
    """End the registration of a server."""
    connection.execute(sa.delete(registrations).where(registrations.c.server == server))


def keep(connection: sa.Connection, digest: str, body: bytes) -> None:
    """Keep a definition under its hash."""
    core.keep_first(connection, definitions, {"hash": digest, "body": body})


def drop_unnamed(connection: sa.Connection) -> None:
    """Drop definitions that no event names any more."""
    named = sa.select(approvals.c.definition)
    connection.execute(sa.delete(definitions).where(definitions.c.hash.not_in(named)))
