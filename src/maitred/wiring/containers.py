"""What the containers of a gateway share: the engine, their images, and who is asked whether these may run.

Nothing of it is loaded before a container is first wanted, and the SDK of the engine last of all.
"""

import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from maitred.config.load import catalog_path
from maitred.config.settings import Isolation, Settings
from maitred.extras import install_command
from maitred.model.servers import Cage

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.backends.base import Backend
    from maitred.backends.cages.engines import Engine, Engines
    from maitred.backends.cages.images import Images
    from maitred.backends.cages.scan import Trivy
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
        from maitred.backends.cages.container import ContainerBackend
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
        """A backend, for as long as it is there, among those that run besides containers."""
        self._all.add(backend)
        return backend

    def others(self) -> "list[ServerSpec]":
        """The servers that were made or put beside containers, and are there still."""
        return [one.spec for one in self._all]

    def close(self) -> None:
        """Let go of the engine, and end what looks at images, if there are any."""
        if self._shared is not None:
            self._shared[0].close()
        if self._scanner is not None:
            self._scanner.close()

    async def remove_orphans(self) -> None:
        """Remove what gateways of this catalog left that are gone.

        Raises:
            ConnectError: No engine answers.
        """
        await self._made()[0].remove_orphans()

    def _made(self) -> "tuple[Engines, Images]":
        if self._shared is None:
            from maitred.backends.cages.images import Images
            from maitred.backends.cages.scan import Trivy
            from maitred.catalog.registry import Registry
            from maitred.gateway.images import ImageGate

            own = self._settings.isolation
            gate = ImageGate(Registry(catalog_path(self._settings)))
            self._scanner = Trivy(self._warden.environment)
            images = Images(admit=gate.admit, scanner=self._scanner, pull=own.pull, scan=own.scan)
            engines = make_engines(own, self._warden.mark, path=catalog_path(self._settings))
            self._shared = (engines, images)
        return self._shared


def make_engines(isolation: Isolation, mark: str, *, path: Path | None = None) -> "Engines":
    """What finds the engine, by the mark of this gateway; with the catalog's path it removes orphans."""
    from maitred.backends.cages.engines import Engines
    from maitred.backends.claims import Claims

    claims = Claims(path, "containers") if path is not None else None
    return Engines(lambda: open_engine(isolation), catalog=mark.partition("-")[0], claims=claims)


async def open_engine(isolation: Isolation) -> "Engine":
    """The engine that the settings name, or the first that answers.

    Raises:
        ConnectError: None does, or the SDK is not installed; the text says what to do.
    """
    from maitred.backends.base import ConnectError
    from maitred.backends.cages.engines import candidates
    from maitred.backends.cages.errands import in_thread

    try:
        await in_thread(lambda: importlib.import_module("maitred.backends.cages.engine"))
    except ModuleNotFoundError as error:
        hint = f"`{install_command('containers')}` installs it"
        raise ConnectError(f"containers need the SDK of their engine, which is missing; {hint}") from error
    from maitred.backends.cages.engine import open_engine as opened

    return await opened(candidates(isolation.engine, os.environ, Path.home()))
