"""Teams: which one a principal is in, by name or by the groups that an authorization server says.

A principal is in one team at most: the first of the configuration that names it or one of its groups. Groups
come with tokens and sign-ins, so the database has those that each principal came with last: usage of days
ago then has its team, too.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio
import structlog
from cachetools import LRUCache

from maitred.access.claims import PREFIX
from maitred.config.settings import TeamEntry
from maitred.errors import StoreError
from maitred.model.access import Grant
from maitred.storage.database import Database, DriverConnection, WriteOptions

log = structlog.get_logger(__name__)

ALL: Final = "SELECT principal_groups.principal, principal_groups.groups FROM principal_groups"
PUT: Final = (
    "INSERT INTO principal_groups (principal, groups) VALUES (?, ?)"
    " ON CONFLICT (principal) DO UPDATE SET groups = excluded.groups"
)
_WRITE: Final = WriteOptions(wait_s=5.0)
_MOST_NOTED: Final = 10_000
_MOST_NAME: Final = 500
_AGAIN_S: Final = 5.0

Teams = Mapping[str, TeamEntry]


def team_of(principal: str, groups: Sequence[str], teams: Teams) -> str:
    """The team of a principal with some groups; empty if it is in none."""
    for name, team in teams.items():
        if principal in team.principals or not frozenset(team.groups).isdisjoint(groups):
            return name
    return ""


class PrincipalGroups:
    """The groups that principals came with last, in a database whose tables exist already.

    `keep_up` must run, or nothing is written. For one event loop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: LRUCache[str, tuple[str, ...]] = LRUCache(_MOST_NOTED)
        self._pending = dict[str, tuple[str, ...]]()
        self._came = anyio.Event()

    def note(self, grant: Grant) -> None:
        """Note the groups of a principal who comes; they are written soon if they are new."""
        principal = grant.principal
        if not principal.startswith(PREFIX) or len(principal) > _MOST_NAME:  # the others come with none
            return
        if grant.groups != self._noted.get(principal):
            self._noted[principal] = self._pending[principal] = grant.groups
            self._came.set()

    async def keep_up(self) -> None:
        """Write what was noted; never returns."""
        while True:
            await self._came.wait()
            self._came = anyio.Event()
            pending, self._pending = self._pending, {}
            try:
                await self._write(pending)
            except StoreError as error:
                log.warning("groups of principals are not written yet", reason=error.reason)
                self._pending = pending | self._pending
                self._came.set()
                await anyio.sleep(_AGAIN_S)

    async def _write(self, pending: Mapping[str, tuple[str, ...]]) -> None:
        rows = [(name, json.dumps(groups)) for name, groups in pending.items()]

        def put(connection: DriverConnection) -> None:
            connection.executemany(PUT, rows)

        await self._database.write_driver(put, _WRITE)

    async def listed(self) -> Mapping[str, tuple[str, ...]]:
        """The groups of all principals who came with some.

        Raises:
            StoreError: They cannot be read.
        """
        rows = await self._database.read_driver(_read)
        return {**rows, **self._pending}


def _read(connection: DriverConnection) -> dict[str, tuple[str, ...]]:
    rows = connection.execute(ALL).fetchall()
    return {row[0]: tuple(_names(row[1])) for row in rows}


def _names(text: Any) -> Sequence[str]:
    names: Sequence[str] = json.loads(text) if isinstance(text, str) else text
    return names
