"""Resolve the references of a server without holding up the others.

The keyring may wait for a person, and a command for its network. Then a thread resolves the references; a
server without such references is started as before, without one.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from maitred.backends.isolation.threads import in_thread
from maitred.config.interpolate import may_take_long

T = TypeVar("T")


async def resolve_aside(texts: Iterable[str], function: Callable[[], T]) -> T:
    """Return what a function makes of texts with references; a cancelled caller leaves its thread behind."""
    return await in_thread(function) if may_take_long(texts) else function()
