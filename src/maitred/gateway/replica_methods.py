"""What the gateway does as one of several replicas on one database; see `maitred.replicas`."""

from collections.abc import Awaitable, Callable

from maitred.gateway.state import GatewayState
from maitred.replicas.forwarding import Replicas


class ReplicaMethods:
    """The methods of a gateway about replicas."""

    _context: GatewayState
    _replicas: Replicas

    def join_replicas(self, address: str) -> None:
        """Become known to the other gateways on a PostgreSQL, which reach this one at an address."""
        self._replicas.join(address)

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
