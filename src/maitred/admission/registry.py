"""Keeps what was registered, the log of approvals, and the definitions that were decided on.

One call is one transaction: events, the registration that they make or end, and the definition that they are
about are written together or not at all, so a process that is killed leaves no half of them. Events are
written only as the turns they were planned for; whoever lost the race reads the log again. What a log means
is not known here (see `maitred.admission.approval`). It is read at every start, and so with `sqlite3` alone.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Final, TypeVar

import anyio

from maitred.model.approvals import Binding, Event, Registration
from maitred.storage.sqlite import within

T = TypeVar("T")

_BUSY_S: Final = 60.0  # discoveries write much of the catalog, and whoever waits is not served in turn
_EVENT: Final = "kind, manifest, image, definition, who, why, at"
_REGISTRATION: Final = ", ".join(one.name for one in fields(Registration))
_ADD_EVENT: Final = (
    "INSERT INTO approvals (server, turn, kind, manifest, image, definition, who, why, at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DROP: Final = "DELETE FROM definitions WHERE hash NOT IN (SELECT definition FROM approvals)"
_DECISIONS: Final = frozenset({"approved", "rejected", "suspended", "resumed", "withdrawn"})
"""What somebody decided; all else is noticed of servers, and noticed again where it was not kept."""
_KEEP: Final = "INSERT OR IGNORE INTO definitions (hash, body) VALUES (?, ?)"


class Registry:
    """The registry in the SQLite file `path`, whose tables the store has made.

    Every method raises `StoreError` when the file cannot be read or written; one that is not there is not
    made. An event that was appended is in the file when the call returns, whatever becomes of the process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = anyio.Lock()

    async def append(
        self,
        server: str,
        events: Sequence[Event],
        *,
        after: int,
        last: Event | None = None,
        instead: bool = False,
        registration: Registration | None = None,
        definition: tuple[str, bytes] | None = None,
    ) -> bool:
        """Write the events that follow the first `after` events of a server's log.

        `registration` replaces the one that is kept, and `withdrawn` ends it; `definition` is a hash, and
        what has it. With `instead` they take the place of one event that comes after those, and definitions
        that no event names any more are dropped. False, and nothing is written, when the log is longer or
        shorter by now, or does not end with the event `last`.

        Where the file is stood in for in memory, what servers publish is noted there, and no decision is.
        """
        lasting = registration is not None or any(event.kind in _DECISIONS for event in events)

        def write(connection: sqlite3.Connection) -> bool:
            connection.execute("BEGIN IMMEDIATE")
            if _turns(connection, server) != after + instead or (last and _last(connection, server) != last):
                return False
            if instead:
                connection.execute("DELETE FROM approvals WHERE server = ? AND turn > ?", (server, after))
            connection.executemany(
                _ADD_EVENT, [(server, turn, *_event_row(e)) for turn, e in enumerate(events, after + 1)]
            )
            if registration is not None:
                marks = ", ".join("?" * len(fields(Registration)))
                statement = f"REPLACE INTO registrations ({_REGISTRATION}) VALUES ({marks})"  # noqa: S608  # our own names
                connection.execute(statement, astuple(registration))
            elif any(event.kind == "withdrawn" for event in events):
                connection.execute("DELETE FROM registrations WHERE server = ?", (server,))
            if definition is not None:
                connection.execute(_KEEP, definition)
            if instead:
                connection.execute(_DROP)
            connection.execute("COMMIT")
            return True

        async with self._writing:  # else each waits for the file against all others
            return await self._within(write, lasting=lasting)

    async def turns(self) -> int:
        """How many events there are of all servers; whoever waits for others' decisions looks at it."""
        return await self._within(
            lambda connection: int(connection.execute("SELECT count(*) FROM approvals").fetchone()[0])
        )

    async def log(self, server: str) -> Sequence[Event]:
        """All that happened to a server, in order; empty if it was never registered."""
        query = f"SELECT {_EVENT} FROM approvals WHERE server = ? ORDER BY turn"  # noqa: S608  # our own names
        return await self._within(
            lambda connection: [_event(row) for row in connection.execute(query, (server,))]
        )

    async def everything(self) -> tuple[Mapping[str, Sequence[Event]], Mapping[str, Registration]]:
        """The logs of all servers, also of withdrawn ones, and the servers that are registered now."""
        logs_query = f"SELECT server, {_EVENT} FROM approvals ORDER BY server, turn"  # noqa: S608  # our own names
        query = f"SELECT {_REGISTRATION} FROM registrations ORDER BY server"  # noqa: S608  # our own names
        names = [one.name for one in fields(Registration)]

        def read(
            connection: sqlite3.Connection,
        ) -> tuple[Mapping[str, Sequence[Event]], Mapping[str, Registration]]:
            connection.execute("BEGIN")
            logs: dict[str, list[Event]] = defaultdict(list)
            for server, *row in connection.execute(logs_query):
                logs[server].append(_event(row))
            made = [Registration(**dict(zip(names, row, strict=True))) for row in connection.execute(query)]
            return dict(logs), {one.server: one for one in made}

        return await self._within(read)

    async def definition(self, digest: str) -> bytes | None:
        """What was kept under a hash; `None` if nothing is."""
        query = "SELECT body FROM definitions WHERE hash = ?"
        row = await self._within(lambda connection: connection.execute(query, (digest,)).fetchone())
        return bytes(row[0]) if row else None

    async def _within(self, function: Callable[[sqlite3.Connection], T], *, lasting: bool = False) -> T:
        return await within(self._path, function, wait_s=_BUSY_S, synchronous="FULL", lasting=lasting)


def _turns(connection: sqlite3.Connection, server: str) -> int:
    query = "SELECT max(turn) FROM approvals WHERE server = ?"
    return int(connection.execute(query, (server,)).fetchone()[0] or 0)


def _last(connection: sqlite3.Connection, server: str) -> Event | None:
    query = f"SELECT {_EVENT} FROM approvals WHERE server = ? ORDER BY turn DESC LIMIT 1"  # noqa: S608  # our own names
    row = connection.execute(query, (server,)).fetchone()
    return _event(row) if row else None


def _event_row(event: Event) -> tuple[str, ...]:
    bound = event.binding
    return (event.kind, bound.manifest, bound.image, bound.definition, event.who, event.why, event.at)


def _event(row: Sequence[str]) -> Event:
    kind, manifest, image, definition, who, why, at = row
    binding = Binding(manifest=manifest, image=image, definition=definition)
    return Event(kind=kind, binding=binding, who=who, why=why, at=at)  # type: ignore[arg-type]  # written by us
