"""Keeps subscriptions to resources as long as a caller needs them, also when a connection ends.

One task for each resource borrows the connection of its server, so that the pool does not stop the server as
idle. The task subscribes, and subscribes again when the subscription ends. Servers send updates as notices,
which the pool passes to its listener. This module reports only updates that may have been missed between two
connections.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self

import anyio
import structlog

from maitred.backends.base import Connections
from maitred.background import Background
from maitred.errors import ConnectionLostError, ServerError
from maitred.model.sharing import NO_SHARER, Sharer

log = structlog.get_logger(__name__)

_FIRST_DELAY_S = 1.0
_MAX_DELAY_S = 60.0


class _SharedSubscription:
    """One subscribed resource: the number of its subscribers, and the task that holds it.

    `key` is the share key of the instance that has it, and `sharer` one of the clients of that.
    """

    def __init__(
        self,
        server: str,
        uri: str,
        key: str,
        sharer: Sharer,
        predecessor: "_SharedSubscription | None",
    ) -> None:
        self.server = server
        self.uri = uri
        self.key = key
        self.sharer = sharer
        self.predecessor = predecessor
        self.wanted = 0
        self.scope = anyio.CancelScope()
        self.answered = anyio.Event()
        self.error: ServerError | None = None
        self.done = anyio.Event()


class Subscriptions(anyio.AsyncContextManagerMixin):
    """The resource subscriptions of a gateway; enter it before use and leave it before the connections.

    Args:
        connections: Lends the connection of a server.
        on_updated: Gets server, URI and share key of a resource that may have changed between two
            subscriptions.
    """

    def __init__(self, connections: Connections, *, on_updated: Callable[[str, str, str], None]) -> None:
        self._connections = connections
        self._on_updated = on_updated
        self._shared: dict[tuple[str, str, str], _SharedSubscription] = {}
        self._background = Background()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with self._background:
            yield self

    async def add(self, server: str, uri: str, sharer: Sharer = NO_SHARER) -> None:
        """Subscribe for a client, or count one more subscriber; returns when the server has agreed.

        Raises:
            ServerError: The server cannot be reached or does not agree. Then do not call `remove`.
        """
        key = self._connections.key(server, sharer)
        held = self._shared.get((server, uri, key))
        if held is None or not held.wanted:
            held = _SharedSubscription(server, uri, key, sharer, predecessor=held)
            self._background.start(self._hold, held)
            self._shared[server, uri, key] = held
        held.wanted += 1
        try:
            await held.answered.wait()
        except anyio.get_cancelled_exc_class():
            self._release(held)
            raise
        if held.error is not None:
            raise held.error

    def remove(self, server: str, uri: str, key: str = "") -> None:
        """Count one subscriber less; the last one ends the subscription. An unknown one is ignored.

        `key` is the share key that the sharer had when it subscribed.
        """
        if (held := self._shared.get((server, uri, key))) is not None:
            self._release(held)

    def _release(self, held: _SharedSubscription) -> None:
        held.wanted = max(0, held.wanted - 1)
        if not held.wanted:
            held.scope.cancel()

    async def _hold(self, held: _SharedSubscription) -> None:
        """The task of one resource."""
        try:
            if held.predecessor is not None:  # it must not unsubscribe what has just been subscribed
                await held.predecessor.done.wait()
                held.predecessor = None
            with held.scope:
                await self._follow(held)
        finally:
            at = (held.server, held.uri, held.key)
            if self._shared.get(at) is held:
                del self._shared[at]
            held.done.set()
            held.answered.set()

    async def _follow(self, held: _SharedSubscription) -> None:
        """Subscribe again and again. A failure before the first success goes to the callers who wait."""
        delay_s, tries = _FIRST_DELAY_S, 0
        while True:
            started = anyio.current_time()
            tries += 1
            try:
                reason = await self._subscribe(held)
            except ServerError as error:
                reason = str(error)
                if not held.answered.is_set():
                    if tries == 1 and isinstance(error, ConnectionLostError):
                        continue  # the connection had already ended, unnoticed; the next one is new
                    held.error = error
                    return
            log.info("a subscription ended", server=held.server, uri=held.uri, reason=reason)
            if anyio.current_time() - started > _MAX_DELAY_S:
                delay_s = _FIRST_DELAY_S
            await anyio.sleep(delay_s)
            delay_s = min(delay_s * 2, _MAX_DELAY_S)

    async def _subscribe(self, held: _SharedSubscription) -> str:
        """Hold one subscription until it ends; returns the reason."""
        async with (
            self._connections.connection(held.server, held.sharer) as connection,
            connection.subscribe(held.uri) as subscription,
        ):
            if held.answered.is_set():
                self._on_updated(held.server, held.uri, held.key)
            held.answered.set()
            return await subscription.ended()
