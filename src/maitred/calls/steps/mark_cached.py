"""Mark an answer from the cache, for clients and for models."""

from maitred.calls.answer import Answer
from maitred.calls.cache import mark_cached
from maitred.calls.pipeline import Call, Proceed


class MarkCached:
    """Marks answers that `UseCache` took from the cache. The mark is the last text of an answer."""

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, and mark its answer."""
        answer = await proceed(call)
        return answer.with_wire(mark_cached(answer.wire)) if answer.cached else answer
