"""Errors leave as themselves, whatever task groups stand in their way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def single_error() -> AsyncIterator[None]:
    """Let a single error leave as itself: the task groups inside wrap what passes through them in groups."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaf: BaseException = group
        while isinstance(leaf, BaseExceptionGroup) and len(leaf.exceptions) == 1:
            leaf = leaf.exceptions[0]
        if isinstance(leaf, BaseExceptionGroup):
            raise
        raise leaf from leaf.__cause__
