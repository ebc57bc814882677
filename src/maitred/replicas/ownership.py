"""Which replica runs what only one may run: a name, the id of its owner, and a fencing number.

An owner has a name as long as its own lease in the table of replicas lasts, and gives it back when it needs
it no more. Each new owner of a name gets a higher number. Who asks an owner sends the number, and an owner
that lost the name refuses. While an owner cannot be sure of its lease, it changes nothing.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio

from maitred.errors import ReplicaError, StoreError
from maitred.model.replicas import LiveReplica
from maitred.replicas.forwarding import Replicas
from maitred.storage.database import Database, DriverConnection, WriteOptions

_ROW: Final = "SELECT replica, number FROM server_owners WHERE name = ? FOR UPDATE"
_LOCK_LEASE: Final = (
    "SELECT alive_until > extract(epoch FROM clock_timestamp()) FROM replicas WHERE id = ? FOR UPDATE"
)
"""Locks the lease, also one that has ended: a late renewal waits, and sees afterwards what was taken."""
_PUT: Final = (
    "INSERT INTO server_owners (name, replica, number) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET replica = excluded.replica, number = excluded.number"
)
_COUNT: Final = (
    "INSERT INTO server_owners (name, replica, number) VALUES ('', '', 1)"
    " ON CONFLICT (name) DO UPDATE SET number = server_owners.number + 1 RETURNING number"
)
_OWNER: Final = (
    "SELECT server_owners.replica FROM server_owners JOIN replicas ON replicas.id = server_owners.replica"
    " WHERE server_owners.name = ? AND alive_until > extract(epoch FROM clock_timestamp())"
)
_LAST_OWNER: Final = "SELECT replica FROM server_owners WHERE name = ?"
_OWN: Final = "SELECT name, number FROM server_owners WHERE replica = ?"
_GIVE_BACK: Final = "DELETE FROM server_owners WHERE name = ? AND replica = ? AND number = ?"
_ALONE: Final = WriteOptions(wait_s=5.0)


class NotOwnerError(ReplicaError):
    """Another replica has the name, or this one cannot be sure that it has it; nothing was begun."""

    def __init__(self, replica: str, reason: str) -> None:
        super().__init__(replica, reason, unread=True)


class Ownership:
    """The names that this replica has, and those of the others.

    `on_lost` are functions that get each name that another replica has taken; they must not block.
    """

    def __init__(self, database: Database, replicas: Replicas) -> None:
        self._database = database
        self._replicas = replicas
        self._held: dict[str, int] = {}
        self._lock = anyio.Lock()
        self.on_lost: list[Callable[[str], None]] = []
        replicas.membership.on_renew.append(self._compare)

    def holds(self, name: str) -> bool:
        """Whether this replica has a name, as far as it knows."""
        return name in self._held

    def check(self, name: str, number: int, *, changes: bool) -> None:
        """Refuse what is asked of an owner that this replica is not, or not any more.

        What only reads goes on while the database is away, since then no other replica can be the owner.

        Raises:
            NotOwnerError: Another replica may be the owner.
        """
        own = self._replicas.id
        if self._held.get(name) != number:
            raise NotOwnerError(own, "it does not run the server any more")
        if changes and not self._replicas.membership.holds_lease:
            raise NotOwnerError(own, "it cannot renew its lease, so another one may run the server")

    async def find(self, name: str) -> str:
        """The live replica that has a name; empty if none has.

        After an outage of the database, who had the name before has it until it can have come back.

        Raises:
            StoreError: The database cannot be read.
        """
        if name in self._held:
            return self._replicas.id
        asked = _LAST_OWNER if self._replicas.membership.is_recovering else _OWNER
        row = await self._database.read_driver(
            lambda connection: connection.execute(asked, (name,)).fetchone()
        )
        return str(row[0]) if row else ""

    async def claim(self, name: str) -> int:
        """Take a name for this replica unless a live one has it; returns the number.

        Raises:
            NotOwnerError: Another replica has it.
            StoreError: The database cannot be written.
        """
        async with self._lock:
            if (number := self._held.get(name)) is not None:
                return number
            own = self._replicas.id
            if not self._replicas.membership.holds_lease:
                raise NotOwnerError(own, "it cannot renew its lease")
            taken = await self._database.write_driver(
                lambda connection: self._take(connection, name, own), _ALONE
            )
            if isinstance(taken, str):
                raise NotOwnerError(taken, "it runs the server")
            self._held[name] = taken
            return taken

    def _take(self, connection: DriverConnection, name: str, own: str) -> int | str:
        """The number of a name that is taken now, or the id of the live replica that has it."""
        row = connection.execute(_ROW, (name,)).fetchone()
        if row is not None and row[0] == own:
            return int(row[1])
        if row is not None:
            lease = connection.execute(_LOCK_LEASE, (row[0],)).fetchone()
            if lease is not None and (lease[0] or self._replicas.membership.is_recovering):
                return str(row[0])
        number = int(connection.execute(_COUNT).fetchone()[0])
        connection.execute(_PUT, (name, own, number))
        return number

    async def give_back(self, name: str, *, unless: Callable[[], bool] = lambda: False) -> None:
        """Let another replica have a name; while the database is away, it stays until the lease ends.

        `unless` is asked once no claim is under way: it says whether the name is needed again.
        """
        async with self._lock:
            if unless():
                return
            number = self._held.pop(name, None)
            if number is None:
                return
            place = (name, self._replicas.id, number)
            try:
                await self._database.write_driver(
                    lambda connection: connection.execute(_GIVE_BACK, place), _ALONE
                )
            except StoreError:
                self._held[name] = number

    def _compare(self, connection: DriverConnection) -> Callable[[], None]:
        """Read, with each renewal, which names this replica still has."""
        before = dict(self._held)
        rows = dict(connection.execute(_OWN, (self._replicas.id,)).fetchall())
        return lambda: self._note_lost(before, rows)

    def _note_lost(self, before: Mapping[str, int], rows: Mapping[str, int]) -> None:
        for name, number in before.items():
            if rows.get(name) != number and self._held.get(name) == number:
                del self._held[name]
                for heard in self.on_lost:
                    heard(name)


def choose(name: str, replicas: Sequence[LiveReplica]) -> LiveReplica:
    """The replica that should have a name, by rendezvous hash: all choose the same one.

    When a replica comes or goes, only names that it has then, or had, get another one.

    Raises:
        ValueError: There is none to choose from.
    """
    return max(replicas, key=lambda one: hashlib.sha256(f"{one.id} {name}".encode()).digest())
