"""Store transformers' answers beside the catalog, so that a restart does not ask again.

It implements `maitred.mediation.memo.MemoStore`. Its loss costs only new questions. It is not part of a
snapshot, and a write raises no generation.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import anyio

from maitred.mediation.memo import MemoEntry
from maitred.storage.database import opened


class SqliteMemos:
    """Answers in the SQLite file of a catalog, which must exist.

    The methods raise `StoreError` if the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self, keys: Collection[str]) -> Mapping[str, MemoEntry]:
        """The stored answers of some keys."""
        query = (
            "SELECT key, answer, at FROM memos WHERE typeof(answer) = 'blob'"
            " AND key IN (SELECT value FROM json_each(?))"
        )

        def load() -> Mapping[str, MemoEntry]:
            with self._open() as connection:
                rows = connection.execute(query, (json.dumps(list(keys)),)).fetchall()
            return {key: MemoEntry(answer=answer, at=at) for key, answer, at in rows}

        return await anyio.to_thread.run_sync(load)

    async def save(self, memories: Mapping[str, MemoEntry]) -> None:
        """Store answers, in place of older ones."""
        rows = [(key, memory.answer, memory.at) for key, memory in memories.items()]
        query = "INSERT OR REPLACE INTO memos (key, answer, at) VALUES (?, ?, ?)"
        await self._write(lambda connection: connection.executemany(query, rows))

    async def prune(self, before: float) -> None:
        """Delete answers older than a time in unix seconds."""
        await self._write(lambda connection: connection.execute("DELETE FROM memos WHERE at < ?", (before,)))

    async def _write(self, change: Callable[[sqlite3.Connection], object]) -> None:
        def write() -> None:
            with self._open() as connection:
                connection.execute("BEGIN IMMEDIATE")
                change(connection)
                connection.execute("COMMIT")

        await anyio.to_thread.run_sync(write)

    def _open(self) -> AbstractContextManager[sqlite3.Connection]:
        return opened(self._path)
