"""The interface of a container engine, in values: its users do not depend on an SDK.

`engine` implements it for Docker and Podman. `Engines` shares one connection among all servers of a
gateway, and finds the engine again after it went away. Once, it also removes the containers that killed
gateways left.
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
"""Labels of containers: the catalog, the gateway of that catalog, and the server."""

_UNIX: Final = "unix://"


class EngineError(ConnectError):
    """An engine refused or failed a request; `missing` if the object of the request does not exist."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


class EngineGoneError(EngineError):
    """No engine answers."""


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """Identity of an engine. `socket` is the path of its Unix socket, empty if it is reached otherwise."""

    address: str
    name: str
    version: str
    api: str = ""
    socket: str = ""


@dataclass(frozen=True, kw_only=True)
class ImageInfo:
    """An image as an engine has it: its identity, which is a hash of its content, and its own settings.

    `volumes` are paths at which an engine would let the container write to the disk of the machine.
    """

    identity: str
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ContainerSpec:
    """A container to be made, of an image by its identity. Sizes are in bytes; see `Cage` for the limits.

    `in_memory` are the paths where it may write: each is kept in memory, and holds `disk` bytes.
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
    """The state of a container; `code` is its exit code after it ended, `pid` its first process."""

    running: bool
    code: int = 0
    out_of_memory: bool = False
    pid: int | None = None


@dataclass(frozen=True, kw_only=True)
class ContainerSummary:
    """A container that exists, with its labels."""

    identity: str
    labels: Mapping[str, str]


class Engine(Protocol):
    """Docker or Podman. Every method raises `EngineError`, and `EngineGoneError` if no engine answers."""

    info: EngineInfo

    def close(self) -> None:
        """Close the connections to the engine; containers stay as they are."""
        ...

    async def ping(self) -> None:
        """Check that the engine answers."""
        ...

    async def image(self, reference: str) -> ImageInfo | None:
        """The image that a reference or an identity means here; `None` if the engine does not have it."""
        ...

    def pull(self, reference: str, say: Callable[[str], None]) -> None:
        """Fetch an image; `say` gets a line for each step of each layer. Blocks until it is fetched."""
        ...

    def export(self, identity: str, path: Path) -> None:
        """Write an image into an archive. Blocks until it is written."""
        ...

    async def create(self, name: str, wanted: ContainerSpec) -> None:
        """Make a container; if the caller is cancelled, it waits a moment for the engine's answer.

        If the engine would not enforce the limits, that is an error, and no container remains.
        """
        ...

    async def attach(self, name: str) -> socket:
        """A socket to the standard streams of a container.

        Attach before the container starts, so that no output is lost.
        """
        ...

    async def start(self, name: str) -> None:
        """Start a container."""
        ...

    async def state(self, name: str) -> ContainerState | None:
        """The state of a container; `None` if it does not exist any more."""
        ...

    async def actions(self, name: str, since: float) -> frozenset[str]:
        """Events of a container that has ended, since a time in Unix seconds: `kill`, `stop`, `oom`, ..."""
        ...

    async def signal(self, name: str, number: int) -> None:
        """Send a signal to the first process of a container."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a container, even if it runs; a container that does not exist is no error."""
        ...

    async def labelled(self, label: str) -> Sequence[ContainerSummary]:
        """The containers that have a label, such as `a=b`, running or not."""
        ...


def candidates(chosen: str, environ: Mapping[str, str], home: Path) -> list[str]:
    """The addresses at which an engine may be.

    `chosen` is what the operator set. Without it `DOCKER_HOST` decides. Without both, all usual sockets
    that exist are returned, Docker's first.
    """
    if chosen or (chosen := environ.get("DOCKER_HOST", "")):
        return [chosen]
    paths = usual_sockets(environ.get("XDG_RUNTIME_DIR", ""), home)
    return [f"{_UNIX}{path}" for path in paths if is_socket(path)]


def usual_sockets(runtime: str, home: Path) -> list[str]:
    """The usual paths of engine sockets; `runtime` is the user's runtime folder, empty if there is none."""
    return [
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
        *([f"{runtime}/docker.sock", f"{runtime}/podman/podman.sock"] if runtime else []),
        str(home / ".docker/run/docker.sock"),
        str(home / ".local/share/containers/podman/machine/podman.sock"),
    ]


def is_socket(path: str) -> bool:
    """Whether the path is a Unix socket."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116  # all its errors mean the same here
    except OSError:
        return False


def socket_of(address: str) -> str:
    """The path of the Unix socket of an address; empty for any other address."""
    return address.removeprefix(_UNIX) if address.startswith(_UNIX) else ""


class Engines:
    """Finds the engine when it is first needed, and again when it does not answer any more.

    `opened` makes the connection. `claims` knows which gateways of this catalog left containers. Those
    are removed before the first caller gets the engine.
    """

    def __init__(
        self,
        opened: Callable[[], Awaitable[Engine]],
        *,
        catalog: str,
        claims: ClaimRegistry | None = None,
    ) -> None:
        self._open = opened
        self._catalog = catalog
        self._claims = claims
        self._engine: Engine | None = None
        self._opening = anyio.Lock()
        self._looked_at = -math.inf
        self._fault: ConnectError | None = None
        self._swept = False
        self._leftovers: dict[str, set[str]] = {}

    def labels(self, server: str, mark: str) -> Mapping[str, str]:
        """The labels for a container of a server."""
        return {CATALOG: self._catalog, GATEWAY: mark, SERVER: server}

    async def engine(self) -> Engine:
        """The engine. Concurrent callers share one search and its result.

        Raises:
            ConnectError: No engine answers, or the SDK is not installed; the text says what to do.
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
            self._engine = await self._open()
        if not self._swept:
            await self._sweep(self._engine)
            self._swept = True

    def left(self, server: str) -> frozenset[str]:
        """The containers of a server that could not be removed. They must go before it gets another one."""
        return frozenset(self._leftovers.get(server, ()))

    def leave(self, server: str, container: str) -> None:
        """Note that a container is not removed yet."""
        self._leftovers.setdefault(server, set()).add(container)

    def removed(self, server: str, container: str) -> None:
        """Note that a container was removed."""
        self._leftovers.get(server, set()).discard(container)

    def close(self) -> None:
        """Close the connections to the engine."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    async def remove_orphans(self) -> None:
        """Remove the containers of gateways of this catalog that are gone.

        If no gateway is gone, no engine is asked.

        Raises:
            ConnectError: As for `engine`.
        """
        if self._claims is not None and self._claims.gone():
            await self.engine()

    async def _sweep(self, engine: Engine) -> None:
        """Remove the containers of each gateway that is gone; the next gateway tries again with the rest."""
        if self._claims is None:
            return
        for mark in self._claims.gone():
            found = await engine.labelled(f"{GATEWAY}={mark}")
            removed = [await self._try_remove(engine, one) for one in found]
            if all(removed):
                self._claims.forget(mark)

    @staticmethod
    async def _try_remove(engine: Engine, one: ContainerSummary) -> bool:
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
