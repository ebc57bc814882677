"""What mediation works on: tools before and after, where they come from, and the protocol of a transformer.

These are plain values, apart from those of the catalog (`maitred.model.tools`), so that mediation is a
library on its own: a program can use it on tools from anywhere, without a gateway.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Protocol

from maitred.errors import MaitredError

SourceType = Literal["web", "api", "file", "manual"]


@dataclass(frozen=True, kw_only=True)
class SourceTool:
    """A tool as its source offers it; `input_schema` is `None` where it gave none that is an object."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EnhancedTool(SourceTool):
    """A tool ready to be shown.

    `original_name` is the name that its source knows, `category` is empty for none, `confidence` (0 to 1)
    says how sure the transformer named in `enhanced_by` is. An empty `original_name` or `enhanced_by` of a
    transformer's answer is filled by the mediator. `hidden` and `pinned` are wishes of a person about the
    menu.

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

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"the confidence of {self.name!r} must be from 0 to 1, not {self.confidence}")


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """Where tools come from: `source` is a server's name, a domain or a URL; they were read at `time`."""

    source: str
    source_type: SourceType
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    metadata: Mapping[str, Any] = field(default_factory=dict)


class PartlyAnsweredError(MaitredError):
    """A transformer gave up in between; `answers` are those for the first tools it was asked about."""

    code: ClassVar[str] = "llm_failed"

    def __init__(self, why: str, answers: Sequence[EnhancedTool | None]) -> None:
        super().__init__(why)
        self.answers = answers


class Transformer(Protocol):
    """One way to make tools better.

    Implementations never drop, add or reorder tools: element *i* of an answer describes element *i* of the
    question, under the same name or with that name as `original_name`. What they are given they leave as it
    is.
    """

    @property
    def name(self) -> str:
        """What `enhanced_by` says of its answers."""
        ...

    @property
    def priority(self) -> int:
        """The transformer with the highest is asked first."""
        ...

    async def transform(
        self, tools: Sequence[SourceTool], context: ToolContext
    ) -> Sequence[EnhancedTool | None] | None:
        """One answer a tool, `None` for each that it cannot help with, or `None` if it can help with none.

        Raises:
            PartlyAnsweredError: It could answer for the first tools only; a `Memo` keeps those answers.
            Exception: It could not; the tools go to the next transformer.
        """
        ...


Middleware = Callable[[Sequence[SourceTool]], Awaitable[Sequence[SourceTool]]]
"""A hook on the way of tools from their source to their reader; knows nothing of mediators."""
