"""Takes a single error out of the exception groups that task groups wrap around it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def single_error() -> AsyncIterator[None]:
    """Raise a single error by itself, without the groups that task groups in the context wrap around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaf: BaseException = group
        while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
            leaf = leaf.exceptions[0]
        if isinstance(leaf, BaseExceptionGroup):
            raise
        raise leaf from leaf.__cause__
