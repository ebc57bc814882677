"""Ends what killed gateways of the same catalog left: processes, control groups and containers.

A gateway that serves ends processes before its first server starts, so that no server runs twice.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from maitred.model.transports import reach_of
from maitred.wiring.isolation import Containers

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
