"""Vectors of tools in the file of the catalog, so that they are made once; a loss costs only time."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

import anyio

from maitred.storage.database import opened


class SqliteVectors:
    """The vectors in the SQLite file of a catalog, by content hash; the caller chooses the form of a body.

    The methods raise `StoreError` if the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self, model: str, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return the stored vectors of a model for some content hashes."""
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
        """Delete the vectors of other models and of tools that no longer exist."""

        def prune() -> None:
            with opened(self._path) as connection:
                stored = connection.execute("SELECT model, digest FROM vectors").fetchall()
                obsolete = [key for key in stored if key[0] != model or key[1] not in keep]
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("DELETE FROM vectors WHERE model = ? AND digest = ?", obsolete)
                connection.execute("COMMIT")

        await anyio.to_thread.run_sync(prune)
