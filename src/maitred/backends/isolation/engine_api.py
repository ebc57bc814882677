"""What an engine of containers has to offer, in values: whoever wants a container knows no SDK.

`engine` has the one that speaks with Docker and Podman. `Engines` keeps it for all servers
of a gateway, finds it again when it went away, and clears up once what a gateway that was killed had left.
"""

import math
import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Final, Protocol

import anyio
import structlog

from maitred.backends.base import ConnectError
from maitred.backends.orphans import ClaimRegistry
from maitred.model.servers import Mount

log = structlog.get_logger(__name__)

CATALOG: Final = "maitred.catalog"
GATEWAY: Final = "maitred.gateway"
SERVER: Final = "maitred.server"
"""Labels of containers: which catalog, which gateway of it, which server."""

_UNIX: Final = "unix://"


class EngineError(ConnectError):
    """An engine did not do what it was asked for; `missing` if that was about something it does not have."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


class EngineGoneError(EngineError):
    """No engine answers."""


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """Which engine it is. `socket` is the path of its Unix socket, empty where it is reached otherwise."""

    address: str
    name: str
    version: str
    api: str = ""
    socket: str = ""


@dataclass(frozen=True, kw_only=True)
class ImageInfo:
    """An image as an engine has it: the hash that tells it from every other one, and its own choices.

    `volumes` are paths at which an engine would let it write to the disk of the machine.
    """

    identity: str
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ContainerSpec:
    """A container to be made, of an image by its identity. Sizes in bytes; see `Cage` for the limits.

    `in_memory` are the places where it may write: each is kept in memory, and holds `disk` bytes.
    """

    image: str
    args: Sequence[str]
    env: Mapping[str, str]
    user: str
    labels: Mapping[str, str]
    memory: int
    nano_cpus: int
    cpu_shares: int
    pids: int
    disk: int
    in_memory: Sequence[str]
    network: bool
    mounts: Sequence[Mount]


@dataclass(frozen=True, kw_only=True)
class ContainerState:
    """How a container is; `code` is its exit code once it does not run any more, `pid` its first process."""

    running: bool
    code: int = 0
    out_of_memory: bool = False
    pid: int | None = None


@dataclass(frozen=True, kw_only=True)
class ContainerSummary:
    """A container that is there, with its labels."""

    identity: str
    labels: Mapping[str, str]


class Engine(Protocol):
    """Docker or Podman. Every method raises `EngineError`, and `EngineGoneError` when nobody answers."""

    info: EngineInfo

    def close(self) -> None:
        """Close what is open to it; containers are left as they are."""
        ...

    async def ping(self) -> None:
        """Ask whether it is there."""
        ...

    async def image(self, reference: str) -> ImageInfo | None:
        """The image that a reference or an identity means here; `None` if it is not here."""
        ...

    def pull(self, reference: str, say: Callable[[str], None]) -> None:
        """Fetch an image; `say` gets a line for each step of each layer. Blocks for as long as that takes."""
        ...

    def export(self, identity: str, path: Path) -> None:
        """Write an image into an archive. Blocks for as long as that takes."""
        ...

    async def create(self, name: str, wanted: ContainerSpec) -> None:
        """Make a container; if it is cancelled, it waits a moment for the answer.

        There is none afterwards if the engine would not hold it to its limits, which is an error.
        """
        ...

    async def attach(self, name: str) -> socket:
        """A socket to the standard streams of a container, which is best not started yet."""
        ...

    async def start(self, name: str) -> None:
        """Start a container."""
        ...

    async def state(self, name: str) -> ContainerState | None:
        """How a container is; `None` if it is not there any more."""
        ...

    async def actions(self, name: str, since: float) -> frozenset[str]:
        """What happened to a container that has ended, since a time in seconds: `kill`, `stop`, `oom`, ..."""
        ...

    async def signal(self, name: str, number: int) -> None:
        """Send a signal to the first process of a container."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a container, also if it runs; that there is none is no error."""
        ...

    async def labelled(self, label: str) -> Sequence[ContainerSummary]:
        """The containers that have a label, such as `a=b`, running or not."""
        ...


def candidates(chosen: str, environ: Mapping[str, str], home: Path) -> list[str]:
    """The addresses at which an engine may be: the one that was chosen, or else the usual ones.

    `chosen` is what the operator set; without it `DOCKER_HOST` decides, and without that all usual sockets
    that are there are returned, Docker's first.
    """
    if chosen or (chosen := environ.get("DOCKER_HOST", "")):
        return [chosen]
    paths = usual_sockets(environ.get("XDG_RUNTIME_DIR", ""), home)
    return [f"{_UNIX}{path}" for path in paths if is_socket(path)]


def usual_sockets(runtime: str, home: Path) -> list[str]:
    """Where engines put their sockets; `runtime` is the folder for those of a user, if there is one."""
    return [
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
        *([f"{runtime}/docker.sock", f"{runtime}/podman/podman.sock"] if runtime else []),
        str(home / ".docker/run/docker.sock"),
        str(home / ".local/share/containers/podman/machine/podman.sock"),
    ]


def is_socket(path: str) -> bool:
    """Whether there is a Unix socket."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116  # its errors are all the same to us
    except OSError:
        return False


def socket_of(address: str) -> str:
    """The path of the socket of an address; empty if it is no Unix socket."""
    return address.removeprefix(_UNIX) if address.startswith(_UNIX) else ""


class Engines:
    """Finds the engine when it is first needed, and again when it does not answer any more.

    `opened` makes the connection; `claims` tell which gateways of this catalog left containers. Those are
    removed before the first engine is handed out.
    """

    def __init__(
        self,
        opened: Callable[[], Awaitable[Engine]],
        *,
        catalog: str,
        claims: ClaimRegistry | None = None,
    ) -> None:
        self._opened = opened
        self._catalog = catalog
        self._claims = claims
        self._engine: Engine | None = None
        self._opening = anyio.Lock()
        self._looked_at = -math.inf
        self._fault: ConnectError | None = None
        self._swept = False
        self._left: dict[str, set[str]] = {}

    def labels(self, server: str, mark: str) -> Mapping[str, str]:
        """What a container of a server is to be marked with."""
        return {CATALOG: self._catalog, GATEWAY: mark, SERVER: server}

    async def engine(self) -> Engine:
        """The engine. Whoever asks while somebody else looks for it is told the same.

        Raises:
            ConnectError: None answers, or the SDK is not installed; the text says what to do.
        """
        asked = anyio.current_time()
        async with self._opening:
            if self._looked_at < asked:
                self._fault = None
                try:
                    await self._look()
                except ConnectError as error:
                    self._fault = error
                self._looked_at = anyio.current_time()
            if self._fault is not None:
                raise type(self._fault)(str(self._fault)) from self._fault
            if self._engine is None:
                raise ConnectError("the connection to the engine was closed")
            return self._engine

    async def _look(self) -> None:
        if self._engine is not None:
            try:
                await self._engine.ping()
            except EngineError:
                self.close()
        if self._engine is None:
            self._engine = await self._opened()
        if not self._swept:
            await self._sweep(self._engine)
            self._swept = True

    def left(self, server: str) -> frozenset[str]:
        """The containers of a server that could not be removed, and are to be before it gets another one."""
        return frozenset(self._left.get(server, ()))

    def leave(self, server: str, container: str) -> None:
        """A container could not be removed."""
        self._left.setdefault(server, set()).add(container)

    def removed(self, server: str, container: str) -> None:
        """A container could be removed, at last or at once."""
        self._left.get(server, set()).discard(container)

    def close(self) -> None:
        """Close what is open to the engine."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    async def remove_orphans(self) -> None:
        """Remove what gateways of this catalog left that are gone; if none is, no engine is asked.

        Raises:
            ConnectError: As for `engine`.
        """
        if self._claims is not None and self._claims.gone():
            await self.engine()

    async def _sweep(self, engine: Engine) -> None:
        """Remove what is left of each gateway that is gone; what cannot be is left to the next one of us."""
        if self._claims is None:
            return
        for mark in self._claims.gone():
            found = await engine.labelled(f"{GATEWAY}={mark}")
            removed = [await self._removed(engine, one) for one in found]
            if all(removed):
                self._claims.forget(mark)

    @staticmethod
    async def _removed(engine: Engine, one: ContainerSummary) -> bool:
        server = one.labels.get(SERVER, "")
        log.warning("removing a container of a gateway that is gone", server=server)
        try:
            await engine.remove(one.identity)
        except EngineGoneError:
            raise
        except EngineError as error:
            log.warning("a container of a gateway that is gone stays", server=server, reason=str(error))
            return False
        return True
