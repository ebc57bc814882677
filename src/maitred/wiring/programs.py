"""What the programs of a gateway share: the jail for those that came by a manifest.

Nothing of it is loaded, and nothing is looked for, before a program is first started.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from maitred.config.settings import Settings
from maitred.model.servers import Cage

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.backends.base import Backend
    from maitred.backends.cages.jail import Jail
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
        self._jail: Jail | None = None

    def backend(self, spec: "ServerSpec") -> "Backend":
        """The backend of a server that is a program: one that came by a manifest runs in a jail."""
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

    def _shared(self) -> "Jail":
        if self._jail is None:
            from maitred.backends.cages.engines import socket_of
            from maitred.backends.cages.jail import Jail

            self._jail = Jail(
                mark=self._warden.mark,
                marks=self._warden.environment,
                others=self._others,
                sockets=[socket_of(self._settings.isolation.engine)],
            )
        return self._jail
