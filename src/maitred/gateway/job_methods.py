"""Jobs that one of several processes on a catalog does, for what is not a part of the gateway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from maitred.gateway.authorization import Authorization
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer


class JobMethods:
    """The methods of a gateway for such jobs."""

    _context: GatewayState
    _access: Authorization

    @asynccontextmanager
    async def take_turn(self, job: str, *, viewer: Viewer) -> AsyncIterator[bool]:
        """Do a job within the context; false if another process does it now.

        On SQLite another process may take the turn after `maitred.storage.leader.LEASE_S`.

        Raises:
            NotAllowedError: The viewer may not register servers.
            StoreError: The database cannot be asked.
        """
        self._access.check(viewer, "register")
        async with self._context.jobs.run(job) as fence:
            yield fence is not None
