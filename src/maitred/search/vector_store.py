"""Vectors of tools in the database of the catalog, so that they are made once; a loss costs only time."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from maitred.storage.database import Database, DriverConnection, placeholders

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import Connection

_PAGE: Final = 500


class SqlVectors:
    """The vectors in the database of a catalog, by content hash; the caller chooses the form of a body.

    The methods raise `StoreError` if it fails. Every start loads vectors, so `load` works without SQLAlchemy.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, model: str, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return the stored vectors of a model for some content hashes."""

        def load(connection: DriverConnection) -> Mapping[str, bytes]:
            rows = (
                row
                for page in _pages(sorted(digests))
                for row in connection.execute(select_vectors(len(page)), (model, *page))
            )
            return {digest: body for digest, body in rows if isinstance(body, bytes)}  # SQLite keeps any type

        return await self._database.read_driver(load)

    async def save(self, model: str, fresh: Mapping[str, bytes]) -> None:
        """Add vectors of a model."""
        rows = [{"model": model, "digest": digest, "body": body} for digest, body in fresh.items()]

        def save(connection: "Connection") -> None:
            from maitred.storage import core, tables  # noqa: PLC0415  # SQLAlchemy is slow to import

            core.put(connection, tables.vectors, rows)

        await self._database.write(save)

    async def prune(self, model: str, keep: Collection[str]) -> None:
        """Delete the vectors of other models and of tools that no longer exist."""
        stored = await self._database.read_driver(lambda connection: connection.execute(KNOWN).fetchall())
        obsolete = {
            kind: [digest for of, digest in stored if of == kind and (kind != model or digest not in keep)]
            for kind in {of for of, _ in stored}
        }
        if not any(obsolete.values()):
            return

        def prune(connection: "Connection") -> None:
            from maitred.storage.tables import vectors  # noqa: PLC0415  # SQLAlchemy is slow to import

            for kind, digests in obsolete.items():
                for page in _pages(digests):
                    here = (vectors.c.model == kind) & vectors.c.digest.in_(page)
                    connection.execute(vectors.delete().where(here))

        await self._database.write(prune)


KNOWN: Final = "SELECT vectors.model, vectors.digest FROM vectors"


def select_vectors(count: int) -> str:
    """The statement that reads a model's vectors of so many content hashes."""
    return (
        "SELECT vectors.digest, vectors.body FROM vectors"  # noqa: S608  # our own names
        f" WHERE vectors.model = ? AND vectors.digest IN ({placeholders(count)})"
    )


def _pages(digests: Sequence[str]) -> Iterator[Sequence[str]]:
    return (digests[start : start + _PAGE] for start in range(0, len(digests), _PAGE))
