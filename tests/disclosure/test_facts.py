"""How calls change facts: as declared, never out of their types, and never by a call that failed."""

import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maitred.model.servers import State
from maitred.visibility.facts import (
    BUILT_IN,
    MAX_INT,
    MAX_ITEMS,
    MAX_TEXT,
    Add,
    DeclaredFacts,
    Effect,
    Fact,
    Facts,
    Kind,
    ReadFact,
    ResetFact,
    SetFact,
    after_call,
    built_in,
    misfit,
    most_specific,
    surely_after,
)

FACTS = {
    "on": Fact(name="on", kind="bool", initial=False),
    "count": Fact(name="count", kind="int", initial=3),
    "mode": Fact(name="mode", kind="str", initial="idle"),
    "open": Fact(name="open", kind="list", initial=()),
}


def after(
    effects: dict[str, Effect], result: dict[str, Any], facts: Facts | None = None, **arguments: Any
) -> Facts:
    declared = DeclaredFacts(facts=FACTS, on_success={"tool": effects})
    return after_call(facts or declared.initial(), declared, "tool", arguments, result)


def structured(**content: Any) -> dict[str, Any]:
    return {"content": [], "structuredContent": content}


def test_a_successful_call_puts_reads_adds_and_resets() -> None:
    """The four effects. Source: issue, `on_success`."""
    begun = Facts(values={"on": False, "count": 3, "mode": "busy", "open": ("a",)})

    now = after(
        {
            "on": SetFact(value=True),
            "count": Add(by=2),
            "mode": ResetFact(),
            "open": ReadFact(path="$.pages"),
        },
        structured(pages=["x", 7, True]),
        begun,
    )

    assert now == Facts(values={"on": True, "count": 5, "mode": "idle", "open": ("x", "7", "true")})
    assert begun.values["count"] == 3


def test_a_call_that_failed_changes_nothing() -> None:
    """`on_success` says it. Source: issue."""
    effects: dict[str, Effect] = {"on": SetFact(value=True), "count": Add(by=1)}

    assert after(effects, {"content": [], "isError": True}) == DeclaredFacts(facts=FACTS).initial()


def test_a_tool_without_effects_leaves_the_very_same_facts() -> None:
    """Who keeps them can tell by identity that nothing has to be told to clients."""
    declared = DeclaredFacts(facts=FACTS, on_success={"tool": {"on": SetFact(value=False)}})
    facts = declared.initial()

    assert after_call(facts, declared, "other", {}, {}) is facts
    assert after_call(facts, declared, "tool", {}, {}) is facts


@pytest.mark.parametrize(("by", "expected"), [(-1, 2), (-3, 0), (-9, 0), (2**53, MAX_INT)])
def test_a_count_never_falls_below_0(by: int, expected: int) -> None:
    """More disconnects than connects may be seen, if there were connections before. Source: issue."""
    assert after({"count": Add(by=by)}, {}).values["count"] == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.page.title", "one"),
        ("$.pages[0].title", "two"),
        ("$.pages[-1].title", "three"),
        ('$["odd.name"][0]', "four"),
        ("$arguments.name", "five"),
    ],
)
def test_a_path_leads_into_the_result_or_the_arguments(path: str, expected: str) -> None:
    """Names, quoted names and places; nothing that searches or counts."""
    content = {
        "page": {"title": "one"}, "pages": [{"title": "two"}, {"title": "three"}], "odd.name": ["four"],
    }  # fmt: skip

    assert after({"mode": ReadFact(path=path)}, structured(**content), name="five").values["mode"] == expected


def test_the_text_of_an_answer_is_read_where_there_is_no_structured_content() -> None:
    """Older servers answer in JSON text; the first text counts."""
    blocks = [
        {"type": "image"},
        {"type": "text", "text": json.dumps({"n": 4.0})},
        {"type": "text", "text": "9"},
    ]

    assert after({"count": ReadFact(path="$.n")}, {"content": blocks}).values["count"] == 4


@pytest.mark.parametrize(
    ("effects", "content", "fault"),
    [
        ({"count": ReadFact(path="$.n")}, {}, "nothing"),
        ({"count": ReadFact(path="$.n[0]")}, {"n": "text"}, "nothing"),
        ({"count": ReadFact(path="$.n[3]")}, {"n": [1]}, "nothing"),
        ({"count": ReadFact(path="$.n")}, {"n": True}, "what is not a whole number"),
        ({"count": ReadFact(path="$.n")}, {"n": 1.5}, "what is not a whole number"),
        ({"count": ReadFact(path="$.n")}, {"n": 2**60}, "a number too large"),
        ({"on": ReadFact(path="$.n")}, {"n": 1}, "what is not true or false"),
        ({"mode": ReadFact(path="$.n")}, {"n": "a" * 257}, "a text of more than 256 characters"),
        ({"mode": ReadFact(path="$.n")}, {"n": "\ud800"}, "a text with half of a character"),
        ({"open": ReadFact(path="$.n")}, {"n": ["a"] * 101}, "more than 100 items"),
        ({"open": ReadFact(path="$.n")}, {"n": [None]}, "a list with what is not a text"),
    ],
)
def test_what_cannot_be_read_leaves_the_fact_and_is_told(
    effects: dict[str, Effect], content: dict[str, Any], fault: str
) -> None:
    """The old value may be wrong now, so that a reason for hiding a tool says so."""
    [(name, effect)] = effects.items()
    begun = DeclaredFacts(facts=FACTS).initial()

    now = after(effects, structured(**content))

    assert now.values == begun.values
    assert isinstance(effect, ReadFact)
    assert now.doubts == {name: f"the answer of tool had {fault} at {effect.path}"}
    assert after({name: ResetFact()}, {}, now).doubts == {}


def test_the_built_in_facts_are_all_there_in_their_types() -> None:
    """Their names are fixed. Source: issue, "built-in"."""
    facts = built_in(
        client="c" * 1000, era="handshake", roles={"ops", "dev"}, state=State.READY,
        now=datetime(2026, 11, 22, 17, 30, tzinfo=UTC),
    )  # fmt: skip

    assert {name: misfit(value, BUILT_IN[name]) for name, value in facts.items()} == dict.fromkeys(
        BUILT_IN, ""
    )
    assert facts["roles"] == ("dev", "ops")
    assert (facts["time.hour"], facts["time.weekday"]) == (17, 7)
    assert facts["server.healthy"] is True
    assert facts["client"] == "c" * MAX_TEXT


@pytest.mark.parametrize("state", State)
def test_a_server_that_sleeps_is_healthy_and_one_that_failed_is_not(state: State) -> None:
    """An idle server starts with the next call."""
    facts = built_in(client="", era="stateless", roles=(), state=state, now=datetime.now(UTC))

    assert facts["server.healthy"] is (state not in (State.FAILED, State.SUSPENDED))
    assert facts["server.state"] == state.value


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("debugger_step_over", "debugger_step_*"),
        ("debugger_pause", "debugger_pause"),
        ("debugger_resume", "debugger_*"),
        ("click", "*"),
        ("over_over", "*over"),
        ("*", "*"),
    ],
)
def test_the_most_specific_pattern_wins_in_any_order(tool: str, expected: str) -> None:
    """A tool's own name first, then what says most of it. Source: issue."""
    patterns = ["*", "debugger_*", "debugger_step_*", "debugger_pause", "*over"]

    assert most_specific(tool, patterns) == expected
    assert most_specific(tool, patterns[::-1]) == expected


@pytest.mark.parametrize(
    ("tool", "pattern", "fits"),
    [
        ("aba", "a*a", True), ("a", "a*a", False), ("axbxc", "a*b*c", True), ("axc", "a*b*c", False),
        ("acb", "*b*c", False), ("a.c", "a?c", False), ("", "*", True), ("ab", "ab*", True),
    ],
)  # fmt: skip
def test_a_star_stands_for_any_characters_and_nothing_else_is_special(
    tool: str, pattern: str, *, fits: bool
) -> None:
    """Two parts of a pattern never share a character of the name."""
    assert (most_specific(tool, [pattern]) == pattern) is fits


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    """Patterns come from manifests."""
    assert most_specific("a" * 200, ["*a" * 100 + "*b"]) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
PATHS = st.sampled_from(["$", "$.a", "$.a.b", "$.a[0]", "$[-1]", "$arguments.a", "$arguments"]).map(
    lambda path: ReadFact(path=path)
)
EFFECTS = st.fixed_dictionaries(
    {},
    optional={
        "on": st.just(SetFact(value=True)) | st.just(ResetFact()) | PATHS,
        "count": st.integers(-5, 5).map(lambda n: Add(by=n)) | st.just(ResetFact()) | PATHS,
        "mode": st.just(SetFact(value="busy")) | PATHS,
        "open": st.just(SetFact(value=("a",))) | PATHS,
    },
)
RESULTS = st.fixed_dictionaries(
    {},
    optional={
        "structuredContent": JSON,
        "content": JSON | st.just([{"text": "[1"}]),
        "isError": st.booleans(),
    },
)


@settings(max_examples=200)
@given(st.lists(st.tuples(EFFECTS, RESULTS, JSON), max_size=12))
def test_walks_over_any_effects_keep_facts_in_their_types(walk: list[Any]) -> None:
    """Whatever servers answer: types, sizes and names stay, counts stay at 0 or above; nothing raises."""
    facts = DeclaredFacts(facts=FACTS).initial()
    for effects, result, argument in walk:
        declared = DeclaredFacts(facts=FACTS, on_success={"tool": effects})
        told = after_call(facts, declared, "tool", {"a": argument}, result)
        assert surely_after(facts, declared, "tool").values.keys() == FACTS.keys()
        assert not result.get("isError") or told is facts
        facts = told
        assert facts.values.keys() == FACTS.keys()
        assert {name: misfit(facts.values[name], fact.kind) for name, fact in FACTS.items()} == dict.fromkeys(
            FACTS, ""
        )
        assert hash(facts) == hash(Facts(values=dict(facts.values), doubts=dict(facts.doubts)))


def test_every_type_has_values_that_fit_and_values_that_do_not() -> None:
    """The limits are kept to the letter."""
    fitting: dict[Kind, Any] = {
        "bool": True, "int": MAX_INT, "str": "a" * MAX_TEXT, "list": ("a" * MAX_TEXT,) * MAX_ITEMS,
    }  # fmt: skip
    assert fitting.keys() == set(get_args(Kind))
    for kind, value in fitting.items():
        assert misfit(value, kind) == ""
        assert all(misfit(value, other) for other in fitting if other != kind)
    assert misfit(["a"], "list")
