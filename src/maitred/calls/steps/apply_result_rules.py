"""Apply the rules for a tool to its answer: drop parts, show only what changed, stay within a budget."""

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from maitred.calls.answer import Answer
from maitred.calls.pipeline import Call, Proceed
from maitred.model.access import Viewer
from maitred.model.tasks import is_task
from maitred.model.tools import ToolKey


class Rules(Protocol):
    """Applies rules; see `maitred.calls.result_rules`."""

    def has_rule(self, key: ToolKey) -> bool:
        """Whether a rule is for the answers of a tool."""
        ...

    def apply(
        self, viewer: Viewer, key: ToolKey, arguments: Mapping[str, Any], result: dict[str, Any]
    ) -> dict[str, Any]:
        """The answer as an agent gets it; itself if no rule changes it."""
        ...


class ApplyResultRules:
    """Only answers that go to a model are changed: a chain, a person and a program get them whole."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __call__(self, call: Call, proceed: Proceed) -> Awaitable[Answer]:
        """Pass the call on, and apply the rules to its answer."""
        goes_to_model = call.shorten or (call.viewer.surface == "mcp" and call.chain is None)
        return self._shaped(call, proceed) if goes_to_model else proceed(call)

    async def _shaped(self, call: Call, proceed: Proceed) -> Answer:
        answer = await proceed(call)
        if not self._rules.has_rule(call.tool.key) or is_task(answer.wire):
            return answer
        if not call.shorten and "structuredContent" in answer.wire:
            return answer  # the client checks it against the schema that the tool was listed with
        arguments = call.request.arguments
        return answer.with_wire(self._rules.apply(call.viewer, call.tool.key, arguments, answer.wire))
