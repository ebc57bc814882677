"""Write down that a call begins which may change something, before its server hears of it."""

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class AuditChange:
    """A tool that its server does not call read-only may change something."""

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on.

        Raises:
            AuditError: It cannot be written down, so it is not made.
        """
        if not call.tool.read_only:
            await call.entry.begin()
        return await proceed(call)
