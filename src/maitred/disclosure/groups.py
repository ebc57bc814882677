"""Put tools into groups that rules, a language model or overrides propose, and make headings of the groups.

A group is a heading beside the category of a tool. So no scope, hold rule or choice of an operator changes by
it. What an operator chose, and what a category fits well, stays out of groups, unless the policy is `all`.
`maitred.mediation.groups` has the rules, which come in as a function.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from maitred.config.subcategories import SUBCATEGORIES
from maitred.config.taxonomy import FALLBACK, is_category_name
from maitred.disclosure.category_tools import declared_category
from maitred.model.categories import FEWEST_IN_GROUP, Category, GroupedBy, GroupPolicy, ToolGroup
from maitred.model.tools import Tool, ToolKey

ProposeGroups = Callable[[Collection[str], str], Mapping[str, ToolGroup]]
"""Names of tools of a server, and its name -> the group of each tool that gets one."""

MOST_OF_SERVER: Final = 10
"""A server has no more groups; those with the most tools stay."""
MOST_GROUPS: Final = 40
"""The menu shows no more groups; those with the most tools stay."""

_UNSURE: Final = 0.5  # of the categories that are less sure than this, three of four are wrong
_PROPOSER: Final[Mapping[str, GroupedBy]] = {"llm": "model", "overrides": "overrides"}
_RESERVED: Final = frozenset(name for parts in SUBCATEGORIES.values() for name in parts) | {"other"}


def no_groups(names: Collection[str], source: str) -> Mapping[str, ToolGroup]:
    """Propose nothing."""
    del names, source
    return {}


@dataclass(frozen=True, kw_only=True)
class Grouper:
    """Puts the placed tools of one server into groups; the order of the tools does not matter.

    `taken` are the names of all categories, which no group has.
    """

    policy: GroupPolicy
    taken: Collection[str]
    propose: ProposeGroups = no_groups

    def place(self, tools: Sequence[Tool], decided: Collection[ToolKey]) -> list[Tool]:
        """Return the tools with their groups, in the order given; `decided` are in a category of a person."""
        groups = {} if self.policy == "off" else self._groups(tools, decided)
        return [
            replace(tool, placement=replace(tool.placement, group=groups[tool.key]))
            if tool.key in groups
            else tool
            for tool in tools
        ]

    def _groups(self, tools: Sequence[Tool], decided: Collection[ToolKey]) -> Mapping[ToolKey, ToolGroup]:
        proposed: dict[ToolKey, ToolGroup] = {}
        left: list[Tool] = []
        for tool in tools:
            if tool.withheld or tool.key in decided or not self._is_open(tool):
                continue
            if (group := proposal(tool)) and self._may_exist(group):
                proposed[tool.key] = group
            elif declared_category(tool) is None:  # a server's own heading goes before that of rules
                left.append(tool)
        sizes = Counter(group.name for group in proposed.values())
        few = {key for key, group in proposed.items() if sizes[group.name] < FEWEST_IN_GROUP}
        left += [tool for tool in tools if tool.key in few]
        proposed = {key: group for key, group in proposed.items() if key not in few}
        proposed |= self._by_rules(left)
        return _largest(proposed)

    def _by_rules(self, tools: Sequence[Tool]) -> Mapping[ToolKey, ToolGroup]:
        if len(tools) < FEWEST_IN_GROUP:
            return {}
        names = {
            tool.key: tool.mending.rename if tool.mending and tool.mending.rename else tool.key.name
            for tool in tools
        }
        by_name = self.propose(frozenset(names.values()), tools[0].server)
        groups = {key: by_name[name] for key, name in names.items() if name in by_name}
        return {key: group for key, group in groups.items() if self._may_exist(group)}

    def _is_open(self, tool: Tool) -> bool:
        """Whether a group goes before the category of a tool."""
        place, own = tool.placement, tool.mending
        if self.policy == "all" or (own and own.by == "overrides" and own.category):
            return True
        is_unknown = place.category == FALLBACK and not place.subcategory
        return place.by == "rules" and (is_unknown or place.confidence < _UNSURE)

    def _may_exist(self, group: ToolGroup) -> bool:
        name = group.name
        return is_category_name(name) and name not in self.taken and name not in _RESERVED


def proposal(tool: Tool) -> ToolGroup | None:
    """Return the group that a language model, overrides or a program proposes for a tool."""
    own = tool.mending
    if own is None or not own.category:
        return None
    return ToolGroup(
        name=group_name(own.category),
        description=own.category_description,
        by=_PROPOSER.get(own.by, "program"),
    )


def group_name(text: str) -> str:
    """Return a text in the form of a category's name, as far as it has one."""
    words = "".join(char if char.isalnum() else " " for char in text.casefold()).split()
    return "_".join(words)[:40].strip("_")


def _largest(groups: Mapping[ToolKey, ToolGroup]) -> Mapping[ToolKey, ToolGroup]:
    """The tools of the largest groups; those of one name get one description, that of most of them."""
    by_name: dict[str, list[ToolGroup]] = {}
    for group in groups.values():
        by_name.setdefault(group.name, []).append(group)
    names = sorted(by_name, key=lambda name: (-len(by_name[name]), name))[:MOST_OF_SERVER]
    same = {name: _most_frequent(by_name[name]) for name in names}
    return {key: same[group.name] for key, group in groups.items() if group.name in same}


def _most_frequent(groups: Sequence[ToolGroup]) -> ToolGroup:
    """The group that most of these are, one with a description before one without."""
    counts = Counter(groups)
    return min(counts, key=lambda group: (not group.description, -counts[group], group.description, group.by))


@dataclass(frozen=True, kw_only=True)
class GroupHeading:
    """A group in the menu, of all servers: its heading, what proposed it, and its tools.

    The heading is below the category in which most of its tools are.
    """

    category: Category
    by: GroupedBy
    tools: Sequence[Tool]


def group_headings(tools: Sequence[Tool], categories: Collection[str] = ()) -> dict[str, GroupHeading]:
    """Return the groups of some tools by name; `categories` are names that no group has."""
    by_name: dict[str, list[Tool]] = {}
    for tool in tools:
        group = tool.placement.group
        if group and group.name not in categories:
            by_name.setdefault(group.name, []).append(tool)
    names = sorted(by_name, key=lambda name: (-len(by_name[name]), name))[:MOST_GROUPS]
    return {name: _heading(by_name[name]) for name in sorted(names)}


def _heading(tools: Sequence[Tool]) -> GroupHeading:
    groups = [tool.placement.group for tool in sorted(tools, key=lambda tool: tool.key)]
    group = _most_frequent([group for group in groups if group])
    parents = Counter(tool.placement.category for tool in tools)
    return GroupHeading(
        category=Category(
            name=group.name,
            title=group.name.replace("_", " ").capitalize(),
            description=group.description,
            parent=min(parents, key=lambda name: (-parents[name], name)),
        ),
        by=group.by,
        tools=tuple(tools),
    )
