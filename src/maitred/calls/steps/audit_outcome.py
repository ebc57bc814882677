"""Record the outcome of a call, before another step changes its answer."""

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class AuditOutcome:
    """Ends the entry of an answered call. `AuditCall` ends that of a call with an error."""

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, then record its outcome."""
        answer = await proceed(call)
        await call.entry.ended(answer.wire, cached=answer.cached)
        return answer
