"""The budget over every server there is: each answer of the menu at its worst, counted exactly."""

from collections.abc import Sequence

import anyio
import pytest
from tests.support import corpus

from maitred.backends.listing import read_tools
from maitred.catalog.token_count import count_tokens
from maitred.config.settings import Search
from maitred.evaluation.budget import AnswerCost, measure
from maitred.evaluation.fixture_gateway import gateway_with_tools
from maitred.model.access import LOCAL_USER
from maitred.model.tools import RawTool, ToolKey

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(900),
    pytest.mark.processor_s(300, "thousands of tools are measured"),
    pytest.mark.xdist_group("whole-corpus"),
]

WORDS = Search(mode="lexical")
"""What is found by meaning as well costs no more; reading thousands of tools for it takes a while."""

LIMITS = {
    "T0": 2_000,
    "T0 and T1": 4_000,
    "T0 to T2": 8_000,
    "T0 to T3": 12_000,
    "T0 as JSON": 2_000,
    "T0 and T1 as JSON": 4_000,
    "T0 to T2 as JSON": 8_000,
    "tool_info, brief": 299,
    "menu": 500,
    "menu with index": 700,
    "capability index": 200,
    "overview": 500,
    "search_tools, median": 1_500,
    "search_tools, p95": 1_500,
    "search_tools, worst": 1_500,
}


async def measured(tools: Sequence[RawTool]) -> dict[str, AnswerCost]:
    with anyio.fail_after(850):
        async with gateway_with_tools(tools, WORDS) as gateway:
            assert await gateway.settled(600)
            return {one.name: one for one in await measure(gateway, LOCAL_USER)}


@pytest.mark.parametrize("which", ["generated", "recorded"])
async def test_all_servers_at_once_are_within_the_budget(which: str) -> None:
    """No tier, menu, detail or search costs more than it may. Source: issue "Disclosure"."""
    path = corpus.recorded()
    if which == "recorded" and path is None:
        pytest.skip("the recorded definitions of real servers are not here; the generated ones are measured")
    records = corpus.read(path) if which == "recorded" and path else corpus.stand_in()
    tools = [tool for record in records for tool in read_tools(record["server"], record["tools"])[0]]

    found = await measured(tools)

    print(f"\n{which}: {len(tools):,} tools on {len(records)} servers")  # noqa: T201  # figures for whoever reads the log
    for one in found.values():
        print(f"{one.name:24} {one.tokens:>6,} of {one.limit:>6,}  {one.detail}")  # noqa: T201
    assert {name: one.limit for name, one in found.items()} == LIMITS
    assert [one for one in found.values() if not one.ok] == []


async def test_the_tiers_add_up_and_the_worst_is_named() -> None:
    """Of two servers, the one with long descriptions has the heaviest page, and the heaviest tools."""
    long = " ".join(f"It does one thing and then another, number {n}." for n in range(40))
    tools = [RawTool(key=ToolKey(server="short", name=f"s{n}"), description="Adds.") for n in range(3)] + [
        RawTool(key=ToolKey(server="long", name=f"l{n}"), description=long) for n in range(3)
    ]

    found = await measured(tools)

    tokens = {name: one.tokens for name, one in found.items()}
    assert tokens["T0"] < tokens["T0 and T1"] < tokens["T0 to T2"] < tokens["T0 to T3"]
    assert found["tool_info, brief"].detail.startswith("long__")
    assert found["T0 to T3"].detail.startswith("long__l0 and 5 more")
    assert tokens["T0 to T3"] - tokens["T0 to T2"] >= count_tokens([long])[0] * 3


async def test_an_empty_catalog_can_be_measured() -> None:
    """Nothing to search for, and nothing over its limit."""
    found = await measured([])

    assert all(one.ok for one in found.values())
    assert "menu" in found
    assert "search_tools, worst" not in found


def test_a_figure_over_its_limit_says_so() -> None:
    """The limit itself is allowed."""
    assert AnswerCost(name="menu", tokens=500, limit=500).ok
    assert AnswerCost(name="menu", tokens=501, limit=500).to_json() == {
        "name": "menu", "tokens": 501, "limit": 500, "detail": "", "ok": False,
    }  # fmt: skip
