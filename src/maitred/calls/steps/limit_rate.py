"""Limit how often a principal may call, and how many calls of it run at once.

It refuses and never waits, so a busy caller holds no connection. An answer from the cache counts as a call.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer

Enter = Callable[[Viewer], AbstractAsyncContextManager[object]]
"""Lets a call in, which counts as running until the context is left."""


class LimitRate:
    """`is_limited` says whether calls of a server count.

    `enter` raises if the principal has called too often, or has too much running.
    """

    def __init__(self, is_limited: Callable[[str], bool], enter: Enter) -> None:
        self._is_limited = is_limited
        self._enter = enter

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on.

        Raises:
            BusyError: The error says when to try again.
        """
        return self._counted(call, proceed) if self._is_limited(call.tool.server) else proceed(call)

    async def _counted(self, call: Call, proceed: Proceed) -> Answer:
        async with self._enter(call.viewer):
            return await proceed(call)
