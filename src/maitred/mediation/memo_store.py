"""Store transformers' answers beside the catalog, so that a restart does not ask again.

It implements `maitred.mediation.memo.MemoStore`. Its loss costs only new questions. It is not part of a
snapshot, and a write raises no generation. Every start reads it, so it reads without SQLAlchemy.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from maitred.mediation.memo import MemoEntry
from maitred.storage.database import Database, DriverConnection, placeholders

if TYPE_CHECKING:  # SQLAlchemy is loaded with the first statement that needs it
    from sqlalchemy import Connection

_PAGE: Final = 500


class SqlMemos:
    """Answers in the database of a catalog. The methods raise `StoreError` if it fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, keys: Collection[str]) -> Mapping[str, MemoEntry]:
        """The stored answers of some keys."""

        def load(connection: DriverConnection) -> Mapping[str, MemoEntry]:
            rows = (
                row
                for page in _pages(sorted(keys))
                for row in connection.execute(select_memos(len(page)), page)
            )
            return {key: MemoEntry(answer=answer, at=at) for key, answer, at in rows if _is_whole(answer)}

        return await self._database.read_driver(load) if keys else {}

    async def save(self, memories: Mapping[str, MemoEntry]) -> None:
        """Store answers, in place of older ones."""
        rows = [{"key": key, "answer": memory.answer, "at": memory.at} for key, memory in memories.items()]

        def save(connection: "Connection") -> None:
            from maitred.storage import core, tables  # noqa: PLC0415  # SQLAlchemy is slow to import

            core.put(connection, tables.memos, rows)

        await self._database.write(save)

    async def prune(self, before: float) -> None:
        """Delete answers older than a time in unix seconds."""

        def prune(connection: "Connection") -> None:
            from maitred.storage.tables import memos  # noqa: PLC0415  # SQLAlchemy is slow to import

            connection.execute(memos.delete().where(memos.c.at < before))

        await self._database.write(prune)


def select_memos(count: int) -> str:
    """The statement that reads the answers of so many keys."""
    return f"SELECT memos.key, memos.answer, memos.at FROM memos WHERE memos.key IN ({placeholders(count)})"  # noqa: S608  # our own names


def _pages(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + _PAGE] for start in range(0, len(keys), _PAGE))


def _is_whole(answer: object) -> bool:
    """Whether SQLite, which keeps values of any type in any column, has bytes there."""
    return isinstance(answer, bytes)
