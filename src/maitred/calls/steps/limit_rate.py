"""Limit how often a principal may call, and how many calls of it run at once.

It refuses and never waits, so a busy caller holds no connection. A kept answer counts as a call.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer

Enter = Callable[[Viewer, str], AbstractContextManager[object]]
"""Lets a call of a server in, which counts as running until the context is left."""


class LimitRate:
    """`enter` raises if the principal has called too often, or has too much running."""

    def __init__(self, enter: Enter) -> None:
        self._enter = enter

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on.

        Raises:
            BusyError: The error says when to try again.
        """
        with self._enter(call.viewer, call.tool.server):
            return await proceed(call)
