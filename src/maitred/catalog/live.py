"""The snapshot that this process serves, and the only way to change the catalog.

Changes are planned and written one after the other; each new snapshot is announced to listeners. Other
processes may write to the same store: `refresh` notices by the generation and takes over what they wrote.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio

from maitred.catalog.snapshot import Change, Snapshot

Planner = Callable[[Snapshot], Awaitable[Change]]


class Store(Protocol):
    """Where the catalog is kept."""

    async def load(self) -> Snapshot:
        """Read everything."""
        ...

    async def generation(self) -> int:
        """The present generation; cheap."""
        ...

    async def write(self, change: Change, *, planned_on: int) -> int | None:
        """Apply a change in one transaction and return the generation after it.

        `None` when the store is not at generation `planned_on` any more: another process wrote, nothing was
        done, and the change has to be planned anew.
        """
        ...


class LiveCatalog:
    """Holds the present snapshot. `snapshot` may be read at any time and is never changed in place."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = anyio.Lock()
        self._listeners: list[Callable[[Snapshot], None]] = []
        self.snapshot = Snapshot(generation=-1)

    def subscribe(self, listener: Callable[[Snapshot], None]) -> None:
        """Have a function called with each new snapshot; it must not block."""
        self._listeners.append(listener)

    async def refresh(self) -> None:
        """Take over what other processes wrote, if anything."""
        async with self._lock:
            await self._refresh()

    async def change(self, planner: Planner) -> Change:
        """Plan a change against the present snapshot, write it, and serve what it leads to."""
        async with self._lock:
            while True:
                await self._refresh()
                change = await planner(self.snapshot)
                if not change:
                    return change
                generation = await self._store.write(change, planned_on=self.snapshot.generation)
                if generation is not None:  # else another process wrote in between: plan anew
                    self._swap(self.snapshot.after(change, generation))
                    return change

    async def _refresh(self) -> None:
        if await self._store.generation() != self.snapshot.generation:
            self._swap(await self._store.load())

    def _swap(self, snapshot: Snapshot) -> None:
        before, self.snapshot = self.snapshot, snapshot
        if snapshot.generation != before.generation:
            for listener in self._listeners:
                listener(snapshot)
