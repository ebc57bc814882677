"""A server that is a program or a container, on whichever replica owns it.

`PlacedBackend` wraps the backend of the server. If this replica owns the instance, its connection is that of
the wrapped backend. Otherwise it is a link to the owner.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, cast

import anyio

from maitred.backends.base import Backend, ConnectError, Connection, ConnectOptions, Ending, Notice
from maitred.backends.owned_connection import OwnedConnection
from maitred.backends.placement import MOVED, ServerPlacement
from maitred.backends.runner_forms import fleet_name
from maitred.errors import ReplicaError, ReplicaGoneError, StoreError
from maitred.replicas.ownership import NotOwnerError

_AGAIN_S: Final = 0.5
_MOST_WAIT_S: Final = 20.0
"""Longer than a lease: until then another replica can have taken what a dead one ran."""
_NO_OWNER: Final = "the replica that ran it does not answer, and no other has taken it yet; try again"


class PlacedBackend(Backend):
    """A server that is a program or a container, on whichever replica owns it."""

    def __init__(self, backend: Backend, placement: ServerPlacement) -> None:
        self.spec = backend.spec
        self._backend = backend
        self._placement = placement
        self._owner = ""
        self.is_elsewhere = False

    @property
    def cage(self) -> str:  # type: ignore[override]  # known once it is asked
        """What its processes run in; see `Backend`."""
        return "" if self.is_elsewhere else self._backend.cage

    @property
    def pid(self) -> int | None:
        """Its process, if it runs here."""
        return None if self.is_elsewhere else self._backend.pid

    def last_output(self, *, earlier: bool = False) -> Sequence[str]:
        """What it wrote here, and where it runs now if that is elsewhere."""
        written = list(self._backend.last_output(earlier=earlier))
        if self._owner:
            there = self._placement.replicas.membership.get(self._owner)
            at = f" at {there.address}" if there else ""
            written.append(f"(it runs on replica {self._owner}{at}; what it writes is kept there)")
        return written

    def why_not_callable(self, tool: str) -> str:
        """See `Backend`."""
        return self._backend.why_not_callable(tool)

    async def settle(self, tool: str) -> bool:
        """See `Backend`."""
        return not self.is_elsewhere and await self._backend.settle(tool)

    def idle_limit_s(self, configured_s: float) -> float:
        """See `Backend`."""
        return self._backend.idle_limit_s(configured_s)

    def ending(self, reason: str) -> Ending:
        """How the last connection ended; of one elsewhere, its replica knows more."""
        return Ending(kind="lost", reason=reason) if self.is_elsewhere else self._backend.ending(reason)

    @asynccontextmanager
    async def connect(self, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Open a session with the instance, on the replica that runs it; see `Backend`."""
        placement = self._placement
        self._owner, self.is_elsewhere = "", False
        if not await placement.replicas.settled():
            async with self._backend.connect(options) as connection:
                yield connection
            return
        name = fleet_name(self.spec.name, options.key, placement.replicas.id)
        async with self._placed(name, options) as connection:
            yield connection

    @asynccontextmanager
    async def _placed(self, name: str, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Try the owner until it answers, or its lease has ended and another one is found."""
        placement, has_begun = self._placement, False
        until, unreached = anyio.current_time() + _MOST_WAIT_S, set[str]()
        while True:
            owner = await placement.owner(name, self.spec.name, unreached)
            is_own = owner == placement.replicas.id
            self._owner, self.is_elsewhere = "" if is_own else owner, not is_own
            opened = self._run_here(name, options) if is_own else placement.link(owner, self.spec, options)
            try:
                async with opened as connection:
                    has_begun = True
                    yield connection
            except (NotOwnerError, ReplicaGoneError) as error:
                if has_begun:
                    raise
                if anyio.current_time() > until:
                    raise ConnectError(f"{_NO_OWNER} ({error.reason})") from error
                unreached.add(owner)
            except ReplicaError as error:
                raise ConnectError(str(error)) from error
            if has_begun:
                return
            await anyio.sleep(_AGAIN_S)

    @asynccontextmanager
    async def _run_here(self, name: str, options: ConnectOptions) -> AsyncIterator[Connection]:
        """Run it, as long as this replica owns it.

        Raises:
            NotOwnerError: Another replica has taken it meanwhile.
            ConnectError: It cannot be started, or the database cannot be written.
        """
        placement = self._placement
        if not placement.replicas.own.runs_servers:
            raise NotOwnerError(placement.replicas.id, "it is ending, or runs no servers")
        try:
            number = await placement.ownership.claim(name)
        except StoreError as error:
            raise ConnectError(f"this replica cannot take it: {error.reason}") from error
        server = placement.server(name)
        server.starts += 1  # before anything is awaited: until then it is not given back

        def heard(notice: Notice) -> None:
            options.on_notice(notice)
            placement.spread(name, notice)

        try:
            async with self._backend.connect(replace(options, on_notice=heard)) as connection:
                if not placement.ownership.holds(name):
                    raise ConnectError(MOVED)
                server.connection = self._owned(name, number, connection)
                yield cast("Connection", server.connection)
        finally:
            self.is_elsewhere = not placement.ownership.holds(name)
            server.connection = None
            server.starts -= 1
            with anyio.CancelScope(shield=True):
                await placement.settle(name)

    def _owned(self, name: str, number: int, connection: Connection) -> OwnedConnection:
        placement, server = self._placement, self.spec.name
        return OwnedConnection(
            server,
            connection,
            lambda changes: placement.ownership.check(name, number, changes=changes),
            lambda tool: placement.reads(server, tool),
        )
