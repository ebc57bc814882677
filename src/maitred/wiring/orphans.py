"""What gateways of the same catalog left that were killed together with their wardens, and how it is ended.

Only a gateway that is there to stay looks for it: in the background, but before its first server is started,
so that no server runs twice.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from maitred.wiring.containers import Containers

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.gateway import Gateway

log = structlog.get_logger(__name__)

_SOON_S: Final = 2.0


def ending_processes(catalog: Path) -> Callable[[], Awaitable[None]]:
    """Ends processes, and removes control groups, of gateways of a catalog that are gone."""

    def end() -> tuple[int, int]:
        from maitred.backends.cages.cgroups import sweep
        from maitred.backends.claims import Claims
        from maitred.backends.marks import end_orphans, orphans

        claims = Claims(catalog, "processes")
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
    """Remove their containers, if a server in a container is configured; else no engine is asked.

    The first start of such a server does the same before; this is for when none is started soon.
    """
    from maitred.backends.base import ConnectError

    await anyio.sleep(_SOON_S)  # the engine's SDK is slow to load, and clients wait for their first answers
    if any(spec.transport == "container" and spec.usable for spec in gateway.settings.servers.values()):
        try:
            await containers.remove_orphans()
        except ConnectError as error:
            log.info("no engine was asked for containers that are left", reason=str(error))
