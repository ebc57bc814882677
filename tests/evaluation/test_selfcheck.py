"""The check of one's own catalog: bad tools and doubles are found, good ones are left alone."""

from collections.abc import Sequence

import anyio
import pytest
from tests.evaluation.makers import tool

from maitred.config.settings import Search
from maitred.evaluation.fixture_gateway import gateway_with_tools, raw_tools
from maitred.evaluation.labelled_queries import LabelledTool
from maitred.evaluation.selfcheck import SelfCheck, check
from maitred.model.access import LOCAL_USER

pytestmark = pytest.mark.anyio

SOON_S = 120.0
GOOD = [
    tool(
        "send_email",
        "mail",
        description="Deliver a letter to recipients. Attachments of any size may be added.",
    ),
    tool(
        "list_folders", "mail", description="Show where messages of a mailbox are kept, with unread counts."
    ),
    tool("show_history", "git", description="Tell who edited a file of the repository, newest first."),
    tool(
        "forecast", "weather", description="Predict temperature, wind and rain of the coming days in a town."
    ),
    tool("translate", "words", description="Put a sentence into another language, such as French or Thai."),
    tool("resize_image", "photo", description="Make a picture smaller or larger while its proportions stay."),
]


async def checked(tools: Sequence[LabelledTool], server: str = "") -> SelfCheck:
    with anyio.fail_after(SOON_S):
        async with gateway_with_tools(raw_tools(tools), Search(mode="lexical")) as gateway:
            return await check(gateway, LOCAL_USER, server)


async def test_tools_that_are_described_well_are_found() -> None:
    """Nothing is reported where each tool says what it alone does."""
    found = await checked(GOOD)

    assert (found.hard, found.confusable) == ([], [])
    assert found.tools == len(GOOD)
    assert found.phrases > len(GOOD)
    assert (found.at_first, found.among_five) == (1.0, 1.0)


async def test_a_tool_that_says_nothing_is_named_with_what_to_change() -> None:
    """Without a description nobody can ask for it; its name is no help either."""
    found = await checked([*GOOD, tool("do_it", "misc")])

    [hard] = found.hard
    assert (hard.name, hard.server, hard.found, list(hard.asked)) == ("misc__do_it", "misc", 0, [])
    assert hard.advice[0].startswith("write a description")
    assert any("'do_it' says nothing" in advice for advice in hard.advice)


async def test_a_tool_that_hides_behind_others_is_named_with_them() -> None:
    """All say the same but for their names: what comes first instead is shown."""
    crowd = [tool(f"get_{what}", "api", description="Error responses: 400 bad request.") for what in
             ("users", "pages", "blocks", "files", "teams", "roles", "forms")]  # fmt: skip
    found = await checked([*GOOD, *crowd])

    assert found.hard
    for hard in found.hard:
        assert hard.server == "api"
        assert hard.instead
        assert any("its description is also that of" in advice for advice in hard.advice)


async def test_tools_that_are_taken_for_each_other_are_paired_once() -> None:
    """One description for two tools, in whatever case and spacing."""
    twins = [
        tool("fetch_bill", "shop", description="Load an invoice  of a customer by its number."),
        tool("load_receipt", "shop", description="load an invoice of a customer by its number."),
    ]
    found = await checked([*GOOD, *twins])

    [pair] = found.confusable
    assert {pair.first, pair.second} == {"shop__fetch_bill", "shop__load_receipt"}
    assert pair.why == "the same description"


async def test_nearly_the_same_descriptions_are_paired() -> None:
    """All words but one are shared, so nothing tells them apart."""
    near = [
        tool("north", "maps", description="Compute the shortest route between two towns by road with tolls."),
        tool("south", "maps", description="Compute the shortest route between two towns by road."),
    ]
    found = await checked([*GOOD, *near])

    [pair] = found.confusable
    assert {pair.first, pair.second} == {"maps__north", "maps__south"}
    assert pair.why.startswith("descriptions that share")


async def test_only_one_server_is_checked_on_demand_among_all() -> None:
    """The tools of others are not asked for, but may come first instead."""
    found = await checked([*GOOD, tool("do_it", "misc")], server="mail")

    assert (found.tools, found.hard) == (2, [])
