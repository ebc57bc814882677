"""The hook of a program that embeds maitred, as a transformer; it is not trusted more than others.

Such a hook knows nothing of mediators. It can do what any transformer can: no tool is lost, swapped or given
the name of another.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from maitred.mediation.base import EnhancedTool, Middleware, RawTool, ToolContext

_RAW_FIELDS = tuple(field.name for field in fields(RawTool))


class Hook:
    """Puts tools through a function; what it gives back as it was counts as no answer.

    Each tool stays in its place, under its name or, as an `EnhancedTool`, with that as `original_name`.
    """

    name = "middleware"
    priority = 0

    def __init__(self, middleware: Middleware) -> None:
        self._middleware = middleware

    async def transform(
        self, tools: Sequence[RawTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`."""
        del context
        answers: Sequence[Any] = await self._middleware(tools)
        if len(answers) != len(tools):
            return answers
        return [self._answer(tool, answer) for tool, answer in zip(tools, answers, strict=True)]

    def _answer(self, tool: RawTool, answer: Any) -> Any:
        if answer == tool:
            return None
        if isinstance(answer, EnhancedTool):
            return replace(answer, enhanced_by=self.name)
        if isinstance(answer, RawTool) and isinstance(tool, EnhancedTool) and answer.name == tool.name:
            changed = {name: getattr(answer, name) for name in _RAW_FIELDS}
            return replace(tool, **changed, enhanced_by=self.name)
        return answer
