"""Refuse calls of a team that used up its tokens of the day.

It refuses and never waits until the day is over. A call that consists of other calls passes: those count.
"""

from collections.abc import Awaitable, Callable

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer

Check = Callable[[Viewer], Awaitable[None]]


class CheckBudget:
    """`has_budget` says whether calls of a server count for one; `check` raises if nothing of it is left."""

    def __init__(self, has_budget: Callable[[str], bool], check: Check) -> None:
        self._has_budget = has_budget
        self._check = check

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on.

        Raises:
            BusyError: The error says when the next day begins.
        """
        return self._checked(call, proceed) if self._has_budget(call.tool.server) else proceed(call)

    async def _checked(self, call: Call, proceed: Proceed) -> Answer:
        await self._check(call.viewer)
        return await proceed(call)
