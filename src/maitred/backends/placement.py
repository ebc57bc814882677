"""Finds the replica that runs an instance of a server, and links this replica to it.

It knows the links of this replica to servers elsewhere, and those of other replicas to servers that run here.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, Final

import anyio

from maitred.backends.base import ConnectError, Connection, ConnectOptions, Notice
from maitred.backends.owned_connection import OwnedConnection
from maitred.backends.runner_callers import CallersHere
from maitred.backends.runner_forms import fleet_sharer, notice_of, to_form
from maitred.backends.runner_link import LinkedConnection
from maitred.errors import ServerError, ServerUnavailableError, StoreError
from maitred.model.servers import ServerSpec
from maitred.replicas.forwarding import ReplicaRequest, Replicas
from maitred.replicas.ownership import Ownership, choose

_AGAIN_S: Final = 0.5
_NO_RUNNER_S: Final = 20.0
MOVED: Final = "another replica runs it now"


class LocalServer:
    """An instance that this replica runs, with the links of other replicas to it: their ids, by link.

    `starts` counts the tasks of this replica that start or run it.
    """

    def __init__(self) -> None:
        self.connection: OwnedConnection | None = None
        self.links: dict[str, str] = {}
        self.starts = 0

    @property
    def is_needed(self) -> bool:
        """Whether it runs, starts, or another replica is linked to it."""
        return bool(self.starts or self.links)


class ServerPlacement:
    """Which replica runs what, as this one sees it.

    `reads` says of a server and the raw name of a tool whether calls of it are known to change nothing.
    """

    def __init__(self, replicas: Replicas, ownership: Ownership, reads: Callable[[str, str], bool]) -> None:
        self.replicas = replicas
        self.ownership = ownership
        self.local: dict[str, LocalServer] = {}
        self._callers = CallersHere(replicas)
        self.reads = reads
        self._links: dict[str, LinkedConnection] = {}
        self._notices: dict[str, Callable[[Notice], None]] = {}
        self._last: dict[str, str] = {}
        ownership.on_lost.append(self._lost)
        replicas.membership.on_gone.append(self._gone)
        replicas.register("link.notice", self._heard_notice)
        replicas.register("link.ended", self._heard_end)
        replicas.register("link.unsubscribed", self._heard_subscription)

    # --- the owner ----------------------------------------------------------------------------------------

    async def owner(self, name: str, server: str, without: Collection[str] = ()) -> str:
        """The replica that runs an instance, or should: the owner, or the one that all would choose.

        No replica of `without` is chosen; an owner stays one until its lease has ended.

        Raises:
            ConnectError: No replica may run it, or the database cannot be read and nothing is remembered.
        """
        until = anyio.current_time() + _NO_RUNNER_S
        while True:
            try:
                found = await self.ownership.find(name)
            except StoreError as error:
                if (known := self._last.get(name)) is not None:
                    return known
                raise ConnectError(f"which replica runs it cannot be read: {error.reason}") from error
            live = self.replicas.membership.live
            runners = [one for one in live if one.runs_servers and one.id not in without]
            if found or runners:
                chosen = found or choose(name, runners).id
                self._last[name] = chosen
                return chosen
            if anyio.current_time() > until:
                raise ConnectError(
                    f"no replica is alive that may run it; start one whose role is `runner` or `both`"
                    f" ({server!r} is a program or a container)"
                )
            await anyio.sleep(_AGAIN_S)

    def server(self, name: str) -> LocalServer:
        """What this replica knows of an instance that it owns."""
        return self.local.setdefault(name, LocalServer())

    async def settle(self, name: str) -> None:
        """Give an instance back that no replica needs and that does not run here."""
        found = self.local.get(name)
        if found is not None and not found.is_needed:
            await self.ownership.give_back(name, unless=lambda: self._is_needed(name))
            if not self._is_needed(name):
                self.local.pop(name, None)
                self._last.pop(name, None)

    def _is_needed(self, name: str) -> bool:
        found = self.local.get(name)
        return found is not None and found.is_needed

    def hand_over_idle(self) -> bool:
        """End the instances that no request uses, so that another replica takes them; whether any is left."""
        for found in list(self.local.values()):
            connection = found.connection
            if connection is None or not connection.alive or connection.under_way:
                continue
            self._tell_end(found)
            connection.end(MOVED)
        return any(found.starts for found in self.local.values())

    def _tell_end(self, found: LocalServer) -> None:
        links, found.links = found.links, {}
        for owner in set(links.values()):
            ended = [link for link, other in links.items() if other == owner]
            self.replicas.tell(owner, "link.ended", {"links": ended, "reason": MOVED})

    def _lost(self, name: str) -> None:
        found = self.local.pop(name, None)
        if found is not None and found.connection is not None:
            found.connection.end(MOVED)

    # --- links of this replica ----------------------------------------------------------------------------

    @asynccontextmanager
    async def link(self, owner: str, spec: ServerSpec, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Connect to an instance that another replica runs, or is to start.

        Raises:
            NotOwnerError: That replica cannot run it; another one may.
            ReplicaGoneError: That replica cannot be reached.
            ConnectError: The server cannot be started there.
        """
        link = secrets.token_hex(8)
        sharer = asdict(fleet_sharer(options.sharer, self.replicas.id))
        try:
            opened = await self.replicas.forward(
                owner, "server.open", {"server": spec.name, "sharer": sharer, "link": link}
            )
        except ServerUnavailableError as error:
            raise ConnectError(error.reason) from error
        except (StoreError, ServerError) as error:
            raise ConnectError(str(error)) from error
        connection = LinkedConnection(
            spec.name,
            owner,
            opened | {"link": link, "sharer": sharer},
            self.replicas,
            self._callers,
            self.reads,
        )
        self._links[link] = connection
        self._notices[link] = options.on_notice
        try:
            yield connection
        finally:
            del self._links[link], self._notices[link]
            await connection.leave()

    def _gone(self, gone: frozenset[str]) -> None:
        for connection in list(self._links.values()):
            if connection.owner in gone:
                connection.end(f"replica {connection.owner}, which ran it, has ended")
        for server in self.local.values():
            server.links = {link: owner for link, owner in server.links.items() if owner not in gone}

    async def _heard_notice(self, request: ReplicaRequest) -> dict[str, Any]:
        for link in request.body["links"]:
            if self._is_of(request.sender, link) and (heard := self._notices.get(link)) is not None:
                heard(notice_of(request.body["notice"]))
        return {}

    def _is_of(self, owner: str, link: str) -> bool:
        return (connection := self._links.get(link)) is not None and connection.owner == owner

    async def _heard_end(self, request: ReplicaRequest) -> dict[str, Any]:
        for link in request.body["links"]:
            if self._is_of(request.sender, link) and (connection := self._links.get(link)) is not None:
                connection.end(request.body["reason"])
        return {}

    async def _heard_subscription(self, request: ReplicaRequest) -> dict[str, Any]:
        body = request.body
        connection = self._links.get(body["link"])
        if connection is not None and connection.owner == request.sender:
            connection.subscription_ended(body["subscription"], body["reason"])
        return {}

    # --- links of others ----------------------------------------------------------------------------------

    def spread(self, name: str, notice: Notice) -> None:
        """Tell the other replicas a notice of an instance that this one runs."""
        found = self.local.get(name)
        if found is None or notice.kind in ("tools", "resources", "prompts"):
            return  # this replica lists them again, for all
        by_owner: dict[str, list[str]] = {}
        for link, owner in found.links.items():
            by_owner.setdefault(owner, []).append(link)
        form = to_form(notice)
        for owner, links in by_owner.items():
            self.replicas.tell(owner, "link.notice", {"links": links, "notice": form})
