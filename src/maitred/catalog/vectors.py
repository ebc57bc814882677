"""Vectors of tools, kept beside the catalog so that they are made once; losing them costs only time."""

import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

import anyio

_BUSY_S = 10.0


class SqliteVectors:
    """The vectors in the SQLite file of a catalog, by content hash; each body is what the caller made of it.

    Both methods raise `sqlite3.Error` when the file does not let itself be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self, model: str) -> Mapping[str, bytes]:
        """All vectors of a model."""

        def load() -> Mapping[str, bytes]:
            with closing(self._connect()) as connection:
                query = "SELECT digest, body FROM vectors WHERE model = ?"
                return {str(digest): bytes(body) for digest, body in connection.execute(query, (model,))}

        return await anyio.to_thread.run_sync(load)

    async def save(self, model: str, fresh: Mapping[str, bytes], keep: Collection[str]) -> None:
        """Add vectors of a model, and drop those of tools that are not there any more."""

        def save() -> None:
            with closing(self._connect()) as connection:
                known = connection.execute("SELECT digest FROM vectors WHERE model = ?", (model,)).fetchall()
                gone = [(model, digest) for (digest,) in known if digest not in keep]
                rows = [(model, digest, body) for digest, body in fresh.items()]
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("DELETE FROM vectors WHERE model = ? AND digest = ?", gone)
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
                connection.execute("COMMIT")

        await anyio.to_thread.run_sync(save)

    def _connect(self) -> sqlite3.Connection:
        where = f"{self._path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(where, uri=True, timeout=_BUSY_S, isolation_level=None)
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection
