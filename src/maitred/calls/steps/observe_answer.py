"""Note what the answers of a tool look like, so that the menu can say what it returns."""

from collections.abc import Callable, Mapping
from typing import Any

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.tools import Tool

Observe = Callable[[Tool, Mapping[str, Any], Mapping[str, Any]], None]
"""Called with `(tool, arguments, result)` after a call that succeeded; must not block or raise."""


class ObserveAnswer:
    """Calls `observe` with each answer that is no error."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe

    async def __call__(self, call: Call, proceed: Proceed) -> Answer:
        """Pass the call on, and look at its answer."""
        answer = await proceed(call)
        if not answer.is_error:
            self._observe(call.tool, call.arguments, answer.wire)
        return answer
