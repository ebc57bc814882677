"""What is done to gateways and servers while clients ask: one file of faults, each with whom it may touch.

There are two gateways on one configuration and one catalog: that which clients on stdio share and start
themselves, and one over HTTP. That one is started again as soon as it has ended, as a service manager does.
"""

import asyncio
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import psutil

from bench.stage import CURRENT
from maitred.backends.warden import MARK

LABEL: Final = "AVAILABILITY_SERVER"
"""The environment variable by which the processes of servers are known."""

_HANG_S: Final = 8.0
_BUSY_S: Final = 8.0


PASS_ON: Final = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A program that passes on a socket as systemd does: as descriptor 3, to the process that it becomes."""


@dataclass(kw_only=True)
class Service:
    """The gateway over HTTP, kept as a service manager does; `log` gets all that it says.

    The socket is the manager's, so clients that connect between two gateways wait for the next.
    """

    config: Path
    log: Path
    starts: int = 0
    _process: asyncio.subprocess.Process | None = None

    def __post_init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    @property
    def pid(self) -> int:
        """Its process now, 0 if there is none."""
        return self._process.pid if self._process and self._process.returncode is None else 0

    async def keep(self) -> None:
        """Start it, and again whenever it ends; runs until cancelled, which ends it."""
        command = CURRENT.command("serve", "--config", str(self.config), "--transport", "http")
        passed = self._socket.fileno()
        passing = [sys.executable, "-I", "-S", "-c", PASS_ON, str(passed), *command]
        try:
            while True:
                with self.log.open("ab") as log:
                    self._process = await asyncio.create_subprocess_exec(
                        *passing, "--port", str(self.port), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                        pass_fds=[passed],
                    )  # fmt: skip
                self.starts += 1
                await self._process.wait()
        finally:
            self._socket.close()
            with anyio.CancelScope(shield=True):
                if self.pid and self._process:
                    self._process.terminate()
                    await self._process.wait()


@dataclass(kw_only=True)
class Scene:
    """What there is to disturb. `turn` has the servers in the order in which they are next."""

    config: Path
    catalog: Path
    run: str
    servers: Sequence[str]
    service: Service
    rng: random.Random
    turn: list[tuple[str, str]] = field(default_factory=list)

    def shared_gateway(self) -> int:
        """The process of the gateway that clients on stdio share, 0 if there is none."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                line = process.cmdline()
                if "daemon" in line and str(self.config) in line:
                    return int(process.pid)
        return 0

    def next_server(self) -> tuple[str, str, psutil.Process] | None:
        """The link of the gateway, the name and the process of the server whose turn it is, if one runs."""
        every = {(link, name): process for link, name, process in self.running()}
        if not self.turn:
            self.turn = [(link, name) for link in ("stdio", "HTTP") for name in self.servers]
            self.rng.shuffle(self.turn)
        for place in self.turn:
            if place in every:
                self.turn.remove(place)
                return *place, every[place]
        return None

    def running(self) -> Iterator[tuple[str, str, psutil.Process]]:
        """The processes of servers, each with the link of its gateway and its name."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                environ = process.environ()
                run, _, name = environ.get(LABEL, "").partition("/")
                if run == self.run and process.status() != psutil.STATUS_ZOMBIE:
                    gateway = environ.get(MARK, "---").split("-")[1]
                    yield "HTTP" if gateway == str(self.service.pid) else "stdio", name, process


@dataclass(frozen=True, kw_only=True)
class Touched:
    """Whom a fault may touch: clients of one link, or all if empty; calls of one server, or all requests."""

    link: str = ""
    server: str = ""


Cause = Callable[[Scene], AbstractAsyncContextManager[Touched | None]]
"""Brings a fault about and, in the end, takes it away; `None` if there was nothing to disturb."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A kind of fault: how often it comes in a round, and how long it is kept up."""

    name: str
    often: int
    cause: Cause
    lasts_s: float = 0.0


@asynccontextmanager
async def _server_killed(scene: Scene) -> AsyncIterator[Touched | None]:
    if (found := await asyncio.to_thread(scene.next_server)) is None:
        yield None
        return
    link, name, process = found
    with suppress(psutil.NoSuchProcess):
        process.kill()
    yield Touched(link=link, server=name)


@asynccontextmanager
async def _server_hangs(scene: Scene) -> AsyncIterator[Touched | None]:
    """It is stopped, and goes on afterwards if the gateway has not ended it by then."""
    if (found := await asyncio.to_thread(scene.next_server)) is None:
        yield None
        return
    link, name, process = found
    with suppress(psutil.NoSuchProcess):
        process.suspend()
    try:
        yield Touched(link=link, server=name)
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()


@asynccontextmanager
async def _shared_killed(scene: Scene) -> AsyncIterator[Touched | None]:
    pid = await asyncio.to_thread(scene.shared_gateway)
    if pid:
        os.kill(pid, signal.SIGKILL)
    yield Touched(link="stdio") if pid else None


@asynccontextmanager
async def _shared_stopped(scene: Scene) -> AsyncIterator[Touched | None]:
    await asyncio.to_thread(CURRENT.stop, scene.config)
    yield Touched(link="stdio")


@asynccontextmanager
async def _service_signalled(sent: signal.Signals, scene: Scene) -> AsyncIterator[Touched | None]:
    pid = scene.service.pid
    if pid:
        os.kill(pid, sent)
    yield Touched(link="HTTP") if pid else None


@asynccontextmanager
async def _catalog_busy(scene: Scene) -> AsyncIterator[Touched | None]:
    """Another program writes into the catalog, and does not end its transaction."""
    connection = await asyncio.to_thread(sqlite3.connect, scene.catalog, check_same_thread=False, timeout=30)
    with closing(connection):
        await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
        try:
            yield Touched()
        finally:
            connection.rollback()


FAULTS: Final[Sequence[Fault]] = (
    Fault(name="a server is killed", often=3, cause=_server_killed),
    Fault(name="a server hangs for 8 s", often=2, cause=_server_hangs, lasts_s=_HANG_S),
    Fault(name="the catalog is locked for 8 s", often=1, cause=_catalog_busy, lasts_s=_BUSY_S),
    Fault(name="the shared gateway is killed", often=1, cause=_shared_killed),
    Fault(name="the shared gateway is stopped in order", often=1, cause=_shared_stopped),
    Fault(name="the gateway over HTTP is killed", often=1, cause=partial(_service_signalled, signal.SIGKILL)),
    Fault(
        name="the gateway over HTTP is restarted in order",
        often=1,
        cause=partial(_service_signalled, signal.SIGTERM),
    ),
)
