"""Makes what replaces the references in texts, with the rights of who wrote them.

The operator's own texts may run the commands that `secrets.commands` lists. Those of a server from a manifest
may run none, and use the secrets of that server alone.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from maitred.config.interpolate import resolver
from maitred.config.settings import Settings

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.model.servers import ServerSpec


def operator_resolver(settings: Settings) -> Callable[[str], str]:
    """What replaces the references in the operator's own texts."""
    return resolver(os.environ, commands=settings.secrets.commands)


def resolver_of(spec: "ServerSpec", settings: Settings) -> Callable[[str], str]:
    """What replaces the references in the texts of one server."""
    if spec.registered:
        return resolver(os.environ, owner=spec.name)
    return operator_resolver(settings)
