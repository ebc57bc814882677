"""Write down what came of a call, before anything is done to its answer."""

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class AuditOutcome:
    """Ends the entry of a call that was answered; `AuditCall` ends that of a call with an error."""

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, then write its outcome down."""
        answer = await proceed(call)
        await call.entry.ended(answer.wire, cached=answer.cached)
        return answer
