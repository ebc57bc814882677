"""Return memory that was freed to the system, after work that needed much of it for a while.

The allocator of glibc keeps what other threads freed, in case they need it again. Elsewhere nothing is done.
"""

import ctypes
from collections.abc import Callable
from functools import cache


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # not glibc
        return None
    return trim


def trim_heap() -> None:
    """Return free memory to the system; takes some milliseconds, so call it in a thread."""
    if (trim := _trim()) is not None:
        trim(0)
