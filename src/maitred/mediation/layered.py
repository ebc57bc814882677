"""One transformer over another: what the upper one leaves as it was comes from the lower one.

A language model is told to leave out what needs no change, and may say of a tool nothing but its group. Such
an answer counts as one; without this it would keep the rules from the rest of the tool.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from maitred.mediation.base import EnhancedTool, RawTool, ToolContext, Transformer

_LAYERS: Final = (("name", "title", "description"), ("input_schema",))
"""What is taken together: a title of one and a description of the other would not fit."""


class Layered:
    """Answers where the upper transformer does, under its name and priority."""

    def __init__(self, upper: Transformer, lower: Transformer) -> None:
        self._upper = upper
        self._lower = lower

    @property
    def name(self) -> str:
        """That of the upper transformer."""
        return self._upper.name

    @property
    def priority(self) -> int:
        """That of the upper transformer."""
        return self._upper.priority

    async def transform(
        self, tools: Sequence[RawTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`."""
        above = await self._upper.transform(tools, context)
        if above is None or len(above) != len(tools) or not any(above):
            return above
        below = await self._lower.transform(tools, context) or [None] * len(tools)
        return [_over(*layers) for layers in zip(tools, above, below, strict=True)]


def _over(tool: RawTool, above: EnhancedTool | None, below: EnhancedTool | None) -> EnhancedTool | None:
    if above is None or below is None:
        return above
    silent = [
        name
        for names in _LAYERS
        for name in names
        if all(getattr(above, one) == getattr(tool, one) for one in names)
    ]
    kept: dict[str, Any] = {name: getattr(below, name) for name in silent}
    return replace(above, **kept)
