"""Fix the outcome of a call for the audit trail, before another step changes its answer."""

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class AuditOutcome:
    """`AuditCall` records the outcome, and that of a call with an error."""

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, then fix its outcome."""
        answer = await proceed(call)
        call.entry.answered(answer.wire, cached=answer.cached)
        return answer
