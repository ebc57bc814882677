"""Whether the catalog can be written, for the operator of the gateway; and what waited for that.

The gateway serves what it knows without writing. Usage and the audit trail wait in memory. This module
repeats work that no other code would repeat, such as storing the tools of a server that could not be stored.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import structlog

from maitred.catalog.live import LiveCatalog
from maitred.errors import MaitredError

log = structlog.get_logger(__name__)

_LOOK_S: Final = 2.0


class Storage:
    """Knows whether the catalog can be written; `on_mended` is called when it can be written again."""

    def __init__(self, catalog: LiveCatalog, on_mended: Callable[[], Awaitable[None]]) -> None:
        self._catalog = catalog
        self._on_mended = on_mended

    async def status(self) -> dict[str, Any]:
        """Where the catalog is, and why it cannot be written now; empty if it can be. It is tried.

        `path` is a file, or the address of a database without its password.
        """
        return {"path": self._catalog.name, "fault": await self._catalog.check()}

    async def keep_up(self) -> None:
        """After a failed write, try again and again; never returns."""
        seen = 0
        while True:
            await anyio.sleep(_LOOK_S)
            if self._catalog.faults == seen:
                continue
            while await self._catalog.check():  # noqa: ASYNC110  # no disk tells when there is room again
                await anyio.sleep(_LOOK_S)
            seen = self._catalog.faults
            log.warning("the catalog can be written again", path=self._catalog.name)
            try:
                await self._on_mended()
            except MaitredError as error:
                log.warning("what waited for the catalog is not taken up yet", reason=str(error))
