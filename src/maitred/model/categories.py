"""Categories and tags as values: the category of a tool in the menu, who chose it, and how surely."""

from dataclasses import dataclass
from typing import Final, Literal

PlacedBy = Literal["", "rules", "mediation", "person"]
WrittenBy = Literal["", "model", "mediation", "person"]
MendingChoice = Literal["", "accept", "reject"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """One heading of the menu. `parent` is the name of the heading above it, empty at the top.

    `words` are words and phrases that point to it. They are matched by stem against the name and texts of a
    tool.
    """

    name: str
    title: str = ""
    description: str = ""
    parent: str = ""
    words: tuple[str, ...] = ()


GroupedBy = Literal["rules", "model", "overrides", "program"]
GroupPolicy = Literal["unplaced", "all", "off"]
"""Which tools get into proposed groups: those that no category fits well, all, or none."""

FEWEST_IN_GROUP: Final = 3
"""Fewer tools of a server are no group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolGroup:
    """A group of tools that was proposed, and by what: rules, a language model, overrides, or a program.

    `name` has the form of a category's name. `description` is one line, or empty.
    """

    name: str
    description: str = ""
    by: GroupedBy = "rules"


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """The category of a tool. `confidence` is 0 to 1, 1 for a person's choice; `tags` are `dimension:tag`.

    `subcategory` is the part of the category; empty if its words say nothing. `group` is a further heading
    that the tool has in the menu. Scopes and rules of the operator judge a tool by its category alone.
    """

    category: str = ""
    confidence: float = 0.0
    by: PlacedBy = ""
    tags: tuple[str, ...] = ()
    subcategory: str = ""
    group: ToolGroup | None = None


UNPLACED = Placement()


ANY_TOOL: Final = "*"
"""The name in a choice for all tools of a server that have no choice of their own."""


@dataclass(frozen=True, kw_only=True)
class ToolChoice:
    """A person's decisions about one tool; the rules fill in what is empty.

    No caller may find or call a tool that is not `enabled`. `cache_s` is how long the gateway may reuse an
    answer; `None` means the server's setting. `mending` says whether the gateway uses the result of mediation
    whatever its proof says, or not at all.
    """

    enabled: bool = True
    category: str = ""
    tags: tuple[str, ...] = ()
    use_cases: tuple[str, ...] = ()
    pinned: bool = False
    cache_s: float | None = None
    mending: MendingChoice = ""
