"""Tell clients and models of an answer that it was kept from an earlier call."""

from maitred.calls.answer import Answer
from maitred.calls.cache import mark_cached
from maitred.calls.pipeline import Call, Proceed


class MarkCached:
    """Marks what `UseCache` took from the cache. The mark comes after every other text of an answer."""

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, and mark its answer."""
        answer = await proceed(call)
        return answer.with_wire(mark_cached(answer.wire)) if answer.cached else answer
