"""The connection to a server that another replica runs: each request is forwarded to that replica.

It ends when the server has moved to another replica, and then the next call finds that one. A request that
the other replica certainly did not begin may be made again; of any other the caller hears that it was lost.
"""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio

from maitred.backends.base import Caller, Listing, ServerOffers, Subscription
from maitred.backends.runner_callers import CallersHere
from maitred.backends.runner_forms import caller_form, facts_of, listing_of, offers_of, to_form
from maitred.errors import ConnectionLostError, MaitredError, ReplicaError
from maitred.model.tools import ToolCall
from maitred.replicas.forwarding import Replicas

_LEAVE_S: Final = 2.0
READING_TASKS: Final = frozenset({"tasks/get", "tasks/result", "tasks/list"})
"""The requests about a task that change nothing."""


class LinkSubscription:
    """A subscription that another replica holds, until it says that it has ended."""

    def __init__(self) -> None:
        self._reason = ""
        self._is_over = anyio.Event()

    def end(self, reason: str) -> None:
        """Note that it has ended."""
        self._reason = self._reason or reason
        self._is_over.set()

    async def ended(self) -> str:
        """Wait for the end, and return the reason."""
        await self._is_over.wait()
        return self._reason


class LinkedConnection:
    """A `Connection` by way of the replica that owns the server.

    `opened` is its answer to `server.open`. `reads` says whether a tool is known to change nothing.
    """

    def __init__(
        self,
        server: str,
        owner: str,
        opened: Mapping[str, Any],
        replicas: Replicas,
        callers: CallersHere,
        reads: Callable[[str, str], bool],
    ) -> None:
        self.server = server
        self.owner = owner
        self.id: str = opened["link"]
        self.facts = facts_of(opened)
        self.title_as_sent: str = opened["title_as_sent"]
        self.instructions_as_sent: str = opened["instructions_as_sent"]
        self.completes: bool = opened["completes"]
        self.subscribes: bool = opened["subscribes"]
        self._address = {"server": server, "sharer": opened["sharer"], "number": opened["number"]}
        self._replicas = replicas
        self._callers = callers
        self._reads = reads
        self._subscriptions: dict[str, LinkSubscription] = {}
        self._reason = ""
        self._is_over = anyio.Event()

    @property
    def alive(self) -> bool:
        """Whether the server is still at that replica, as far as this one knows."""
        return not self._is_over.is_set()

    @property
    def heard_at(self) -> float:
        """Now: the replica that runs the server checks whether it answers."""
        return time.monotonic()

    @property
    def waiting_since(self) -> float | None:
        """Never, as above."""
        return None

    async def ping(self, timeout_s: float) -> None:
        """Do nothing: the replica that runs the server checks it."""

    def end(self, reason: str) -> None:
        """End the link; see `Connection`."""
        self._reason = self._reason or reason
        self._is_over.set()
        for subscription in self._subscriptions.values():
            subscription.end(reason)

    async def closed(self) -> str:
        """Wait for the end of the link, and return the reason."""
        await self._is_over.wait()
        return self._reason

    async def list_tools(self) -> Listing:
        """Have the server's tools listed; see `Connection`."""
        return listing_of(await self._ask("list", {}))

    async def list_offers(self) -> ServerOffers:
        """Have its other lists read; see `Connection`."""
        return offers_of(await self._ask("offers", {}))

    async def call_tool(
        self, name: str, call: ToolCall, *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Have a tool called; see `Connection`."""
        body = {"name": name, "call": to_form(call), "reads": self._reads(self.server, name)}
        return await self._ask_for("call", body | {"timeout_s": timeout_s}, caller)

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Have a request relayed; see `Connection`."""
        body = {"method": method, "params": dict(params), "timeout_s": timeout_s, "reads": True}
        return await self._ask_for("request", body, caller)

    async def ask_about_task(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, caller: Caller
    ) -> dict[str, Any]:
        """Have a task asked about; see `Connection`."""
        body = {"method": method, "params": dict(params), "timeout_s": timeout_s}
        return await self._ask_for("task", body | {"reads": method in READING_TASKS}, caller)

    def forget(self, key: str) -> None:
        """Have a client forgotten that has gone; see `Connection`."""
        self._callers.forget(key)

    async def roots_changed(self, key: str) -> None:
        """Announce to the server that a client's roots changed; see `Connection`."""
        with suppress(MaitredError):
            await self._ask("roots", {"key": key})

    @asynccontextmanager
    async def subscribe(self, uri: str) -> AsyncIterator[Subscription]:
        """Have a resource subscribed to; see `Connection`."""
        name, subscription = secrets.token_hex(8), LinkSubscription()
        self._subscriptions[name] = subscription
        try:
            await self._ask("subscribe", {"uri": uri, "subscription": name})
            yield subscription
        finally:
            del self._subscriptions[name]
            if self.alive:
                with anyio.move_on_after(_LEAVE_S, shield=True), suppress(MaitredError):
                    await self._ask("unsubscribe", {"subscription": name})

    def subscription_ended(self, name: str, reason: str) -> None:
        """The other replica says that a subscription has ended."""
        if (subscription := self._subscriptions.get(name)) is not None:
            subscription.end(reason)

    async def leave(self) -> None:
        """Tell the other replica that this one needs the server no more."""
        if self.alive:
            self.end("this replica needs it no more")
            with anyio.move_on_after(_LEAVE_S, shield=True), suppress(MaitredError):
                await self._replicas.forward(self.owner, "server.leave", {"link": self.id})
        elif self._replicas.membership.get(self.owner) is not None:  # it may not know that the link has ended
            self._replicas.tell(self.owner, "server.leave", {"link": self.id})

    async def _ask_for(self, what: str, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Ask for a caller, whom the server may ask meanwhile."""
        with self._callers.calling(caller, self.owner) as call:
            try:
                answer = await self._ask(what, body | {"caller": caller_form(caller, call)})
            finally:
                await self._callers.caught_up(call, self.owner)
            return dict(answer["result"])

    async def _ask(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Forward one request.

        Raises:
            ConnectionLostError: The replica has gone, or runs the server no more.
            ServerError: As the server's own connection.
        """
        if not self.alive:
            raise ConnectionLostError(self.server, self._reason, unread=True)
        try:
            return await self._replicas.forward(
                self.owner, f"server.{what}", {"link": self.id, **self._address, **body}
            )
        except ReplicaError as error:
            reason = f"replica {error.replica}, which ran it: {error.reason}"
            self.end(reason)
            raise ConnectionLostError(self.server, reason, unread=error.unread) from error
