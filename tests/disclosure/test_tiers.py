"""Scores that a tool can only earn, tiers, and the first screen: pinned, well used, and a fair spread."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.disclosure.tiers import hot_list, level, plain_score, standings, tier_score
from maitred.model.categories import Placement
from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import ToolStanding, Usage


def tool(server: str, name: str, category: str = "", **fields: object) -> Tool:
    known = Tool(
        key=ToolKey(server=server, name=name),
        name=f"{server}__{name}",
        title="",
        description="Does something.",
        input_hash="",
        output_hash="",
        annotations={},
        extra={},
        cost_tokens=100,
        placement=Placement(category=category),
    )
    return replace(known, **fields)  # type: ignore[arg-type]


READ = {"readOnlyHint": True}
LETTERS = st.sampled_from("abcde")
TOOLS = st.lists(
    st.builds(
        lambda server, name, category, read: tool(
            server, str(name), category, annotations=READ if read else {}
        ),
        LETTERS, st.integers(0, 9), st.sampled_from(["", "files", "mail", "git"]), st.booleans(),
    ),
    max_size=40,
    unique_by=lambda made: made.key,
)  # fmt: skip


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """Any usage that can come about: recent calls are among those of the month, errors among the calls."""
    month = draw(st.integers(0, 20_000))
    calls = month + draw(st.integers(0, 20_000))
    return Usage(
        calls=calls,
        errors=draw(st.integers(0, calls)),
        mean_ms=draw(st.floats(0, 5_000)),
        calls_7d=draw(st.integers(0, month)),
        calls_30d=month,
    )


@st.composite
def screens(draw: st.DrawFn) -> tuple[list[Tool], dict[ToolKey, ToolStanding], set[ToolKey]]:
    """Tools, with a history and pins for some of them."""
    tools = draw(TOOLS)
    scores = draw(st.lists(st.floats(0, 1), min_size=len(tools), max_size=len(tools)))
    used = draw(st.lists(st.integers(0, 2), min_size=len(tools), max_size=len(tools)))
    pinned = draw(st.lists(st.integers(0, 3), min_size=len(tools), max_size=len(tools)))
    known = {
        each.key: ToolStanding(score=score, usage=Usage(calls=calls))
        for each, score, calls in zip(tools, scores, used, strict=True)
    }
    return tools, known, {each.key for each, pin in zip(tools, pinned, strict=True) if pin == 0}


# --- scores ------------------------------------------------------------------------------------------------


@given(usages())
def test_a_score_is_between_0_and_1_and_a_success_never_lowers_it(usage: Usage) -> None:
    """One more call that succeeds, as quick as the others, is never held against a tool."""
    more = replace(usage, calls=usage.calls + 1, calls_7d=usage.calls_7d + 1, calls_30d=usage.calls_30d + 1)

    assert 0 <= tier_score(usage) <= tier_score(more) <= 1


@given(usages())
def test_a_call_that_succeeds_instead_of_failing_raises_the_score(usage: Usage) -> None:
    """Reliability counts whatever else is so."""
    if usage.errors:
        assert tier_score(usage) < tier_score(replace(usage, errors=usage.errors - 1))


def test_a_tool_never_called_scores_0_whatever_its_speed() -> None:
    """A tool that was never called was never slow either. Source: issue "Menu", tiers."""
    assert tier_score(Usage()) == 0
    assert standings({ToolKey(server="s", name="t"): Usage(calls_30d=3)}) == {}


def test_one_lucky_call_does_not_beat_a_hundred_good_ones() -> None:
    """One call of one is no certainty; 99 of 100 are nearly one."""
    lucky = Usage(calls=1, mean_ms=5, calls_7d=1, calls_30d=1)
    good = Usage(calls=100, errors=1, mean_ms=200, calls_7d=25, calls_30d=100)

    assert tier_score(lucky) + 0.2 < tier_score(good)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(calls=9_000, errors=20, mean_ms=60, calls_7d=2_500, calls_30d=9_000), "hot"),
        (Usage(calls=300, errors=3, mean_ms=150, calls_7d=80, calls_30d=300), "warm"),
        (Usage(calls=8, mean_ms=300, calls_7d=2, calls_30d=8), "standard"),
        (Usage(calls=3, errors=3, mean_ms=900, calls_7d=3, calls_30d=3), "cold"),
        (Usage(), "cold"),
    ],
)
def test_tiers_are_what_one_would_say(usage: Usage, expected: str) -> None:
    """Much used and quick is hot, tried a few times is standard, failing is cold."""
    assert level(tier_score(usage)) == expected


def test_a_bound_belongs_to_the_tier_above_it() -> None:
    """Source: issue "Menu", tiers."""
    assert [level(score) for score in (0.8, 0.79, 0.6, 0.59, 0.3, 0.29)] == [
        "hot", "warm", "warm", "standard", "standard", "cold",
    ]  # fmt: skip


# --- the first screen --------------------------------------------------------------------------------------


@given(screens(), st.randoms(use_true_random=False))
def test_the_first_screen_does_not_depend_on_the_order_of_the_tools(
    screen: tuple[list[Tool], dict[ToolKey, ToolStanding], set[ToolKey]], chance: random.Random
) -> None:
    """A restart, or another process, shows the same."""
    tools, known, pinned = screen
    shuffled = chance.sample(tools, len(tools))

    assert hot_list(shuffled, known, pinned) == hot_list(tools, known, pinned)


@given(screens())
def test_the_first_screen_has_pinned_tools_by_name_then_used_ones_by_score_and_nothing_twice(
    screen: tuple[list[Tool], dict[ToolKey, ToolStanding], set[ToolKey]],
) -> None:
    """At least 10 where there are as many, and at most 15."""
    tools, known, pinned = screen
    shown = hot_list(tools, known, pinned)
    by_name = sorted((each for each in tools if each.key in pinned), key=lambda each: each.name)
    used = [each for each in shown[len(by_name) :] if known[each.key].usage.calls]
    history = [each for each in tools if known[each.key].usage.calls and each.key not in pinned]

    assert shown[: len(by_name)] == by_name[:15]
    assert used == sorted(history, key=lambda t: (-known[t.key].score, t.name))[: len(used)]
    assert shown[len(by_name) : len(by_name) + len(used)] == used
    assert len(shown) == len({each.key for each in shown})
    assert len(shown) == min(len(tools), max(10, min(15, len(by_name) + len(history))))


@given(TOOLS, st.integers(0, 15))
def test_without_history_the_screen_covers_as_many_categories_and_servers_as_it_can(
    tools: list[Tool], count: int
) -> None:
    """One of each before two of any. Source: issue "Menu", cold start."""
    shown = hot_list(tools, {}, (), at_least=count)
    categories = {each.placement.category for each in tools}

    assert len(shown) == min(count, len(tools))
    assert len({each.placement.category for each in shown}) == min(count, len(categories))


def test_a_category_gives_a_tool_of_each_server_in_turn() -> None:
    """A server of many tools does not take the places of the small ones."""
    tools = [tool("big", str(n), "files") for n in range(9)] + [
        tool("x", "a", "files"),
        tool("y", "a", "files"),
    ]

    shown = hot_list(tools, {}, (), at_least=3)

    assert [each.server for each in shown] == ["big", "x", "y"]


def test_the_spread_makes_up_for_what_is_there_already() -> None:
    """A category with a pinned tool waits until the others have one."""
    pinned = tool("s", "pinned", "files")
    tools = [pinned, tool("s", "other", "files"), tool("t", "a", "mail"), tool("t", "b", "git")]

    shown = hot_list(tools, {}, {pinned.key}, at_least=3)

    assert [each.placement.category for each in shown] == ["files", "git", "mail"]


def test_the_spread_prefers_tools_that_read_and_say_what_they_do_and_ask_for_little() -> None:
    """What an agent may try without harm stands first, and what is in no category last."""
    tools = [
        tool("s", "a_writes", "files"),
        tool("s", "b_silent", "files", annotations=READ, description=""),
        tool("s", "c_asks", "files", annotations=READ),
        tool("s", "d_long", "files", annotations=READ, cost_tokens=900),
        tool("s", "e_good", "files", annotations=READ),
        tool("s", "f_unplaced", annotations=READ),
    ]
    required = {"s__c_asks": 4}

    def count(each: Tool) -> int:
        return required.get(each.name, 1)

    order = [hot_list(tools, {}, (), at_least=n, required=count)[-1].name for n in range(1, 7)]
    assert order == [
        f"s__{name}" for name in ("e_good", "f_unplaced", "d_long", "c_asks", "b_silent", "a_writes")
    ]


def test_more_pins_than_places_are_cut_at_15() -> None:
    """The first screen stays small whatever is pinned."""
    tools = [tool("s", f"{n:02}") for n in range(20)]

    assert hot_list(tools, {}, [each.key for each in tools]) == tools[:15]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(), 0),
        (Usage(calls=1, mean_ms=0, calls_7d=1, calls_30d=1), 0.60),
        (Usage(calls=5_000, errors=500, mean_ms=250, calls_7d=1_000, calls_30d=4_000), 0.65),
        (Usage(calls=50_000, mean_ms=2_000, calls_7d=0, calls_30d=50_000), 0.70),
    ],
)
def test_the_plain_score_is_that_of_the_document(usage: Usage, expected: float) -> None:
    """0.4 of the popularity, 0.3 of the successes, 0.2 of the speed, 0.1 of the recency."""
    assert plain_score(usage) == expected
