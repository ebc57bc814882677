"""The table of live replicas: each moves the end of its lease every five seconds, by the database's clock.

While the database is away, nothing is known of the others, so all that were alive still count as such. They
do so for one lease more after it came back: until then the others, too, can have renewed theirs.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio
import structlog

from maitred.errors import StoreError
from maitred.model.replicas import LEASE_S, LiveReplica
from maitred.storage.database import Database, DriverConnection, WriteOptions

log = structlog.get_logger(__name__)

RENEW_S: Final = 5.0
"""How often a replica moves the end of its lease, and looks at the others."""
_AGAIN_S: Final = 1.0
_COUNTS_SLEEP: Final = hasattr(time, "CLOCK_BOOTTIME")
_LATEST_S: Final = 1.0
"""How much earlier a replica believes its lease to end than the others do."""
_FORGET_S: Final = 3_600.0
_PUT: Final = (
    "INSERT INTO replicas (id, role, address, version, alive_until)"
    " VALUES (?, ?, ?, ?, extract(epoch FROM clock_timestamp()) + ?) ON CONFLICT (id) DO UPDATE"
    " SET role = excluded.role, address = excluded.address, alive_until = excluded.alive_until"
)
_LIVE: Final = (
    "SELECT id, role, address, version FROM replicas"
    " WHERE alive_until > extract(epoch FROM clock_timestamp()) ORDER BY id"
)
_LEAVE: Final = "DELETE FROM replicas WHERE id = ?"
_FORGET: Final = (
    "DELETE FROM replicas WHERE id IN (SELECT id FROM replicas"
    " WHERE alive_until < extract(epoch FROM clock_timestamp()) - ? FOR UPDATE SKIP LOCKED)"
)
_TOGETHER: Final = WriteOptions(wait_s=5.0, lane="together")
_ALONE: Final = WriteOptions(wait_s=5.0)

Renewal = Callable[[DriverConnection], Callable[[], None] | None]
"""What else is read and written in the transaction that renews; what it returns is called after it."""


class Membership:
    """The replicas of a database, and this one among them.

    `on_renew` are functions for the transaction of each renewal. `on_gone` are called with the ids of
    replicas that are not alive any more.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._live: Mapping[str, LiveReplica] = {}
        self._until = 0.0
        self._recovers_until = 0.0
        self._hurry = anyio.Event()
        self.joined = anyio.Event()
        """Set once this replica has a lease for the first time."""
        self.on_renew: list[Renewal] = []
        self.on_gone: list[Callable[[frozenset[str]], None]] = []

    @property
    def live(self) -> Sequence[LiveReplica]:
        """The replicas that are alive as far as this one knows, by their ids."""
        return list(self._live.values())

    def get(self, replica: str) -> LiveReplica | None:
        """A live replica by its id."""
        return self._live.get(replica)

    @property
    def holds_lease(self) -> bool:
        """Whether this replica is certainly alive for the others."""
        return _now() < self._until

    @property
    def is_recovering(self) -> bool:
        """Whether this replica lost its lease a short while ago, so that leases of others say nothing yet."""
        return _now() < self._recovers_until

    async def look(self) -> None:
        """Read which replicas are alive.

        Raises:
            StoreError: The database cannot be read.
        """
        self._take(await self._database.read_driver(_read_live))

    async def renew(self, own: LiveReplica) -> None:
        """Move the end of the lease of this replica, and look at the others.

        A lease that may have ended is renewed while no other process writes: one of them may be taking over.

        Raises:
            StoreError: The database cannot be written.
        """
        begun, is_late = _now(), not self.holds_lease
        live, after = await self._database.write_driver(
            lambda connection: self._renew(connection, own, forgets=is_late),
            _ALONE if is_late else _TOGETHER,
        )
        self._until = begun + LEASE_S - _LATEST_S
        if is_late and self.joined.is_set():
            self._recovers_until = _now() + LEASE_S
        for function in after:
            function()
        self._take(live)
        self.joined.set()

    def _renew(
        self, connection: DriverConnection, own: LiveReplica, *, forgets: bool
    ) -> tuple[Mapping[str, LiveReplica], Sequence[Callable[[], None]]]:
        connection.execute(_PUT, (own.id, own.role, own.address, own.version, LEASE_S))
        if forgets:
            connection.execute(_FORGET, (_FORGET_S,))
        after = [function(connection) for function in self.on_renew]
        return _read_live(connection), [one for one in after if one is not None]

    def _take(self, live: Mapping[str, LiveReplica]) -> None:
        before = self._live
        self._live = {**before, **live} if self.is_recovering else live
        if gone := frozenset(before.keys() - self._live.keys()):
            log.info("replicas are gone", replicas=sorted(gone))
            for heard in self.on_gone:
                heard(gone)

    def hurry(self) -> None:
        """Renew now, because the others have to know something of this replica."""
        self._hurry.set()

    async def keep_up(self, own: Callable[[], LiveReplica]) -> None:
        """Renew until cancelled; then the others know at once that this replica has gone."""
        is_away = False
        try:
            while True:
                try:
                    self._hurry = anyio.Event()
                    await self.renew(own())
                    is_away = False
                except StoreError as error:
                    if not is_away:
                        log.warning("the lease of this replica is not renewed", reason=error.reason)
                    is_away = True
                with anyio.move_on_after(_AGAIN_S if is_away else RENEW_S):
                    await (anyio.sleep_forever() if is_away else self._hurry.wait())
        finally:
            self._until = 0.0
            with anyio.move_on_after(_AGAIN_S, shield=True):
                await self._leave(own().id)

    async def _leave(self, own: str) -> None:
        try:
            await self._database.write_driver(lambda connection: connection.execute(_LEAVE, (own,)), _ALONE)
        except StoreError as error:
            log.info("this replica counts as alive until its lease ends", reason=error.reason)


def _now() -> float:
    """Seconds that also pass while the machine is suspended, where the system counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _COUNTS_SLEEP else time.monotonic()


def _read_live(connection: DriverConnection) -> Mapping[str, LiveReplica]:
    rows = connection.execute(_LIVE).fetchall()
    return {row[0]: LiveReplica(id=row[0], role=row[1], address=row[2], version=row[3]) for row in rows}
