"""Write down that a call begins which may change something, before its server hears of it."""

from collections.abc import Awaitable

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class AuditChange:
    """A tool that its server does not call read-only may change something."""

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on.

        Raises:
            AuditError: It cannot be written down, so it is not made.
        """
        return proceed(call) if call.tool.read_only else self._after_writing(call, proceed)

    async def _after_writing(self, call: Call, proceed: Proceed) -> Answer:
        await call.entry.begin()
        return await proceed(call)
