"""Vectors of tools, kept beside the catalog so that they are made once; losing them costs only time."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

import anyio

from maitred.storage.sqlite import opened


class SqliteVectors:
    """The vectors in the SQLite file of a catalog, by content hash; each body is what the caller made of it.

    The methods raise `StoreError` when the file does not let itself be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self, model: str, digests: Collection[str]) -> Mapping[str, bytes]:
        """The vectors of a model that are kept for some content hashes."""
        query = (
            "SELECT digest, body FROM vectors WHERE model = ? AND typeof(body) = 'blob'"
            " AND digest IN (SELECT value FROM json_each(?))"
        )

        def load() -> Mapping[str, bytes]:
            with opened(self._path) as connection:
                return dict(connection.execute(query, (model, json.dumps(list(digests)))).fetchall())

        return await anyio.to_thread.run_sync(load)

    async def save(self, model: str, fresh: Mapping[str, bytes]) -> None:
        """Add vectors of a model."""
        rows = [(model, digest, body) for digest, body in fresh.items()]

        def save() -> None:
            with opened(self._path) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
                connection.execute("COMMIT")

        await anyio.to_thread.run_sync(save)

    async def prune(self, model: str, keep: Collection[str]) -> None:
        """Drop the vectors of other models and of tools that are not there any more."""

        def prune() -> None:
            with opened(self._path) as connection:
                known = connection.execute("SELECT model, digest FROM vectors").fetchall()
                gone = [key for key in known if key[0] != model or key[1] not in keep]
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("DELETE FROM vectors WHERE model = ? AND digest = ?", gone)
                connection.execute("COMMIT")

        await anyio.to_thread.run_sync(prune)
