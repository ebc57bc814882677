"""The mediator: asks its transformers in order of priority until each tool has an answer.

Every tool comes out once, in its place and callable, whatever a transformer does: an invalid answer is logged
and ignored. Mediation runs when the tools of a source are read, never when they are listed. The module also
has two transformers that contain others: `FunctionTransformer` wraps the hook of an embedding program, and
`LayeredTransformer` lays one transformer over another.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from typing import Any, Final

import structlog

from maitred.mediation.base import EnhancedTool, Middleware, SourceTool, ToolContext, Transformer

log = structlog.get_logger(__name__)

UNCATEGORIZED = "uncategorized"
"""The category of tools without one."""

_RAW_FIELDS = tuple(field.name for field in fields(SourceTool))


class Mediator:
    """Asks transformers about tools."""

    def __init__(self) -> None:
        self._transformers: list[Transformer] = []

    def use(self, transformer: Transformer) -> None:
        """Add a transformer; with equal priority, the one that was added first comes first."""
        self._transformers.append(transformer)
        self._transformers.sort(key=lambda entry: -entry.priority)

    async def enhance(self, tools: Sequence[SourceTool], context: ToolContext) -> list[EnhancedTool]:
        """One tool for each given one, in the same order.

        The first transformer that answers for a tool wins; later ones get only the others. A tool without an
        answer stays as it is, enhanced by "none" with confidence 0. A new name that another tool already has
        is undone.
        """
        by_place: dict[int, EnhancedTool] = {}
        for transformer in self._transformers:
            open_places = [at for at in range(len(tools)) if at not in by_place]
            if not open_places:
                break
            answers = await _ask(transformer, [tools[at] for at in open_places], context)
            by_place |= {
                at: answer for at, answer in zip(open_places, answers, strict=True) if answer is not None
            }
        enhanced_tools = [by_place.get(at) or _as_it_is(tool) for at, tool in enumerate(tools)]
        return _undo_duplicates(enhanced_tools, context)

    def filter(
        self,
        tools: Sequence[EnhancedTool],
        *,
        categories: Collection[str] | None = None,
        min_confidence: float = 0.0,
        name_pattern: str | re.Pattern[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[EnhancedTool]:
        """The tools that match all criteria, in order.

        Args:
            tools: The tools to filter.
            categories: Only these; "uncategorized" means tools without one. `None` means all.
            min_confidence: Only tools with at least this confidence, from 0 to 1.
            name_pattern: A regular expression that must match somewhere in the name.
            exclude: Names of tools to leave out, new or original.
        """
        pattern = re.compile(name_pattern or "")
        return [
            tool
            for tool in tools
            if tool.confidence >= min_confidence
            and (categories is None or _category(tool) in categories)
            and pattern.search(tool.name)
            and tool.name not in exclude
            and tool.original_name not in exclude
        ]

    def categorize(self, tools: Sequence[EnhancedTool]) -> dict[str, list[EnhancedTool]]:
        """The tools by category, both in order of appearance; those without one under "uncategorized"."""
        found: dict[str, list[EnhancedTool]] = {}
        for tool in tools:
            found.setdefault(_category(tool), []).append(tool)
        return found


def middleware(mediator: Mediator, context: ToolContext) -> Middleware:
    """A mediator as a plain hook, tools -> tools, for a program that passes tools on."""

    async def enhance(tools: Sequence[SourceTool]) -> Sequence[SourceTool]:
        return await mediator.enhance(tools, context)

    return enhance


def _category(tool: EnhancedTool) -> str:
    return tool.category or UNCATEGORIZED


def _as_it_is(tool: SourceTool) -> EnhancedTool:
    if isinstance(tool, EnhancedTool):  # another mediator's result stays
        return replace(tool, original_name=tool.name)
    own = {name: getattr(tool, name) for name in _RAW_FIELDS}
    return EnhancedTool(**own, original_name=tool.name, enhanced_by="none")


async def _ask(
    transformer: Transformer, tools: Sequence[SourceTool], context: ToolContext
) -> Sequence[EnhancedTool | None]:
    """The answers of a transformer, one a tool; empty if they are invalid."""
    nothing: Sequence[EnhancedTool | None] = [None] * len(tools)
    where = {"transformer": transformer.name, "source": context.source}
    try:
        answers = await transformer.transform(tuple(tools), context)
        fault = _fault(tools, answers) if answers is not None else ""
    except Exception:
        log.exception("a transformer failed; its tools go to the next", **where)
        return nothing
    if answers is None:
        return nothing
    if fault:
        log.warning("a transformer's answer cannot be used; its tools go to the next", why=fault, **where)
        return nothing
    return [
        replace(answer, original_name=tool.name, enhanced_by=answer.enhanced_by or transformer.name)
        if answer is not None
        else None
        for tool, answer in zip(tools, answers, strict=True)
    ]


def _fault(tools: Sequence[SourceTool], answers: Sequence[EnhancedTool | None]) -> str:
    if len(answers) != len(tools):
        return f"it has {len(answers)} tools instead of {len(tools)}"
    for tool, answer in zip(tools, answers, strict=True):
        if answer is None:
            continue
        if not isinstance(answer, EnhancedTool):
            return f"it has a {type(answer).__name__} in the place of {tool.name!r}"
        if (answer.original_name or answer.name) != tool.name:
            return f"it has {answer.name!r} in the place of {tool.name!r}"
        if not answer.name:
            return f"it takes the name of {tool.name!r}"
    return ""


def _undo_duplicates(tools: list[EnhancedTool], context: ToolContext) -> list[EnhancedTool]:
    """Undo new names that are not unique, so that a name always means one tool."""
    original = {tool.original_name for tool in tools}
    count = Counter(tool.name for tool in tools if tool.name != tool.original_name)
    unique = []
    for tool in tools:
        is_renamed = tool.name != tool.original_name
        if is_renamed and (tool.name in original or count[tool.name] > 1):
            log.warning(
                "two tools cannot have one name; the original name stays",
                source=context.source,
                tool=tool.original_name,
                name=tool.name,
            )
            tool = replace(tool, name=tool.original_name)  # noqa: PLW2901  # the same tool
        unique.append(tool)
    return unique


class FunctionTransformer:
    """Calls a function with the tools; a tool that it returns unchanged counts as no answer.

    The function is the hook of a program that embeds maitred. It gets no more trust than other transformers:
    each tool stays in its place, under its name or, as an `EnhancedTool`, with that as `original_name`.
    """

    name = "middleware"
    priority = 0

    def __init__(self, middleware: Middleware) -> None:
        self._middleware = middleware

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`."""
        del context
        answers: Sequence[Any] = await self._middleware(tools)
        if len(answers) != len(tools):
            return answers
        return [self._answer(tool, answer) for tool, answer in zip(tools, answers, strict=True)]

    def _answer(self, tool: SourceTool, answer: Any) -> Any:
        if answer == tool:
            return None
        if isinstance(answer, EnhancedTool):
            return replace(answer, enhanced_by=self.name)
        if isinstance(answer, SourceTool) and isinstance(tool, EnhancedTool) and answer.name == tool.name:
            fields = {name: getattr(answer, name) for name in _RAW_FIELDS}
            return replace(tool, **fields, enhanced_by=self.name)
        return answer


_LAYERS: Final = (("name", "title", "description"), ("input_schema",))
"""Fields that come from the same transformer: the title of one and the description of another do not match.
"""


class LayeredTransformer:
    """Lays one transformer over another: what the upper one does not change comes from the lower one.

    It answers where the upper one does, under its name and priority. A language model leaves out what needs
    no change, and may give a tool nothing but a category. Without layers such an answer would hide the
    rules'.
    """

    def __init__(self, upper: Transformer, lower: Transformer) -> None:
        self._upper = upper
        self._lower = lower

    @property
    def name(self) -> str:
        """The name of the upper transformer."""
        return self._upper.name

    @property
    def priority(self) -> int:
        """The priority of the upper transformer."""
        return self._upper.priority

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """See `Transformer`."""
        above = await self._upper.transform(tools, context)
        if above is None or len(above) != len(tools) or not any(above):
            return above
        below = await self._lower.transform(tools, context) or [None] * len(tools)
        return [_over(*layers) for layers in zip(tools, above, below, strict=True)]


def _over(tool: SourceTool, above: EnhancedTool | None, below: EnhancedTool | None) -> EnhancedTool | None:
    if above is None or below is None:
        return above
    silent = [
        name
        for names in _LAYERS
        for name in names
        if all(getattr(above, one) == getattr(tool, one) for one in names)
    ]
    kept: dict[str, Any] = {name: getattr(below, name) for name in silent}
    if "input_schema" in silent:
        kept["inferred"] = below.inferred
    return replace(above, **kept)
