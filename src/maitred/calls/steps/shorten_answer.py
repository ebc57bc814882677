"""Cut an answer that is longer than a model should read."""

from collections.abc import Awaitable, Callable
from typing import Any

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class ShortenAnswer:
    """`shorten` cuts a result, and stores the whole result for the principal."""

    def __init__(self, shorten: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
        self._shorten = shorten

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on, and cut its answer if the caller wants that."""
        return self._shortened(call, proceed) if call.shorten else proceed(call)

    async def _shortened(self, call: Call, proceed: Proceed) -> Answer:
        answer = await proceed(call)
        return answer.with_wire(self._shorten(call.viewer.principal, answer.wire))
