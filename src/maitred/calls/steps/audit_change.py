"""Record the begin of a call that may change something, before the gateway sends it to its server."""

from collections.abc import Awaitable

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class AuditChange:
    """A tool may change something unless its server marks it read-only."""

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on.

        Raises:
            AuditError: The trail cannot be written, so the call is not made.
        """
        return proceed(call) if call.tool.read_only else self._after_writing(call, proceed)

    async def _after_writing(self, call: Call, proceed: Proceed) -> Answer:
        await call.entry.begin()
        return await proceed(call)
