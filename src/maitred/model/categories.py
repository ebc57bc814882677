"""Categories and tags as values: where a tool stands in the menu, who says so, and how surely."""

from dataclasses import dataclass
from typing import Final, Literal

PlacedBy = Literal["", "rules", "mediation", "person"]
WrittenBy = Literal["", "model", "mediation", "person"]
MendingChoice = Literal["", "accept", "reject"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """One heading of the menu. `parent` is the name of the heading above it, empty at the top.

    `words` are words and phrases that point to it; they are matched by stem against what a tool is called and
    what it does.
    """

    name: str
    title: str = ""
    description: str = ""
    parent: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where a tool stands. `confidence` is 0 to 1, 1 where a person said it; `tags` are `dimension:tag`."""

    category: str = ""
    confidence: float = 0.0
    by: PlacedBy = ""
    tags: tuple[str, ...] = ()


UNPLACED = Placement()


ANY_TOOL: Final = "*"
"""The name under which a choice is for all tools of a server that have none of their own."""


@dataclass(frozen=True, kw_only=True)
class ToolChoice:
    """What a person decided about one tool; what is empty is left to the rules.

    `cache_s` is for how long its answers may be given again, `None` what is said for its server. `mending`
    says whether what mediation makes of it is used whatever its proof says, or not at all.
    """

    category: str = ""
    tags: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    pinned: bool = False
    cache_s: float | None = None
    mending: MendingChoice = ""
