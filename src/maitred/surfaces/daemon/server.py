"""A gateway's socket: it serves clients, answers status requests, and refuses the rest.

Every gateway that serves has a socket; only a background gateway accepts clients and can be stopped there.
One client's connection can neither end nor block another's.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import anyio
import anyio.abc
import structlog

from maitred import __version__
from maitred.background import Background
from maitred.errors import ConfigError, MaitredError, StoreError
from maitred.gateway import Gateway
from maitred.meta_tools.menu import safe_tools
from maitred.model.access import LOCAL_GRANT, LOCAL_USER, ClientStart, Grant, RefusedAccess, Viewer
from maitred.surfaces.daemon.client_entry import AS_TOKEN
from maitred.surfaces.daemon.client_relay import MOVED, STOPPED
from maitred.surfaces.daemon.command_server import RunCommand, serve_command
from maitred.surfaces.daemon.environment import EnvironmentMatch, path_of, start_of
from maitred.surfaces.daemon.handshake import MOST_BYTES, decode_line, encode_line, values
from maitred.surfaces.daemon.pages import PagesOnDemand
from maitred.surfaces.daemon.sockets import Kind, peer_uid
from maitred.surfaces.mcp.wire import Wire
from maitred.wording import quote_input

log = structlog.get_logger(__name__)

Serve = Callable[[Wire, Grant, ClientStart], Awaitable[None]]

_HELLO_S: Final = 10.0
_TOKEN_S: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class GatewayInfo:
    """The facts that a gateway reports about itself; `log` is the file of its standard error."""

    kind: Kind
    config: str
    log: str = ""


@dataclass(frozen=True, kw_only=True)
class _Client:
    """A client that is served: the digests of its environment, its `PATH`, and who it is."""

    values: Mapping[str, str]
    path: str
    viewer: Viewer


class SocketServer:
    """Answers at a gateway's socket.

    Args:
        gateway: The gateway that the socket belongs to.
        about: The facts to report about it.
        serve: Serves a client until it leaves; `None` where clients do not connect to this socket.
        stop: Ends the gateway.
        pages: Where a person finds the pages of the gateway.
        run_command: Runs a command of the command line for another process; `None` where that is not wanted.
    """

    def __init__(
        self,
        gateway: Gateway,
        about: GatewayInfo,
        *,
        serve: Serve | None = None,
        stop: Callable[[], None],
        pages: PagesOnDemand,
        run_command: RunCommand | None = None,
    ) -> None:
        self._gateway = gateway
        self._run_command = run_command
        self._commands = 0
        self._about = about
        self._serve = serve
        self._stop = stop
        self._web = pages
        self._since = datetime.now(UTC)
        self._sameness = EnvironmentMatch(values())
        self._clients: dict[Wire, _Client] = {}
        self._judged_by: object = None
        self._news = anyio.Event()
        gateway.listen(lists=self._look, resource=lambda *_: None)

    @asynccontextmanager
    async def listening(self, at: socket.socket) -> AsyncIterator[None]:
        """Answer until the context is left; clients then learn that an operator stopped the gateway."""
        loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as tasks:

            def receive(wire: Wire) -> None:
                tasks.start_soon(self._receive, wire)

            server = await loop.create_unix_server(lambda: Wire(receive, self._look), sock=at)
            try:
                async with Background() as self._web.background:
                    yield
            finally:
                server.close()
                for wire in self._clients:
                    wire.close(encode_line({"maitred": STOPPED}))
                tasks.cancel_scope.cancel()

    async def idle(self, seconds: float) -> None:
        """Wait until there was no client, no command and no person at the pages for a number of seconds."""
        while True:
            self._news = anyio.Event()
            is_busy = self._clients or self._commands
            with anyio.move_on_after(None if is_busy else seconds) as patience:
                await self._news.wait()
            if patience.cancelled_caught and self._web.unused_s() >= seconds:
                return

    async def _receive(self, wire: Wire) -> None:
        try:
            if not _is_ours(wire):
                return
            with anyio.fail_after(_HELLO_S):
                said = decode_line(await wire.line(MOST_BYTES))
            await self._answer(wire, said)
        except (EOFError, TimeoutError, ConnectionError) as error:
            log.debug("a process left without a request", reason=repr(error))
        except Exception:  # a fault of one connection must not end the others
            log.exception("a connection could not be served")
        finally:
            wire.close()

    async def _answer(self, wire: Wire, said: Mapping[str, Any]) -> None:
        wants = said.get("maitred")
        try:
            grant = await self._grant_of(str(said.get("token", "")))
            if wants == "serve" and self._serve is not None:
                await self._take_in(wire, grant, said, self._serve)
            elif wants == "command" and self._run_command is not None:
                await self._host(wire, grant, said, self._run_command)
            elif wants == "ping":
                wire.write(encode_line({"maitred": "here"}))
            elif wants == "status":
                wire.write(encode_line({"maitred": "status", **await self.status(grant)}))
            elif wants == "pages":
                address = await self._web.entry(grant, str(said.get("token", "")))
                wire.write(encode_line({"maitred": "pages", "address": address}))
            elif wants == "stop" and self._serve is not None:
                self._gateway.authorize_stop(_viewer(grant))
                wire.write(encode_line({"maitred": "stopping", "pid": os.getpid()}))
                self._stop()
            else:
                wire.write(
                    encode_line(
                        {"maitred": "refused", "why": f"{quote_input(wants)} is not for this gateway"}
                    )
                )
        except MaitredError as error:
            wire.write(encode_line({"maitred": "refused", "why": str(error)}))

    async def _grant_of(self, token: str) -> Grant:
        """The grant of a token; without a token it is that of the user of this machine.

        Raises:
            MaitredError: The token is not valid, or it cannot be checked now.
        """
        if not token:
            return LOCAL_GRANT
        grant = await self._gateway.grant_of(token)
        if isinstance(grant, RefusedAccess):
            raise ConfigError(AS_TOKEN, [grant.reason])
        return grant

    # --- clients ------------------------------------------------------------------------------------------

    async def _take_in(self, wire: Wire, grant: Grant, said: Mapping[str, Any], serve: Serve) -> None:
        """Serve a client that has the same values as this gateway."""
        seen = said.get("values")
        seen = seen if isinstance(seen, dict) else {}
        settings, path = self._gateway.settings, path_of(said)
        if names := self._sameness.differing(seen, settings, path):
            log.info("a client has other values in its environment", names=names)
            wire.write(encode_line({"maitred": "other"}))
            return
        start, profile = start_of(said), str(said.get("profile", ""))
        viewer = self._gateway.within_profile(profile, Viewer(grant=grant, start=start))
        self._clients[wire] = _Client(values=seen, path=path, viewer=viewer)
        self._news.set()
        try:
            wire.write(encode_line({"maitred": "welcome", "safe_tools": safe_tools()}))
            async with Background() as background:
                found = self._sameness.extend(path, settings)
                background.start(self._discover, found, self._clients[wire].viewer)
                if token := str(said.get("token", "")):
                    background.start(self._see_to, wire, token, grant)
                await serve(wire, viewer.grant, start)
        finally:
            gone = self._clients.pop(wire).viewer
            if start.client and not any(one.viewer.start == start for one in self._clients.values()):
                self._gateway.client_left(gone)
            self._news.set()

    async def _host(self, wire: Wire, grant: Grant, said: Mapping[str, Any], run: RunCommand) -> None:
        """Run a command for a process that has the same values as this gateway."""
        seen = said.get("values")
        settings, path = self._gateway.settings, path_of(said)
        if names := self._sameness.differing(seen if isinstance(seen, dict) else {}, settings, path):
            wire.write(encode_line({"maitred": "other", "names": names}))
            return
        self._commands += 1
        self._news.set()
        try:
            if found := self._sameness.extend(path, settings):
                await self._gateway.sync(found, viewer=LOCAL_USER)
            folder = start_of(said).folder
            viewer = Viewer(grant=grant, surface="cli", start=ClientStart(folder=folder))
            await serve_command(wire, viewer, run)
        finally:
            self._commands -= 1
            self._news.set()

    async def _discover(self, found: Sequence[str], viewer: Viewer) -> None:
        """List servers whose programs are found since a client came, or that need its folder."""
        if found:
            log.info("programs of servers are found by the PATH of a client", servers=found)
            await self._gateway.sync(found, viewer=LOCAL_USER)
        await self._gateway.client_came(viewer)

    async def _see_to(self, wire: Wire, token: str, grant: Grant) -> None:
        """Disconnect a client once its token's grant changes; its next gateway gives the reason."""
        while True:
            await anyio.sleep(_TOKEN_S)
            with suppress(StoreError):  # the gateway serves on with what it knows
                if await self._gateway.grant_of(token) != grant:
                    wire.close(encode_line({"maitred": MOVED}))
                    return

    def _look(self) -> None:
        """After a reload, disconnect clients whose environment differs in a value that now matters."""
        settings = self._gateway.settings
        if settings is self._judged_by:
            return
        self._judged_by = settings
        for wire, client in list(self._clients.items()):
            if self._sameness.differing(client.values, settings, client.path):
                wire.close(encode_line({"maitred": MOVED}))

    # --- control ------------------------------------------------------------------------------------------

    async def status(self, grant: Grant) -> dict[str, Any]:
        """The status of the gateway, its catalog, and the servers that the grant may watch.

        Raises:
            NotAllowedError: The grant may watch no server.
        """
        about = self._about
        viewer = _viewer(grant)
        servers = self._gateway.watched_servers(viewer)
        return {
            "pid": os.getpid(),
            "transport": about.kind,
            "since": self._since.isoformat(timespec="seconds"),
            "clients": {"daemon": len(self._clients), "stdio": 1}.get(about.kind),
            "config": about.config,
            "version": __version__,
            "log": about.log,
            "catalog": await self._gateway.catalog_status(viewer),
            "servers": [
                {
                    "pid": server.health.pid,
                    "starts": server.health.starts,
                    "in_flight": server.health.in_flight,
                    "retry_in_s": server.health.retry_in_s,
                    **server.to_json(),
                    "instances": [
                        {"in_flight": one.health.in_flight, "retry_in_s": one.health.retry_in_s}
                        | one.to_json()
                        for one in server.instances
                    ],
                }
                for server in servers
            ],
        }


def _viewer(grant: Grant) -> Viewer:
    return Viewer(grant=grant, surface="cli")


def _is_ours(wire: Wire) -> bool:
    """Whether the client's process belongs to this user, if the system reports that."""
    option = getattr(socket, "SO_PEERCRED", None)
    return option is None or peer_uid(wire.socket_option(socket.SOL_SOCKET, option, 12)) == os.getuid()
