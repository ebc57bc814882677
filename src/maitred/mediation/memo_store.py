"""What transformers answered about tools, kept beside the catalog so that nobody is asked at every start.

It satisfies `maitred.mediation.memo.MemoStore`. Losing it costs what asking anew costs; it is no part of a
snapshot, and writing it raises no generation.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import anyio

from maitred.mediation.memo import MemoEntry
from maitred.storage.sqlite import opened


class SqliteMemos:
    """Memories in the SQLite file of a catalog, which must be there.

    The methods raise `StoreError` when the file does not let itself be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self, keys: Collection[str]) -> Mapping[str, MemoEntry]:
        """The memories that are kept for some keys."""
        query = (
            "SELECT key, answer, at FROM memos WHERE typeof(answer) = 'blob'"
            " AND key IN (SELECT value FROM json_each(?))"
        )

        def load() -> Mapping[str, MemoEntry]:
            with self._opened() as connection:
                rows = connection.execute(query, (json.dumps(list(keys)),)).fetchall()
            return {key: MemoEntry(answer=answer, at=at) for key, answer, at in rows}

        return await anyio.to_thread.run_sync(load)

    async def save(self, memories: Mapping[str, MemoEntry]) -> None:
        """Keep memories, in place of older ones."""
        rows = [(key, memory.answer, memory.at) for key, memory in memories.items()]
        query = "INSERT OR REPLACE INTO memos (key, answer, at) VALUES (?, ?, ?)"
        await self._write(lambda connection: connection.executemany(query, rows))

    async def prune(self, before: float) -> None:
        """Drop what is older than a time in unix seconds."""
        await self._write(lambda connection: connection.execute("DELETE FROM memos WHERE at < ?", (before,)))

    async def _write(self, change: Callable[[sqlite3.Connection], object]) -> None:
        def write() -> None:
            with self._opened() as connection:
                connection.execute("BEGIN IMMEDIATE")
                change(connection)
                connection.execute("COMMIT")

        await anyio.to_thread.run_sync(write)

    def _opened(self) -> AbstractContextManager[sqlite3.Connection]:
        return opened(self._path)
