"""Cut an answer that is longer than a model should read."""

from collections.abc import Callable
from typing import Any

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed


class ShortenAnswer:
    """`shorten` cuts a result, and keeps the whole of it for the principal."""

    def __init__(self, shorten: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
        self._shorten = shorten

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, and cut its answer if the caller wants that."""
        answer = await proceed(call)
        if not call.shorten:
            return answer
        return answer.with_wire(self._shorten(call.viewer.principal, answer.wire))
