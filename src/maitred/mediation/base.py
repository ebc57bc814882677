"""The values of mediation: tools before and after, their source, and the protocol of a transformer.

They are separate from the catalog's values (`maitred.model.tools`), so that mediation is a library: a program
can use it without a gateway.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Protocol

from maitred.errors import MaitredError

SourceType = Literal["web", "api", "file", "manual"]


@dataclass(frozen=True, kw_only=True)
class SourceTool:
    """A tool as its source offers it; `input_schema` is `None` if the source gave no object."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EnhancedTool(SourceTool):
    """A tool after mediation.

    `original_name` is the name that its source knows, and an empty `category` means none.
    `category_description` is about a category that the transformer made itself. `inferred` names the
    parameters that a transformer suggests where the source declares none. `confidence` (0 to 1) says
    how sure the transformer in `enhanced_by` is. The mediator fills in an empty `original_name` or
    `enhanced_by`. `hidden` and `pinned` are an operator's wishes for the menu.

    Raises:
        ValueError: The confidence is not between 0 and 1.
    """

    original_name: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    hidden: bool = False
    pinned: bool = False
    confidence: float = 0.0
    enhanced_by: str = ""
    category_description: str = ""
    inferred: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"the confidence of {self.name!r} must be from 0 to 1, not {self.confidence}")


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The origin of tools: `source` is a server's name, a domain or a URL; they were read at `time`."""

    source: str
    source_type: SourceType
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    metadata: Mapping[str, Any] = field(default_factory=dict)


class PartlyAnsweredError(MaitredError):
    """A transformer failed midway; `answers` belong to the first tools of the question."""

    code: ClassVar[str] = "llm_failed"

    def __init__(self, why: str, answers: Sequence[EnhancedTool | None]) -> None:
        super().__init__(why)
        self.answers = answers


class Transformer(Protocol):
    """One way to improve tools.

    An implementation never drops, adds or reorders tools. Element *i* of its answer describes element *i* of
    the question, with that tool's name as its name or `original_name`. It does not change its arguments.
    """

    @property
    def name(self) -> str:
        """The value of `enhanced_by` in its answers."""
        ...

    @property
    def priority(self) -> int:
        """The mediator asks the transformer with the highest priority first."""
        ...

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """One answer a tool: `None` for a tool that it cannot help with, or `None` for all.

        Raises:
            PartlyAnsweredError: It answered for the first tools only; a `Memo` stores those answers.
            Exception: It failed; the next transformer gets the tools.
        """
        ...


Middleware = Callable[[Sequence[SourceTool]], Awaitable[Sequence[SourceTool]]]
"""A hook between a source and the readers of its tools, for programs that do not use mediators."""
