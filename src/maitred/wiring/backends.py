"""Makes a backend for each transport, with logins and the guard of addresses.

`Containers` and `Programs` have what the backends of one gateway share: the engine with its images, and the
jail. They load it when the first server needs it, the SDK of the engine last. A gateway that serves also ends
what killed gateways of the same catalog left. It does so before its first server starts, so that no server
runs twice. `look_at_cages` reports to `maitred doctor` how this machine can isolate servers.
"""

import importlib
import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import anyio
import structlog

from maitred.config.load import catalog_path
from maitred.config.settings import Isolation, Settings
from maitred.extras import install_command
from maitred.model.servers import Cage
from maitred.model.transports import UnknownTransportError, reach_of, transport_kind
from maitred.wiring.storage import database_of, key_path

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.backends.base import Backend, Listener
    from maitred.backends.isolation.engine_api import Engine, Engines
    from maitred.backends.isolation.images import Images
    from maitred.backends.isolation.scan import Trivy
    from maitred.backends.process import Warden
    from maitred.model.servers import ServerSpec


class Containers:
    """Makes the backends of containers."""

    def __init__(self, settings: Settings, warden: "Warden") -> None:
        self._settings = settings
        self._warden = warden
        self._shared: tuple[Engines, Images] | None = None
        self._scanner: Trivy | None = None
        self._all: WeakSet[Backend] = WeakSet()

    def backend(self, spec: "ServerSpec") -> "Backend":
        """The backend of a server that is an image."""
        from maitred.backends.isolation.container import ContainerBackend
        from maitred.config.interpolate import resolver

        engines, images = self._made()
        cage = replace(spec.cage or Cage(), disk=self._settings.isolation.disk)
        made = ContainerBackend(
            replace(spec, cage=cage),
            resolve=resolver(os.environ),
            limits=self._settings.limits,
            warden=self._warden,
            engines=engines,
            images=images,
            others=self.others,
        )
        return self.beside(made)

    def beside(self, backend: "Backend") -> "Backend":
        """Count a backend, as long as it exists, among those that run besides containers."""
        self._all.add(backend)
        return backend

    def others(self) -> "list[ServerSpec]":
        """The servers of all backends that still exist."""
        return [one.spec for one in self._all]

    def close(self) -> None:
        """Close the connections to the engine, and end the scanner of images."""
        if self._shared is not None:
            self._shared[0].close()
        if self._scanner is not None:
            self._scanner.close()

    async def remove_orphans(self) -> None:
        """Remove the containers that killed gateways of this catalog left.

        Raises:
            ConnectError: No engine answers.
        """
        await self._made()[0].remove_orphans()

    def _made(self) -> "tuple[Engines, Images]":
        if self._shared is None:
            from maitred.admission.image_gate import ImageGate
            from maitred.admission.registry import Registry
            from maitred.backends.isolation.images import Images
            from maitred.backends.isolation.scan import Trivy

            own = self._settings.isolation
            gate = ImageGate(Registry(database_of(self._settings)))
            self._scanner = Trivy(self._warden.environment)
            images = Images(admit=gate.admit, scanner=self._scanner, pull=own.pull, scan=own.scan)
            engines = make_engines(own, self._warden.mark, path=catalog_path(self._settings))
            self._shared = (engines, images)
        return self._shared


def make_engines(isolation: Isolation, mark: str, *, path: Path | None = None) -> "Engines":
    """The finder of the engine, for this gateway. With the catalog's `path` it removes orphans."""
    from maitred.backends.isolation.engine_api import Engines
    from maitred.backends.orphans import ClaimRegistry

    claims = ClaimRegistry(path, "containers") if path is not None else None
    return Engines(lambda: open_engine(isolation), catalog=mark.partition("-")[0], claims=claims)


async def open_engine(isolation: Isolation) -> "Engine":
    """The engine that the settings name, or the first that answers.

    Raises:
        ConnectError: No engine answers, or the SDK is not installed. The text says what to do.
    """
    from maitred.backends.base import ConnectError
    from maitred.backends.isolation.engine_api import candidates
    from maitred.backends.isolation.threads import in_thread

    try:
        await in_thread(lambda: importlib.import_module("maitred.backends.isolation.engine"))
    except ModuleNotFoundError as error:
        hint = f"`{install_command('containers')}` installs it"
        raise ConnectError(f"containers need the SDK of their engine, which is missing; {hint}") from error
    from maitred.backends.isolation.engine import open_engine as opened

    return await opened(candidates(isolation.engine, os.environ, Path.home()))


if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.gateway import Gateway

log = structlog.get_logger(__name__)

_SOON_S: Final = 2.0


def ending_processes(catalog: Path) -> Callable[[], Awaitable[None]]:
    """Ends processes, and removes control groups, of gateways of a catalog that are gone."""

    def end() -> tuple[int, int]:
        from maitred.backends.isolation.cgroups import sweep
        from maitred.backends.orphans import ClaimRegistry, end_orphans, orphans

        claims = ClaimRegistry(catalog, "processes")
        if not (gone := claims.gone()):
            return 0, 0
        ended, groups = end_orphans(gone), sweep(lambda mark: mark in gone)
        if not orphans(gone):
            for mark in gone:
                claims.forget(mark)
        return ended, len(groups)

    async def run() -> None:
        processes, groups = await anyio.to_thread.run_sync(end)
        if processes or groups:
            said = "ended what a gateway that was killed had left"
            log.warning(said, processes=processes, control_groups=groups)

    return run


async def remove_containers(gateway: "Gateway", containers: Containers) -> None:
    """Remove the containers of killed gateways, if a server in a container is configured.

    Otherwise no engine is asked. The first start of such a server does the same, but may come much later.
    """
    from maitred.backends.base import ConnectError

    await anyio.sleep(_SOON_S)  # the engine's SDK is slow to load, and clients wait for their first answers
    if any(reach_of(spec.transport) == "image" and spec.usable for spec in gateway.settings.servers.values()):
        try:
            await containers.remove_orphans()
        except ConnectError as error:
            log.info("no engine was asked for containers that are left", reason=str(error))


if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.backends.base import Backend
    from maitred.backends.isolation.jail import ProgramJail
    from maitred.backends.process import Warden
    from maitred.model.servers import ServerSpec


class Programs:
    """Makes the backends of programs; `others` are the servers that run besides them."""

    def __init__(
        self, settings: Settings, warden: "Warden", others: "Callable[[], Collection[ServerSpec]]" = tuple
    ) -> None:
        self._settings = settings
        self._warden = warden
        self._others = others
        self._jail: ProgramJail | None = None

    def backend(self, spec: "ServerSpec") -> "Backend":
        """The backend of a server that is a program. A registered program runs in a jail."""
        from maitred.backends.stdio import StdioBackend
        from maitred.config.interpolate import resolver

        jailed = spec.registered and self._settings.isolation.jail != "none"
        cage = replace(spec.cage or Cage(), disk=self._settings.isolation.disk) if jailed else None
        return StdioBackend(
            replace(spec, cage=cage),
            resolve=resolver(os.environ),
            limits=self._settings.limits,
            warden=self._warden,
            jail=self._shared() if jailed else None,
        )

    def _shared(self) -> "ProgramJail":
        if self._jail is None:
            from maitred.backends.isolation.engine_api import socket_of
            from maitred.backends.isolation.jail import ProgramJail

            self._jail = ProgramJail(
                mark=self._warden.mark,
                marks=self._warden.environment,
                others=self._others,
                sockets=[socket_of(self._settings.isolation.engine)],
            )
        return self._jail


if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from mcp.server import Server

    from maitred.admission.guarded_transport import GuardedTransport
    from maitred.backends.base import Backend
    from maitred.backends.oauth.client import LoginTarget
    from maitred.backends.pool import BackendPool
    from maitred.model.servers import ServerSpec


def make_pool(
    settings: Settings, in_process: "Mapping[str, Server]", *, listener: "Listener", serves: bool
) -> "tuple[BackendPool, Containers]":
    """All backends of a gateway. The warden ends their processes even if the gateway is killed.

    If it `serves`, it keeps servers with `start: always` running, and first ends what killed gateways left.
    """
    from maitred.backends.orphans import catalog_of
    from maitred.backends.pool import BackendPool
    from maitred.backends.process import Warden

    catalog = catalog_path(settings)
    warden = Warden(catalog_of(catalog), path=catalog)
    containers = Containers(settings, warden)
    programs = Programs(settings, warden, containers.others)

    parts = BackendParts(settings=settings, in_process=in_process, containers=containers, programs=programs)

    def close() -> None:
        containers.close()
        warden.close()

    pool = BackendPool(
        lambda spec: make_backend(spec, parts),
        max_starting=settings.limits.max_starting,
        on_close=close,
        listener=listener,
        supervision=settings.supervision,
        keeps_running=serves,
        prepare=ending_processes(catalog) if serves else None,
    )
    return pool, containers


@dataclass(frozen=True, kw_only=True)
class BackendParts:
    """The parts of the backends of one gateway; `in_process` are SDK servers of this process, by name."""

    settings: Settings
    in_process: "Mapping[str, Server]"
    containers: Containers
    programs: Programs


def make_backend(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    """The backend of a specification, by its transport.

    Raises:
        ConnectError: The transport is not in the table, or `MAKERS` has no entry for it.
    """
    from maitred.backends.base import ConnectError

    try:
        kind = transport_kind(spec.transport)
    except UnknownTransportError as error:
        raise ConnectError(str(error)) from error
    if kind.name not in MAKERS:
        raise ConnectError(f"this gateway has no backend for its transport {kind.name!r}")
    return MAKERS[kind.name](spec, parts)


def _make_stdio(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    return parts.containers.beside(parts.programs.backend(spec))


def _make_container(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    return parts.containers.backend(spec)


def _make_memory(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    from maitred.backends.memory import MemoryBackend

    return MemoryBackend(spec, parts.in_process[spec.name], limits=parts.settings.limits)


def _make_saved(spec: "ServerSpec", _: BackendParts) -> "Backend":
    from maitred.chains.saved_backend import SavedBackend

    return SavedBackend(spec)


def _make_http(spec: "ServerSpec", parts: BackendParts) -> "Backend":
    """The backend of a server on HTTP. A registered server cannot lead to a forbidden address."""
    from maitred.backends.http import HttpBackend
    from maitred.config.interpolate import resolver

    tokens = None
    if spec.auth is not None:
        from maitred.backends.oauth.tokens import OAuthTokens

        tokens = OAuthTokens(make_access(spec, parts.settings))
    return HttpBackend(
        spec,
        resolve=resolver(os.environ),
        limits=parts.settings.limits,
        make_transport=partial(make_guarded, spec) if spec.registered else None,
        tokens=tokens,
    )


MAKERS: "Final[dict[str, Callable[[ServerSpec, BackendParts], Backend]]]" = {
    "stdio": _make_stdio,
    "http": _make_http,
    "sse": _make_http,
    "container": _make_container,
    "memory": _make_memory,
    "chain": _make_saved,
}
"""The function that makes the backends of each transport of `maitred.model.transports`.

For a registered server, a backend of the reach `network` connects only to what
`maitred.admission.address_guard.allowed_addresses` returns, with the networks of `spec.exempted`.
A backend on httpx gets this from `make_guarded`.
"""


def make_guarded(spec: "ServerSpec") -> "GuardedTransport":
    """A transport that refuses addresses which a server may not lead to."""
    from maitred.admission.addresses import networks
    from maitred.admission.guarded_transport import GuardedTransport

    return GuardedTransport(exempted=networks(spec.exempted))


def make_access(spec: "ServerSpec", settings: Settings) -> "LoginTarget":
    """What a login to a server, or a logout, needs."""
    from maitred.backends.oauth.client import LoginTarget
    from maitred.backends.oauth.vault import Vault
    from maitred.config.interpolate import resolver

    return LoginTarget(
        spec=spec,
        resolve=resolver(os.environ),
        store=Vault(database_of(settings), key_path(settings), key=os.environ.get("MAITRED_KEY", "")),
        make_transport=partial(make_guarded, spec),
    )


if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.model.servers import MachineAspect


async def look_at_cages(settings: Settings) -> "Sequence[MachineAspect]":
    """Try what isolates servers on this machine, and report what works. Takes a moment."""
    from anyio import to_thread

    from maitred.backends.base import ConnectError
    from maitred.backends.isolation.jail import JailMeans, find_means
    from maitred.backends.isolation.report import of_engine, of_jail, of_scan
    from maitred.backends.isolation.scan import PROGRAM

    choice = settings.isolation.jail
    means = JailMeans()
    if choice != "none":
        means = await to_thread.run_sync(find_means, f"doctor-{os.getpid()}")
    try:
        engine = await open_engine(settings.isolation)
        engine.close()
        found = of_engine(engine.info)
    except ConnectError as error:
        found = of_engine(error)
    return [*of_jail(choice, means), found, of_scan(settings.isolation.scan, shutil.which(PROGRAM))]
