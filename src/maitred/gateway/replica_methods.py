"""What the gateway does as one of several replicas on one database; see `maitred.replicas`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from maitred.audit.service import AuditService
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.replicas.forwarding import Replicas
from maitred.storage.shared_state import SharedState

_AWAY: Final = (
    "the store that gateways share does not answer: each counts rate limits itself, with its part of them,"
    " and sessions of other gateways are not found"
)


class ReplicaMethods:
    """The methods of a gateway about replicas."""

    _auditing: AuditService
    _context: GatewayState
    _replicas: Replicas
    _shared: SharedState

    @property
    def replica_requests(self) -> Replicas:
        """Where surfaces register requests between gateways, and send them."""
        return self._replicas

    @property
    def notices(self) -> Sequence[str]:
        """What this gateway goes on without now, for anybody who may look at its health."""
        return [_AWAY] if self._shared.is_shared and self._shared.why_away else []

    def join_replicas(self, address: str) -> None:
        """Become known to the other gateways on a PostgreSQL, which reach this one at an address."""
        self._replicas.join(address)

    @asynccontextmanager
    async def take_turn(self, job: str, *, viewer: Viewer) -> AsyncIterator[bool]:
        """Do a job within the context that one process does; false if another one does it now.

        On SQLite another process may take the turn after `maitred.storage.leader.LEASE_S`.

        Raises:
            NotAllowedError: The viewer may not register servers.
            StoreError: The database cannot be asked.
        """
        self._auditing.require(viewer, "register")
        async with self._context.jobs.run(job) as fence:
            yield fence is not None

    async def answer_replica(self, token: str, read: Callable[[int], Awaitable[bytes]]) -> bytes:
        """Answer a request of another replica, which its token proves.

        `read` gets the most bytes that the body may have, and is called once the token is known to be good.

        Raises:
            InternalTokenError: The token is refused; nothing was done.
        """
        claims = self._replicas.check(token)
        return await self._replicas.answer(
            claims, await read(2 * self._context.settings.limits.max_message_bytes)
        )
