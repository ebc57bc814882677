"""Store registrations, the log of approvals, and the definitions that decisions are about.

One call is one transaction: events, the registration that they start or end, and their definition are written
together or not at all. Events are written only at their planned position in the log; a process that loses the
race reads the log again. `maitred.admission.approval` knows what a log means. Every start reads this, so it
reads without SQLAlchemy.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

import anyio

from maitred.model.approvals import Binding, Event, Registration
from maitred.storage.database import Database, DriverConnection, WriteOptions

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import Connection

_WAIT_S: Final = 60.0  # discoveries write much, and waiting processes have no queue
_EVENT: Final = ("kind", "manifest", "image", "definition", "who", "why", "at")
_EVENTS: Final = ", ".join(f"approvals.{name}" for name in _EVENT)
_REGISTRATION: Final = tuple(entry.name for entry in fields(Registration))
_TURNS: Final = "SELECT count(*) AS count_1 FROM approvals"
_LOG: Final = f"SELECT {_EVENTS} FROM approvals WHERE approvals.server = ? ORDER BY approvals.turn"  # noqa: S608  # our own names
_LOGS: Final = f"SELECT approvals.server, {_EVENTS} FROM approvals ORDER BY approvals.server, approvals.turn"  # noqa: S608  # as above
_REGISTERED: Final = (
    f"SELECT {', '.join(f'registrations.{name}' for name in _REGISTRATION)} FROM registrations"  # noqa: S608  # as above
    " ORDER BY registrations.server"
)
_DEFINITION: Final = "SELECT definitions.body FROM definitions WHERE definitions.hash = ?"
_DECISIONS: Final = frozenset({"approved", "part_approved", "rejected", "suspended", "resumed", "withdrawn"})
"""Events that are decisions; the others are observations, and observed again if they are lost."""


class Registry:
    """The registry in a database, whose tables exist already.

    Every method raises `StoreError` if the database cannot be read or written. An event is safe in the
    database when `append` returns, even if the process is killed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
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

        If a substitute in memory replaces the database, it takes observations, but no decisions.

        Args:
            server: The server.
            events: The new events.
            after: How many events of the log come before them.
            last: The event that must be the last one of the log.
            instead: The new events replace the one event that follows those; definitions that no event names
                any more are deleted.
            registration: Replaces the stored one; an event `withdrawn` ends it.
            definition: A hash and the definition with that hash.

        Returns:
            False, with nothing written, if the log has another length by now, or does not end with `last`.
        """
        lasting = registration is not None or any(event.kind in _DECISIONS for event in events)
        options = WriteOptions(wait_s=_WAIT_S, durable=True, lasting=lasting)

        def write(connection: "Connection") -> bool:
            from maitred.admission import registry_writes as writes  # noqa: PLC0415  # SQLAlchemy is slow

            if writes.turns(connection, server) != after + instead:
                return False
            if last and writes.last(connection, server, _EVENT) != _event_row(last):
                return False
            if instead:
                writes.drop_after(connection, server, after)
            rows = [dict(zip(_EVENT, _event_row(event), strict=True)) for event in events]
            writes.add(connection, server, rows, after=after)
            if registration is not None:
                writes.register(connection, asdict(registration))
            elif any(event.kind == "withdrawn" for event in events):
                writes.withdraw(connection, server)
            if definition is not None:
                writes.keep(connection, *definition)
            if instead:
                writes.drop_unnamed(connection)
            return True

        async with self._writing:  # tasks would otherwise compete for the database
            return await self._database.write(write, options)

    async def turns(self) -> int:
        """How many events all servers have; a change means that there are new decisions."""
        return await self._database.read_driver(
            lambda connection: int(connection.execute(_TURNS).fetchone()[0])
        )

    async def log(self, server: str) -> Sequence[Event]:
        """All events of a server, in order; empty if it was never registered."""
        rows = await self._database.read_driver(
            lambda connection: connection.execute(_LOG, (server,)).fetchall()
        )
        return [_event(row) for row in rows]

    async def everything(self) -> tuple[Mapping[str, Sequence[Event]], Mapping[str, Registration]]:
        """The logs of all servers, also of withdrawn ones, and the servers that are registered now."""

        def read(connection: DriverConnection) -> tuple[list[Any], list[Any]]:
            return connection.execute(_LOGS).fetchall(), connection.execute(_REGISTERED).fetchall()

        events, registered = await self._database.read_driver(read)
        logs: dict[str, list[Event]] = defaultdict(list)
        for server, *row in events:
            logs[server].append(_event(row))
        registrations = [Registration(**dict(zip(_REGISTRATION, row, strict=True))) for row in registered]
        return dict(logs), {entry.server: entry for entry in registrations}

    async def definition(self, digest: str) -> bytes | None:
        """The definition with a hash; `None` if it is not stored."""
        row = await self._database.read_driver(
            lambda connection: connection.execute(_DEFINITION, (digest,)).fetchone()
        )
        return bytes(row[0]) if row else None


def _event_row(event: Event) -> tuple[str, ...]:
    bound = event.binding
    return (event.kind, bound.manifest, bound.image, bound.definition, event.who, event.why, event.at)


def _event(row: Sequence[str]) -> Event:
    kind, manifest, image, definition, who, why, at = row
    binding = Binding(manifest=manifest, image=image, definition=definition)
    return Event(kind=kind, binding=binding, who=who, why=why, at=at)  # type: ignore[arg-type]  # written by us
