"""Which tools get into groups, and which stay with their category alone."""

import random
from dataclasses import replace
from typing import Any

import pytest

from maitred.config.taxonomy import CATEGORIES
from maitred.disclosure.categories import Classifier
from maitred.disclosure.groups import MOST_GROUPS, MOST_OF_SERVER, group_headings
from maitred.mediation.groups import propose_groups
from maitred.model.categories import Category, GroupPolicy, ToolChoice, ToolGroup
from maitred.model.tools import Mediation, Tool, ToolKey
from maitred.search.tokenize import index_terms

WIDGETS = ("create_frobnitz", "get_frobnitz", "list_frobnitz", "delete_frobnitz")
"""Tools about a thing that no category knows."""
CLUSTERS = ("create_cluster", "list_clusters", "restart_cluster")
"""Tools that a category fits well."""


def tools(*names: str, server: str = "s", **fields: Any) -> list[Tool]:
    return [
        Tool(
            key=ToolKey(server=server, name=name), name=f"{server}__{name}", title="", description="",
            input_hash="", output_hash="", annotations={}, extra={}, cost_tokens=1, **fields,
        )
        for name in names
    ]  # fmt: skip


def mended(tool: Tool, category: str, description: str = "", by: str = "llm") -> Tool:
    """A tool for which mediation proposes a category."""
    return replace(
        tool, mending=Mediation(by=by, confidence=0.8, category=category, category_description=description)
    )


def placed(
    given: list[Tool],
    policy: GroupPolicy = "unplaced",
    *,
    choices: dict[str, ToolChoice] | None = None,
    categories: tuple[Category, ...] = CATEGORIES,
) -> dict[str, ToolGroup | None]:
    """The group of each tool, by the tool's name."""
    classifier = Classifier(
        categories,
        stems=index_terms,
        choices={ToolKey(server="s", name=name): choice for name, choice in (choices or {}).items()},
        groups=policy,
        propose_groups=propose_groups,
    )
    found = classifier.place(given, lambda _: None)
    assert [tool.key for tool in found] == [tool.key for tool in given]
    return {tool.key.name: tool.placement.group for tool in found}


def names(groups: dict[str, ToolGroup | None]) -> dict[str, str]:
    return {tool: group.name for tool, group in groups.items() if group}


def test_tools_that_no_category_knows_are_grouped_by_rules() -> None:
    """Those that one fits well are not."""
    found = placed(tools(*WIDGETS, *CLUSTERS))

    assert names(found) == dict.fromkeys(WIDGETS, "frobnitz")
    assert {group.by for group in found.values() if group} == {"rules"}


def test_with_all_those_of_a_category_are_grouped_too() -> None:
    """`off` groups none."""
    given = tools(*WIDGETS, *CLUSTERS)

    assert names(placed(given, "all")) == dict.fromkeys(WIDGETS, "frobnitz") | dict.fromkeys(
        CLUSTERS, "clusters"
    )
    assert names(placed(given, "off")) == {}


def test_what_a_person_chose_goes_before_any_group() -> None:
    """A tool that was moved by hand is where it was moved; the others stay a group while they are enough."""
    choice = {WIDGETS[0]: ToolChoice(category="data")}

    for policy in ("unplaced", "all"):
        found = names(placed(tools(*WIDGETS), policy, choices=choice))
        assert found == dict.fromkeys(WIDGETS[1:], "frobnitz")
    choice[WIDGETS[1]] = ToolChoice(category="data")
    assert names(placed(tools(*WIDGETS), choices=choice)) == {}


def test_a_model_goes_before_rules_and_a_category_that_fits_before_a_model() -> None:
    """The group has the description of most of its tools."""
    texts = ["Things.", "Tools for things.", "Tools for things.", ""]
    given = [
        *(mended(tool, "things", text) for tool, text in zip(tools(*WIDGETS), texts, strict=True)),
        *(mended(tool, "fleet") for tool in tools(*CLUSTERS)),
    ]

    found = placed(given)
    assert names(found) == dict.fromkeys(WIDGETS, "things")
    assert {group for group in found.values() if group} == {
        ToolGroup(name="things", description="Tools for things.", by="model")
    }
    assert names(placed(given, "all")) == dict.fromkeys(WIDGETS, "things") | dict.fromkeys(CLUSTERS, "fleet")


@pytest.mark.parametrize("name", ["data", "databases", "other", "9lives", "", "Ünï code", "x" * 80])
def test_a_group_with_a_name_that_no_group_may_have_is_none(name: str) -> None:
    """That of a category or a part of one, or no name of a category; rules group the tools then."""
    found = placed([mended(tool, name, by="middleware") for tool in tools(*WIDGETS)], "all")

    taken = {group.name for group in found.values() if group and group.by != "rules"}
    assert taken <= {"x" * 40}


def test_a_category_that_the_operator_makes_takes_over_the_group_of_its_name() -> None:
    """The tools are in that category then, by mediation."""
    given = [mended(tool, "things") for tool in tools(*WIDGETS)]

    assert names(placed(given, categories=(*CATEGORIES, Category(name="things")))) != dict.fromkeys(
        WIDGETS, "things"
    )


def test_two_tools_are_no_group_and_a_server_has_few_groups() -> None:
    """Those with the most tools stay; of equal ones, the first in the alphabet."""
    assert names(placed([mended(tool, "things") for tool in tools("do_a", "do_b")])) == {}
    given = [mended(tool, f"g{at // 3:02}") for at, tool in enumerate(tools(*(f"q{at}" for at in range(60))))]

    assert set(names(placed(given)).values()) == {f"g{at:02}" for at in range(MOST_OF_SERVER)}


def test_the_order_of_the_tools_does_not_matter() -> None:
    """So a restart changes no group."""
    given = [*tools(*WIDGETS, *CLUSTERS), *(mended(tool, "things") for tool in tools("x1", "x2", "x3"))]
    expected = placed(given, "all")
    for seed in range(10):
        random.Random(seed).shuffle(given)
        assert placed(given, "all") == expected


def test_a_tool_that_is_withheld_is_in_no_group() -> None:
    """Its name is text that admission withholds."""
    assert names(placed(tools(*WIDGETS, withheld="is new"))) == {}


def test_a_category_that_the_server_declares_goes_before_rules() -> None:
    """It is the heading of such a tool in the list already."""
    declared = {"_meta": {"category": "Widgets"}}
    given = [replace(tool, extra=declared) for tool in tools(*WIDGETS)]

    assert names(placed(given)) == {}


def test_the_menu_has_a_heading_for_each_group_up_to_a_number() -> None:
    """It is of all servers, below the category where most of its tools are."""
    group = ToolGroup(name="things", description="Tools for things.", by="model")
    some = [
        replace(tool, placement=replace(tool.placement, category="data", group=group))
        for server in ("a", "b")
        for tool in tools(*WIDGETS, server=server)
    ]

    [heading] = group_headings(some).values()
    assert heading.category == Category(
        name="things", title="Things", description="Tools for things.", parent="data"
    )
    assert len(heading.tools) == 8
    assert group_headings(some, {"things"}) == {}
    many = [
        replace(tool, placement=replace(tool.placement, group=ToolGroup(name=f"g{at}")))
        for at, tool in enumerate(tools(*(f"t{at}" for at in range(100))))
    ]
    assert len(group_headings(many)) == MOST_GROUPS
