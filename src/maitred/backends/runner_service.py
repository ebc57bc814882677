"""What a replica does for others with the servers that it runs: one handler for each request of a link."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio

from maitred.backends.base import Connection, ServerPool
from maitred.backends.placement import MOVED, ServerPlacement
from maitred.backends.runner_callers import CallerMessages, ForwardedCaller
from maitred.backends.runner_forms import (
    call_of,
    connection_form,
    fleet_name,
    sharer_of,
    to_form,
)
from maitred.backends.runner_link import LinkedConnection
from maitred.background import Background
from maitred.errors import ServerError
from maitred.model.sharing import Sharer
from maitred.replicas.forwarding import ReplicaRequest
from maitred.replicas.ownership import NotOwnerError

_LOOK_S: Final = 0.2
Answered = Callable[[Connection, ReplicaRequest], Awaitable[Mapping[str, Any]]]


class RunnerService:
    """Answers other replicas from the pool of this one. Enter it after the pool, and leave it before."""

    def __init__(self, placement: ServerPlacement, pool: ServerPool) -> None:
        self._placement = placement
        self._pool = pool
        self._replicas = placement.replicas
        self._background = Background()
        self._messages = CallerMessages(self._replicas, self._background)
        self._subscriptions: dict[tuple[str, str], anyio.CancelScope] = {}
        for what, answered in {
            "list": self._list,
            "offers": self._offers,
            "call": self._call,
            "request": self._request,
            "task": self._task,
            "roots": self._roots,
            "subscribe": self._subscribe,
        }.items():
            self._replicas.register(f"server.{what}", self._on_connection(answered))
        self._replicas.register("server.open", self._open)
        self._replicas.register("server.leave", self._leave)
        self._replicas.register("server.unsubscribe", self._unsubscribe)
        self._replicas.register("server.restart", self._restart)
        placement.replicas.membership.on_gone.append(self._gone)
        placement.replicas.on_drain.append(self._hand_over)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Answer until the context is left."""
        async with self._background:
            yield

    # --- links --------------------------------------------------------------------------------------------

    async def _open(self, request: ReplicaRequest) -> Mapping[str, Any]:
        """Start an instance if it does not run, for a replica that will send requests for it."""
        body = request.body
        sharer = sharer_of(body["sharer"])
        name = self._name(body["server"], sharer)
        if not self._replicas.own.runs_servers:
            raise NotOwnerError(self._replicas.id, f"its role is `{self._replicas.own.role}`")
        number = await self._placement.ownership.claim(name)
        self._placement.server(name).links[body["link"]] = request.sender
        try:
            async with self._borrow(body["server"], sharer) as connection:
                return connection_form(connection) | {"number": number}
        except BaseException:
            await self._end_link(body["link"])
            raise

    async def _hand_over(self) -> None:
        """Let other replicas take the servers, each once no call uses it; returns when all are given."""
        while self._placement.hand_over_idle():  # noqa: ASYNC110  # calls end in many ways
            await anyio.sleep(_LOOK_S)

    async def _leave(self, request: ReplicaRequest) -> Mapping[str, Any]:
        """A replica needs an instance no more; that of a single client ends soon."""
        await self._end_link(request.body["link"])
        return {}

    async def _end_link(self, link: str) -> None:
        for name, server in list(self._placement.local.items()):
            if server.links.pop(link, None) is not None:
                await self._placement.settle(name)

    def _gone(self, gone: frozenset[str]) -> None:
        for (link, _), scope in list(self._subscriptions.items()):
            if not any(link in server.links for server in self._placement.local.values()):
                scope.cancel()
        for name in list(self._placement.local):
            if self._background.is_open:
                self._background.start(self._placement.settle, name)

    # --- requests -----------------------------------------------------------------------------------------

    def _name(self, server: str, sharer: Sharer) -> str:
        return fleet_name(server, self._pool.key(server, sharer), self._replicas.id)

    @asynccontextmanager
    async def _borrow(self, server: str, sharer: Sharer) -> AsyncIterator[Connection]:
        """The connection of an instance that runs here."""
        async with self._pool.connection(server, sharer) as connection:
            if isinstance(connection, LinkedConnection):
                connection.end(MOVED)
                raise NotOwnerError(self._replicas.id, "it does not run the server")
            yield connection

    def _on_connection(self, answered: Answered) -> Callable[[ReplicaRequest], Awaitable[Mapping[str, Any]]]:
        """Answer with the connection of an instance that this replica certainly owns."""

        async def answer(request: ReplicaRequest) -> Mapping[str, Any]:
            body = request.body
            sharer = sharer_of(body["sharer"])
            name, changes = self._name(body["server"], sharer), not body.get("reads", True)
            self._placement.ownership.check(name, body["number"], changes=changes)
            async with self._borrow(body["server"], sharer) as connection:
                self._placement.ownership.check(name, body["number"], changes=changes)
                return await answered(connection, request)

        return answer

    async def _list(self, connection: Connection, _: ReplicaRequest) -> Mapping[str, Any]:
        return to_form(await connection.list_tools())

    async def _offers(self, connection: Connection, _: ReplicaRequest) -> Mapping[str, Any]:
        return to_form(await connection.list_offers())

    async def _call(self, connection: Connection, request: ReplicaRequest) -> Mapping[str, Any]:
        body, caller = request.body, self._caller(request)
        try:
            result = await connection.call_tool(
                body["name"], call_of(body["call"]), timeout_s=body["timeout_s"], caller=caller
            )
        finally:
            await self._messages.delivered(request.sender)
        return {"result": result}

    async def _request(self, connection: Connection, request: ReplicaRequest) -> Mapping[str, Any]:
        return {"result": await self._ask(connection.request, request)}

    async def _task(self, connection: Connection, request: ReplicaRequest) -> Mapping[str, Any]:
        return {"result": await self._ask(connection.ask_about_task, request)}

    async def _ask(
        self, send: Callable[..., Awaitable[dict[str, Any]]], request: ReplicaRequest
    ) -> dict[str, Any]:
        body = request.body
        try:
            return await send(
                body["method"], body["params"], timeout_s=body["timeout_s"], caller=self._caller(request)
            )
        finally:
            await self._messages.delivered(request.sender)

    def _caller(self, request: ReplicaRequest) -> ForwardedCaller:
        return ForwardedCaller(request.sender, request.body["caller"], self._messages)

    async def _roots(self, connection: Connection, request: ReplicaRequest) -> Mapping[str, Any]:
        await connection.roots_changed(f"{request.sender} {request.body['key']}")
        return {}

    # --- subscriptions ------------------------------------------------------------------------------------

    async def _subscribe(self, _: Connection, request: ReplicaRequest) -> Mapping[str, Any]:
        """Hold a subscription for another replica, until that ends it or is gone."""
        answered: list[ServerError] = []
        begun = anyio.Event()
        self._background.start(self._hold, request, begun, answered)
        await begun.wait()
        if answered:
            raise answered[0]
        return {}

    async def _hold(self, request: ReplicaRequest, begun: anyio.Event, failed: list[ServerError]) -> None:
        body, scope = request.body, anyio.CancelScope()
        at = (body["link"], body["subscription"])
        self._subscriptions[at] = scope
        reason = "it was ended"
        try:
            with scope:
                async with (
                    self._borrow(body["server"], sharer_of(body["sharer"])) as connection,
                    connection.subscribe(body["uri"]) as subscription,
                ):
                    begun.set()
                    reason = await subscription.ended()
        except ServerError as error:
            reason = str(error)
            if not begun.is_set():
                failed.append(error)
        except NotOwnerError as error:
            reason = error.reason
        finally:
            del self._subscriptions[at]
            begun.set()
        if not scope.cancel_called and not failed:
            ended = {"link": at[0], "subscription": at[1], "reason": reason}
            self._replicas.tell(request.sender, "link.unsubscribed", ended)

    async def _unsubscribe(self, request: ReplicaRequest) -> Mapping[str, Any]:
        scope = self._subscriptions.get((request.body["link"], request.body["subscription"]))
        if scope is not None:
            scope.cancel()
        return {}

    # --- operators ----------------------------------------------------------------------------------------

    async def _restart(self, request: ReplicaRequest) -> Mapping[str, Any]:
        """An operator has a server started again, wherever it runs."""
        await self._pool.restart(request.body["server"])
        return {}
