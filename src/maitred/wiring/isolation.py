"""Makes the backends of servers that run on this machine: programs, in a jail if registered, and containers.

`Containers` and `Programs` have what the backends of one gateway share: the engine with its images, and the
jail. They load it when the first server needs it, the SDK of the engine last. `look_at_cages` reports to
`maitred doctor` how this machine can isolate servers, and `look_at_browsers` which browsers it can start.
"""

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from maitred.config.load import catalog_path
from maitred.config.settings import Isolation, Settings
from maitred.extras import install_command
from maitred.model.browsers import BrowserOptions
from maitred.model.servers import Cage
from maitred.wiring.references import resolver_of
from maitred.wiring.storage import database_of

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.backends.base import Backend
    from maitred.backends.isolation.engine_api import Engine, Engines
    from maitred.backends.isolation.images import Images
    from maitred.backends.isolation.jail import ProgramJail
    from maitred.backends.isolation.scan import Trivy
    from maitred.backends.process import Warden
    from maitred.model.browsers import BrowserReport
    from maitred.model.servers import MachineAspect, ServerSpec


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

        engines, images = self._engines_and_images()
        cage = replace(spec.cage or Cage(), disk=self._settings.isolation.disk)
        backend = ContainerBackend(
            replace(spec, cage=cage),
            resolve=resolver_of(spec, self._settings),
            limits=self._settings.limits,
            warden=self._warden,
            engines=engines,
            images=images,
            others=self.others,
        )
        return self.beside(backend)

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
        await self._engines_and_images()[0].remove_orphans()

    def _engines_and_images(self) -> "tuple[Engines, Images]":
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

        jailed = spec.registered and self._settings.isolation.jail != "none"
        cage = replace(spec.cage or Cage(), disk=self._settings.isolation.disk) if jailed else None
        return StdioBackend(
            replace(spec, cage=cage),
            resolve=resolver_of(spec, self._settings),
            limits=self._settings.limits,
            warden=self._warden,
            jail=self._program_jail() if jailed else None,
        )

    def _program_jail(self) -> "ProgramJail":
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


async def look_at_browsers(settings: Settings) -> "Sequence[BrowserReport]":
    """Start the browser of each server that drives one, and report on it.

    Without any server, it is the browser that one would use, which is reported without a server's name.
    """
    driving = {name: spec.browser for name, spec in settings.servers.items() if spec.browser and spec.usable}
    if not settings.servers:
        driving = {"": BrowserOptions(sandbox=sys.platform == "win32" or os.geteuid() != 0)}
    if not driving:
        return []
    from maitred.backends.process import Warden
    from maitred.browser.report import look_at_browser

    processes = Warden()
    try:
        return [await look_at_browser(name, options, processes) for name, options in driving.items()]
    finally:
        processes.close()
