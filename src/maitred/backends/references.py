"""Resolve the references of a server without holding up the others.

The keyring may wait for a person, and a command for its network. Then a thread resolves the references; a
server without such references is started as before, without one.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from maitred.backends.base import ConnectError
from maitred.backends.isolation.threads import in_thread
from maitred.config.interpolate import UnresolvedReferenceError, may_take_long

T = TypeVar("T")


async def resolve_aside(texts: Iterable[str], function: Callable[[], T]) -> T:
    """Return what a function makes of texts with references; a cancelled caller leaves its thread behind."""
    return await in_thread(function) if may_take_long(texts) else function()


def reference_error(error: UnresolvedReferenceError) -> ConnectError:
    """The error of a server whose configuration has a reference that cannot be replaced."""
    return ConnectError(
        f"its configuration refers to something missing: {error}",
        fault="variable_unset" if error.variable else "",
    )
