"""What there is to cage registered servers with, looked for as a gateway does."""

import os
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from maitred.config.settings import Settings

if TYPE_CHECKING:  # the composition root imports lazily, so here the names alone are needed
    from maitred.model.cages import Aspect


async def look_at_cages(settings: Settings) -> "Sequence[Aspect]":
    """What works and what does not, tried out; takes a moment."""
    from anyio import to_thread

    from maitred.backends.base import ConnectError
    from maitred.backends.cages.available import of_engine, of_jail, of_scan
    from maitred.backends.cages.jail import Means, find_means
    from maitred.backends.cages.scan import PROGRAM
    from maitred.wiring.containers import open_engine

    choice = settings.isolation.jail
    means = Means()
    if choice != "none":
        means = await to_thread.run_sync(find_means, f"doctor-{os.getpid()}")
    try:
        engine = await open_engine(settings.isolation)
        engine.close()
        found = of_engine(engine.info)
    except ConnectError as error:
        found = of_engine(error)
    return [*of_jail(choice, means), found, of_scan(settings.isolation.scan, shutil.which(PROGRAM))]
