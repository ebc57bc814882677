"""Send the lines of the audit trail to destinations as they are written.

Each destination has its own position in the database. It moves once the destination has taken the lines, so
that none is lost by a restart or an outage, and some may come twice. One batch is under way at a time, so an
outage takes no memory: lines wait in the trail. Of several gateways, one sends to a destination.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Final

import anyio
import structlog

from maitred.audit import hash_chain, stream_store, trail_check
from maitred.audit.destinations.base import Destination, DestinationError, StreamLine
from maitred.audit.hash_chain import Row
from maitred.audit.stream_store import StreamPosition
from maitred.errors import StoreError
from maitred.storage.database import Database, DriverConnection
from maitred.wording import count_of

log = structlog.get_logger(__name__)

_LOOK_S: Final = 1.0
_LEASE: Final = timedelta(seconds=45)
_SETTLING: Final = timedelta(seconds=10)
"""How long a line waits where several processes write at once."""
_RENEW: Final = timedelta(seconds=15)
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_LEAVE_S: Final = 2.0


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class StreamTarget:
    """A destination with its name; `from_start` sends lines that are there when it is new, too."""

    name: str
    destination: Destination
    batch: int = 200
    from_start: bool = False


class AuditStream:
    """Sends to all destinations. For one event loop; `run` never returns."""

    def __init__(
        self,
        database: Database,
        targets: Sequence[StreamTarget],
        *,
        clock: Callable[[], datetime] = _now,
        look_s: float = _LOOK_S,
        first_pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        self._database = database
        self._targets = targets
        self._owner = secrets.token_hex(16)
        self._clock = clock
        self._look_s = look_s
        self._first_pause_s = first_pause_s

    async def run(self) -> None:
        """Send until cancelled; then other processes may send at once."""
        try:
            async with anyio.create_task_group() as tasks:
                for target in self._targets:
                    tasks.start_soon(self._follow, target)
        finally:
            for target in self._targets:
                target.destination.close()
            with anyio.move_on_after(_LEAVE_S, shield=True):
                await self._leave()

    async def _leave(self) -> None:
        try:
            names = [target.name for target in self._targets]
            await self._database.write_driver(partial(stream_store.leave, names=names, owner=self._owner))
        except StoreError as error:
            log.debug("destinations could not be given back", reason=error.reason)

    async def _follow(self, target: StreamTarget) -> None:
        """Send to one destination; a failure is tried again after a pause that grows."""
        sender = _Sender(self._database, target, self._owner, self._clock)
        pause_s, is_failing = self._first_pause_s, False
        while True:
            try:
                has_more = await sender.step()
            except (DestinationError, StoreError) as error:
                if not is_failing:
                    log.warning(
                        "lines of the audit trail wait for a destination",
                        destination=target.name,
                        reason=error.reason,
                    )
                is_failing = True
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            if is_failing and sender.has_sent:
                log.info("a destination takes lines of the audit trail again", destination=target.name)
                is_failing = False
            pause_s = self._first_pause_s
            if not has_more:
                await anyio.sleep(self._look_s)


class _Sender:
    """Sends to one destination, step by step."""

    def __init__(
        self, database: Database, target: StreamTarget, owner: str, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._target = target
        self._owner = owner
        self._clock = clock
        self._batch = target.batch
        self._position: StreamPosition | None = None
        self._renew_at: datetime | None = None
        self.has_sent = False
        """Whether the last step sent lines."""

    async def step(self) -> bool:
        """Send the next lines; false if there are none, or another process sends them.

        Raises:
            DestinationError: The destination did not take them.
            StoreError: The trail or the position cannot be read or written.
        """
        self.has_sent = False
        position = await self._owned()
        if position is None:
            return False
        rows = await self._database.read_driver(
            lambda connection: hash_chain.lines_after(connection, position.seq, self._batch)
        )
        if self._database.writes_together:
            rows = self._settled(rows)
        if not rows:
            return False
        try:
            note = await self._target.destination.send([_line_of(row) for row in rows])
        except DestinationError as error:
            if error.is_too_large and self._batch > 1:
                self._batch = max(1, self._batch // 2)
                return True
            await self._note_failure(error)
            raise
        self.has_sent = True
        await self._advance(position, rows, note)
        return len(rows) == self._batch

    def _settled(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The lines before which no other process can still write one, since numbers come before commits."""
        until = (self._clock() - _SETTLING).isoformat(timespec="milliseconds")
        return list(takewhile(lambda row: row[1] < until, rows))

    async def _owned(self) -> StreamPosition | None:
        """The position, if this process is the one that sends; it says so again from time to time."""
        now = self._clock()
        if self._position is not None and self._renew_at is not None and now < self._renew_at:
            return self._position
        name, target = self._target.name, self._target
        until = (now + _LEASE).isoformat(timespec="milliseconds")
        at = now.isoformat(timespec="milliseconds")

        def take(connection: DriverConnection) -> StreamPosition | None:
            stream_store.begin(connection, name, from_start=target.from_start)
            return stream_store.take(connection, name, self._owner, at, until)

        self._position = await self._database.write_driver(take)
        self._renew_at = now + _RENEW
        return self._position

    async def _advance(self, position: StreamPosition, rows: Sequence[Row], note: str) -> None:
        last = rows[-1][0]
        skipped = rows[0][0] - position.seq - 1
        if skipped > 0:
            log.warning(
                "lines of the audit trail were dropped before they could be sent; see audit.keep_days",
                destination=self._target.name,
                lost=count_of(skipped, "line"),
            )
        is_ours = await self._database.write_driver(
            partial(
                stream_store.advance,
                name=self._target.name,
                owner=self._owner,
                seq=last,
                count=len(rows),
                skipped=max(0, skipped),
                at=self._clock().isoformat(timespec="milliseconds"),
                note=note,
            )
        )
        self._position = StreamPosition(name=self._target.name, seq=last) if is_ours else None

    async def _note_failure(self, error: DestinationError) -> None:
        await self._database.write_driver(
            partial(
                stream_store.fail,
                name=self._target.name,
                owner=self._owner,
                error=error.reason,
                at=self._clock().isoformat(timespec="milliseconds"),
            )
        )
        self._position = None  # another process may have taken over during a long attempt


def _line_of(row: Row) -> StreamLine:
    seq, at, body, digest = row
    return StreamLine(seq=seq, at=at, digest=digest, text=trail_check.export_line(body, digest))
