"""Run a gateway's socket beside its service, and the service of the gateway that clients share."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import structlog

from maitred.background import Background
from maitred.errors import DaemonError
from maitred.gateway import Gateway
from maitred.model.access import ClientStart, Grant
from maitred.surfaces.daemon.background import BackgroundStart, keep_short, own_log
from maitred.surfaces.daemon.command_server import RunCommand
from maitred.surfaces.daemon.pages import PagesOnDemand
from maitred.surfaces.daemon.server import GatewayInfo, SocketServer
from maitred.surfaces.daemon.sockets import Address, EndpointLock, Kind, address_of, every_seat
from maitred.surfaces.mcp.lazy_surface import LazySurface
from maitred.surfaces.mcp.wire import Wire

log = structlog.get_logger(__name__)


@contextmanager
def claim_endpoint(kind: Kind, config: Path) -> Iterator[EndpointLock | None]:
    """An endpoint for a gateway, from before its first server starts until after its last has ended.

    A gateway that serves alone runs without one if there can be none.

    Raises:
        DaemonError: There can be no endpoint, and clients need one.
    """
    try:
        held = _taken(address_of(config), kind)
    except (OSError, DaemonError) as error:
        if kind == "daemon":
            raise DaemonError(f"no gateway can be shared: {error}") from error
        log.info("this gateway cannot be seen by `maitred status`", reason=str(error))
        yield None
        return
    try:
        yield held
    finally:
        held.leave()


def _taken(address: Address, kind: Kind) -> EndpointLock:
    for seat in every_seat(address.folder):
        seat.lives()  # removes the files of dead gateways
    return EndpointLock(address, kind)


@asynccontextmanager
async def answering(
    held: EndpointLock | None,
    gateway: Gateway,
    kind: Kind,
    surface: LazySurface,
    stop: anyio.Event,
    pages: PagesOnDemand | None = None,
    run_command: RunCommand | None = None,
) -> AsyncIterator[SocketServer]:
    """Answer at the socket of an endpoint, if there is one; a client's request to stop sets `stop`.

    `pages` are where HTTP serves them; without it, they are opened when a person asks. `run_command` runs
    commands for other processes; a gateway with one client on its standard streams runs none.
    """

    async def serve(wire: Wire, grant: Grant, start: ClientStart) -> None:
        await surface.serve(wire, admitted=grant, start=start)

    source = gateway.settings.source.absolute()
    about = GatewayInfo(kind=kind, config=str(source), log=own_log(address_of(source)) if held else "")
    door = SocketServer(
        gateway,
        about,
        serve=serve if kind == "daemon" else None,
        stop=stop.set,
        pages=pages or PagesOnDemand(gateway, stop),
        run_command=run_command if kind != "stdio" else None,
    )
    if held is None:
        yield door
        return
    async with door.listening(held.listen()):
        yield door


async def serve_clients(
    begin: BackgroundStart,
    held: EndpointLock,
    door: SocketServer,
    surface: LazySurface,
    *,
    stop: anyio.Event,
    idle_s: float,
) -> None:
    """Serve the clients of the socket, until `stop` is set or there was none for `idle_s` seconds."""
    async with Background() as background:
        background.start(surface.announce)
        if path := own_log(begin.address):
            background.start(keep_short, Path(path))
        begin.say(seat=held.seat.name)

        async def end_when_idle() -> None:
            await door.idle(idle_s)
            stop.set()

        background.start(end_when_idle)
        await stop.wait()
        held.hide()
        surface.close()
