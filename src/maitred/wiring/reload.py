"""Take over a configuration that changes while a gateway runs.

`watchfiles` waits in a thread, and a cancelled task would wait up to five seconds for that thread. The thread
checks a stop event every few milliseconds, so `until_cancelled` sets that event at once.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import structlog

from maitred.background import Background
from maitred.config.load import load
from maitred.config.settings import Settings
from maitred.errors import ConfigError, StoreError
from maitred.model.access import LOCAL_USER


def watchable(folder: Path) -> bool:
    """Whether a folder can be watched: the watcher takes no name that is not UTF-8."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        return False
    return folder.is_dir()


@asynccontextmanager
async def until_cancelled() -> AsyncIterator[anyio.Event]:
    """An event that is set as soon as the task is cancelled; to be given to `awatch` as its `stop_event`."""
    cancelled = anyio.Event()

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with Background() as background:
        background.start(wait)
        yield cancelled


if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.gateway import Gateway

log = structlog.get_logger(__name__)


async def follow_settings(gateway: "Gateway", settings: Settings) -> None:
    """Reload the configuration when its file, or that of overrides, changes. A faulty one is not used.

    The `http` section keeps what the gateway was started with: the address cannot change while it listens.
    """
    from watchfiles import awatch

    from maitred.mediation.factory import overrides_path

    source = settings.source.absolute()
    applied, real = settings, source.resolve()  # the target of a link may be written, or the link changed
    async with until_cancelled() as stop:
        while not stop.is_set():
            while (now := source.resolve()) != real:  # the link changed since the last read
                real = now
                applied = await _reloaded(gateway, applied, again=False)
            overrides = overrides_path(applied)
            folders = {path.parent for path in (source, real, overrides) if path and watchable(path.parent)}
            if not folders:
                log.warning("changes of the configuration go unnoticed, since its folder cannot be watched")
                return
            async for changes in awatch(*folders, recursive=False, step=100, stop_event=stop):
                if source.resolve() != real:
                    break
                changed = {Path(path) for _, path in changes}
                if changed & {source, real, overrides}:
                    applied = await _reloaded(gateway, applied, again=overrides in changed)
                if overrides_path(applied) != overrides:
                    break


async def _reloaded(gateway: "Gateway", applied: Settings, *, again: bool) -> Settings:
    """The settings in force after a change. With `again`, equal settings are applied, too."""
    try:
        fresh = replace(load(applied.source), http=applied.http)
        if fresh == applied and not again:
            return applied
        await gateway.configure(fresh, viewer=LOCAL_USER)  # who can write the file may configure
    except ConfigError as error:
        log.warning("the changed configuration is not used", reason=str(error))
    except StoreError as error:
        log.warning("the changed configuration is taken over only in part", reason=error.reason)
    else:
        log.info("configuration reloaded", path=str(applied.source))
        return fresh
    return applied
