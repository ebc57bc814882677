"""Jobs that one process at a time does for all processes on a database, such as the discovery of a server.

A process that begins a job takes the next fencing number for it, and gives the number with each write. One
that was paused, or cut off from the database, may believe that it still has the job; once another process
has taken it, the number is no longer the last one, and the write is refused. On PostgreSQL an advisory lock
says that a job is taken, as long as the process is connected. On SQLite a lease beside the number does.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

import anyio

from maitred.errors import LostJobError, StoreError
from maitred.storage.database import Database, DriverConnection, WriteOptions

LEASE_S: Final = 60.0
"""How long a job of a process that was killed waits for its next one, on SQLite."""
_LOOK_S: Final = 0.25
_LEAVE_S: Final = 5.0
_UNFENCED: Final = 0
_PATIENCE: Final = WriteOptions(wait_s=2.0)
_NUMBER: Final = "SELECT job_fences.number FROM job_fences WHERE job_fences.name = ?"
_ROW: Final = "SELECT job_fences.number, job_fences.held_until FROM job_fences WHERE job_fences.name = ?"
_PUT: Final = (
    "INSERT INTO job_fences (name, number, held_until) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET number = excluded.number, held_until = excluded.held_until"
)
_END: Final = "UPDATE job_fences SET held_until=? WHERE job_fences.name = ? AND job_fences.number = ?"


@dataclass(frozen=True, kw_only=True)
class Fence:
    """The right to write as part of a job. `has_waited`: another process did the job just before."""

    name: str
    number: int
    lock: int = 0
    has_waited: bool = False

    def check(self, connection: DriverConnection) -> None:
        """Refuse the open transaction, which has to be a writing one, if another process has the job now.

        Raises:
            LostJobError: It has.
        """
        row = connection.execute(_NUMBER, (self.name,)).fetchone()
        self.compare(row[0] if row else _UNFENCED)

    def compare(self, number: int) -> None:
        """The same with the last number of the job, which was read in that transaction."""
        if self.number not in (_UNFENCED, number):
            raise LostJobError(self.name)


class Jobs:
    """Begins jobs in a database, whose tables exist already."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    @property
    def end_with_process(self) -> bool:
        """Whether the job of a process that is killed is free at once. A lease lasts up to `LEASE_S` more."""
        return self._database.locks_jobs

    @asynccontextmanager
    async def run(self, name: str, *, wait_s: float = 0.0) -> AsyncIterator[Fence | None]:
        """Do a job within the context, or get `None` if another process does it for longer than `wait_s`.

        Raises:
            StoreError: PostgreSQL cannot be asked. A file that cannot be written stops no job: then no other
                process can write what it does, either.
        """
        fence = await self._take_within(name, wait_s)
        try:
            yield fence
        finally:
            if fence is not None:
                with anyio.move_on_after(_LEAVE_S, shield=True), suppress(StoreError):
                    await self._give_back(fence)

    async def _take_within(self, name: str, wait_s: float) -> Fence | None:
        until, has_waited = anyio.current_time() + wait_s, False
        while (fence := await self._take(name)) is None:
            if anyio.current_time() >= until:
                return None
            has_waited = True
            await anyio.sleep(_LOOK_S)
        return replace(fence, has_waited=has_waited)

    async def _take(self, name: str) -> Fence | None:
        """Begin a job; `None` if another process does it."""
        if not (lock := await self._database.lock_job(name)):
            return None
        number = None
        try:
            number = await self._database.write_driver(
                lambda connection: self._next(connection, name), _PATIENCE
            )
        except StoreError:
            if self._database.locks_jobs:
                raise
            number = _UNFENCED
        finally:
            if number is None:
                await self._database.unlock_job(name, lock)
        return None if number is None else Fence(name=name, number=number, lock=lock)

    def _next(self, connection: DriverConnection, name: str) -> int | None:
        row, now = connection.execute(_ROW, (name,)).fetchone(), self._clock()
        if row is not None and row[1] > now:
            return None
        number = int(row[0]) + 1 if row is not None else _UNFENCED + 1
        held_until = 0.0 if self._database.locks_jobs else now + LEASE_S
        connection.execute(_PUT, (name, number, held_until))
        return number

    async def _give_back(self, fence: Fence) -> None:
        if self._database.locks_jobs:
            await self._database.unlock_job(fence.name, fence.lock)
        elif fence.number != _UNFENCED:
            ended = (0.0, fence.name, fence.number)
            await self._database.write_driver(lambda connection: connection.execute(_END, ended), _PATIENCE)
