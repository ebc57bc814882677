"""Take over a configuration that changes while a gateway runs."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from maitred.config.load import load
from maitred.config.settings import Settings
from maitred.errors import ConfigError, StoreError

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.gateway import Gateway

log = structlog.get_logger(__name__)


async def follow_settings(gateway: "Gateway", settings: Settings) -> None:
    """Reload the configuration whenever its file, or that of overrides, changes; faulty ones are not used.

    The `http` section keeps what the gateway was started with: the address cannot change while it listens.
    """
    from watchfiles import awatch

    from maitred.gateway.menders import overrides_path

    source = settings.source.absolute()
    applied = settings
    while True:
        overrides = overrides_path(applied)
        folders = {path.parent for path in (source, overrides) if path and path.parent.is_dir()}
        async for changes in awatch(*folders, recursive=False, step=100):
            changed = {Path(path) for _, path in changes}
            if source in changed or overrides in changed:
                applied = await _reloaded(gateway, applied, again=overrides in changed)
            if overrides_path(applied) != overrides:
                break


async def _reloaded(gateway: "Gateway", applied: Settings, *, again: bool) -> Settings:
    """The settings in force after a change; `again` takes over what they refer to even if they are equal."""
    try:
        fresh = replace(load(applied.source), http=applied.http)
        if fresh == applied and not again:
            return applied
        await gateway.configure(fresh)
    except ConfigError as error:
        log.warning("the changed configuration is not used", reason=str(error))
    except StoreError as error:
        log.warning("the changed configuration is taken over only in part", reason=error.reason)
    else:
        log.info("configuration reloaded", path=str(applied.source))
        return fresh
    return applied
