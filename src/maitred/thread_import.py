"""Import modules that are slow to load in a thread, so that the event loop goes on meanwhile.

Python locks each module while it loads. Two threads that load parts of one package at once may wait for each
other, and then one of them sees a half-loaded module. So only one thread at a time imports here. The event
loop imports nothing of such a package before the thread has loaded it. A process forks only between two such
imports: in its child there is no thread that would end one, so the locks would be held for ever.
"""

import gc
import importlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from anyio import to_thread

_ONE_AT_A_TIME: Final = threading.RLock()
_loaded: Final[set[str]] = set()

if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_ONE_AT_A_TIME.acquire,
        after_in_parent=_ONE_AT_A_TIME.release,
        after_in_child=_ONE_AT_A_TIME.release,
    )


async def import_in_thread(*names: str) -> None:
    """Wait until modules are loaded; they are loaded once, however many callers wait.

    Raises:
        ImportError: A module is missing, or something that it needs.
    """
    if missing := [name for name in names if name not in _loaded]:
        await to_thread.run_sync(_import, missing, abandon_on_cancel=True)


def _import(names: Sequence[str]) -> None:
    with _ONE_AT_A_TIME, _without_collections():
        for name in names:
            importlib.import_module(name)
            _loaded.add(name)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Collect no garbage meanwhile: that would stop the event loop, and free nothing."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
