"""The snapshot that this process serves, and the only way to change the catalog.

Changes are planned and written one after the other; listeners get each new snapshot. Other processes may
write to the same store: `refresh` detects that by the generation, and loads what they wrote.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import anyio
import structlog

from maitred.catalog.snapshot import Change, Snapshot
from maitred.errors import LostJobError, StoreError
from maitred.storage.leader import Fence

log = structlog.get_logger(__name__)

Planner = Callable[[Snapshot], Awaitable[Change]]


class Store(Protocol):
    """Where the catalog is stored."""

    async def load(self) -> Snapshot:
        """Read everything."""
        ...

    async def generation(self) -> int:
        """The present generation; cheap."""
        ...

    async def write(self, change: Change, *, planned_on: int, fence: Fence | None = None) -> int | None:
        """Apply a change in one transaction and return the generation after it.

        `None` if the store is not at generation `planned_on` any more: another process wrote. Then
        nothing was done, and the change must be planned again. With a `fence`, it is refused once another
        process has the job.
        """
        ...


class CheckedStore(Store, Protocol):
    """A store that knows whether it can be written."""

    @property
    def name(self) -> str:
        """Where it is: a file, or the address of a database without its password."""
        ...

    @property
    def faults(self) -> int:
        """How often a write was found to be impossible."""
        ...

    async def check(self) -> str:
        """Try to write, without a change, and return why that cannot be done; empty if it can."""
        ...


class LiveCatalog:
    """Holds the present snapshot. `snapshot` may be read at any time and is never changed in place."""

    def __init__(self, store: CheckedStore) -> None:
        self._store = store
        self._lock = anyio.Lock()
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._serves_unwritten = False
        self._unwritten: list[Planner] = []
        self.snapshot = Snapshot(generation=-1)

    def subscribe(self, listener: Callable[[Snapshot], None]) -> None:
        """Register a function to call with each new snapshot; it must not block."""
        self._listeners.append(listener)

    @property
    def name(self) -> str:
        """Where it is stored, without any password."""
        return self._store.name

    @property
    def faults(self) -> int:
        """How often a write was found to be impossible."""
        return self._store.faults

    async def check(self) -> str:
        """Try whether the store can be written, and return why not; empty if it can."""
        return await self._store.check()

    @contextmanager
    def serving_unwritten(self) -> Iterator[None]:
        """Serve changes that cannot be written: the changes of a start must apply on a full disk, too.

        They are planned again whenever another process wrote, and by the next start.
        """
        self._serves_unwritten = True
        try:
            yield
        finally:
            self._serves_unwritten = False

    async def refresh(self) -> None:
        """Load what other processes wrote, if anything."""
        async with self._lock:
            await self._refresh()

    async def change(self, planner: Planner, *, fence: Fence | None = None) -> Change:
        """Plan a change against the present snapshot, write it, and serve the new snapshot.

        Raises:
            StoreError: It cannot be written, or the `fence` of the job that it is part of holds no more.
        """
        async with self._lock:
            while True:
                await self._refresh()
                change = await planner(self.snapshot)
                if not change:
                    return change
                if not self._unwritten:  # else the store may have tools of which this snapshot knows no more
                    change = self.snapshot.completed(change)
                generation = await self._written(change, planner, fence)
                if generation is not None:  # else another process wrote in between: plan again
                    self._swap(self.snapshot.after(change, generation))
                    return change

    async def _written(self, change: Change, planner: Planner, fence: Fence | None) -> int | None:
        """Write a change; returns the generation to serve, or `None` if it must be planned again.

        Within `serving_unwritten`, a change that cannot be written is served all the same.
        """
        ahead = len(self._unwritten)
        try:
            generation = await self._store.write(
                change, planned_on=self.snapshot.generation - ahead, fence=fence
            )
        except LostJobError:
            raise
        except StoreError as error:
            if not self._serves_unwritten:
                raise
            log.warning("a change of the catalog is served, but not stored", reason=error.reason)
            self._unwritten.append(planner)
            return self.snapshot.generation + 1
        return None if generation is None else generation + ahead

    async def _refresh(self) -> None:
        ahead = len(self._unwritten)
        if await self._store.generation() + ahead == self.snapshot.generation:
            return
        loaded = await self._store.load()
        snapshot = replace(loaded, generation=loaded.generation + ahead) if ahead else loaded
        for planner in self._unwritten:
            snapshot = snapshot.after(await planner(snapshot), snapshot.generation)
        self._swap(snapshot)

    def _swap(self, snapshot: Snapshot) -> None:
        before, self.snapshot = self.snapshot, snapshot
        if snapshot.generation != before.generation:
            for listener in self._listeners:
                listener(snapshot)
