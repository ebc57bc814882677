"""The 23 tools of a debugging server in all its states, and what is true of any rules and any walk.

The manifest is data (`tests/data/visibility/debugger.yaml`); the server it is checked against keeps a real
state.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.debugger_server import ALWAYS, TOOLS, DebuggerServer

from maitred.model.servers import State
from maitred.visibility.declarations import parse, read
from maitred.visibility.facts import DeclaredFacts, Facts, after_call, built_in
from maitred.visibility.rules import RuleRegistry
from maitred.visibility.visibility import HiddenReason, VisibilityTable, became_visible

MANIFEST = Path(__file__).parents[1] / "data" / "visibility" / "debugger.yaml"
TABLE = parse(MANIFEST, MANIFEST.read_text(), RuleRegistry())

CONNECTED = ALWAYS | {
    "chrome_disconnect", "list_targets", "switch_target", "query_elements", "click_element", "fill_element",
    "navigate", "get_console_logs", "debugger_enable",
}  # fmt: skip
DEBUGGING = CONNECTED - {"debugger_enable"} | {
    "debugger_set_breakpoint", "debugger_remove_breakpoint", "debugger_pause",
    "debugger_set_pause_on_exceptions",
}  # fmt: skip
WAITING = {"click_element", "fill_element", "navigate"}
PAUSED = DEBUGGING - {"debugger_pause"} - WAITING | {
    "debugger_get_call_stack", "debugger_evaluate_on_call_frame", "debugger_step_over", "debugger_step_into",
    "debugger_step_out", "debugger_resume",
}  # fmt: skip
SWITCH = {"chrome_switch_connection"}


def facts_of(connections: int, *, active: bool = False, enabled: bool = False, paused: bool = False) -> Facts:
    return Facts(
        values={
            "connections": connections, "active": active, "debugger.enabled": enabled,
            "debugger.paused": paused,
        }
    )  # fmt: skip


def shown(facts: Facts) -> frozenset[str]:
    return TABLE.visible_set(TOOLS, facts)


# --- the table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "expected", "count"),
    [
        (facts_of(0), ALWAYS, 3),
        (facts_of(1, active=True), CONNECTED, 12),
        (facts_of(1, active=True, enabled=True), DEBUGGING, 15),
        (facts_of(1, active=True, enabled=True, paused=True), PAUSED, 17),
        (facts_of(2, active=True), CONNECTED | SWITCH, 13),
        (facts_of(2, active=True, enabled=True), DEBUGGING | SWITCH, 16),
        (facts_of(2, active=True, enabled=True, paused=True), PAUSED | SWITCH, 18),
    ],
    ids=["none", "connected", "debugging", "paused", "two", "two debugging", "two paused"],
)
def test_a_debugging_server_shows_what_makes_sense_in_its_state(
    facts: Facts, expected: frozenset[str], count: int
) -> None:
    """The states a server can be in. Source: design document 002 and issue, "The 23-tool table"."""
    assert shown(facts) == expected
    assert len(expected) == count


def expected_in(connections: int, *, active: bool, enabled: bool, paused: bool) -> frozenset[str]:
    """The table once more, tool by tool, as a person would say it."""
    of_page = {"list_targets", "switch_target", "query_elements", "get_console_logs"}
    of_debugger = {
        "debugger_set_breakpoint", "debugger_remove_breakpoint", "debugger_set_pause_on_exceptions",
    }  # fmt: skip
    return frozenset().union(
        ALWAYS,
        {"chrome_disconnect"} if connections > 0 else (),
        SWITCH if connections > 1 else (),
        of_page if active else (),
        WAITING if active and not paused else (),
        {"debugger_enable"} if active and not enabled else (),
        of_debugger if active and enabled else (),
        {"debugger_pause"} if active and enabled and not paused else (),
        PAUSED - DEBUGGING if active and enabled and paused else (),
    )


@pytest.mark.parametrize(
    ("active", "enabled", "paused", "connections"),
    [*product([False, True], [False, True], [False, True], range(3))],
)
def test_every_state_shows_its_tools_reachable_or_not(
    connections: int, *, active: bool, enabled: bool, paused: bool
) -> None:
    """All 2 x 2 x 2 x 3, and nothing that waits for a paused page. Source: issue, "all states enumerated"."""
    facts = facts_of(connections, active=active, enabled=enabled, paused=paused)

    assert shown(facts) == expected_in(connections, active=active, enabled=enabled, paused=paused)
    assert not (paused and WAITING & shown(facts))
    for tool in TOOLS:
        hidden = TABLE.why_hidden(tool, facts)
        assert (hidden is None) == TABLE.visible(tool, facts) == (tool in shown(facts))
        assert hidden is None or hidden.reason.startswith(("needs ", "has a rule"))


@pytest.mark.parametrize(
    ("tool", "facts", "expected"),
    [
        (
            "debugger_step_over",
            facts_of(1, active=True, enabled=True),
            "needs a paused debugger; call debugger_pause",
        ),
        (
            "debugger_step_over",
            facts_of(1, active=True),
            "needs a paused debugger; call debugger_enable, then debugger_pause",
        ),
        (
            "debugger_resume",
            facts_of(0),
            "needs a paused debugger; call chrome_connect, then debugger_enable, then debugger_pause",
        ),
        ("query_elements", facts_of(0), "needs a connected browser; call chrome_connect or chrome_launch"),
        (
            "navigate",
            facts_of(1, active=True, enabled=True, paused=True),
            "needs `!debugger.paused` (debugger.paused is true); call debugger_resume",
        ),
        (
            "chrome_switch_connection",
            facts_of(1, active=True),
            "needs a second connection; call chrome_connect or chrome_launch",
        ),
    ],
)
def test_a_hidden_tool_says_what_it_needs_and_which_calls_lead_there(
    tool: str, facts: Facts, expected: str
) -> None:
    """The calls are worked out from what they change. Source: issue, `why_hidden`."""
    hidden = TABLE.why_hidden(tool, facts)

    assert hidden is not None
    assert hidden.text == expected


def test_what_a_call_made_available_is_named() -> None:
    """An agent that does not list again learns of it. Source: issue, "name what became available"."""
    before = shown(facts_of(1, active=True, enabled=True))
    after = shown(facts_of(1, active=True, enabled=True, paused=True))

    assert became_visible(before, after) == sorted(PAUSED - DEBUGGING)
    assert became_visible(after, before) == ["click_element", "debugger_pause", "fill_element", "navigate"]
    assert became_visible(after, after) == []


def test_the_manifest_names_only_tools_of_the_server() -> None:
    """A slip in a name would hide nothing, silently."""
    assert TABLE.unmatched(TOOLS) == []
    assert TABLE.unmatched([tool for tool in TOOLS if tool != "navigate"] + ["navigate_to"]) == [
        "`navigate` fits no tool of the server; did you mean `navigate_to`?"
    ]


# --- walks over the server --------------------------------------------------------------------------------


def arguments_for(server: DebuggerServer, tool: str, choice: int) -> dict[str, Any]:
    """Arguments with which the call makes sense if anything does."""
    known = [*server.connections, "gone"]
    match tool:
        case "chrome_connect":
            return {"connection_id": f"c{choice}"}
        case "chrome_disconnect" | "chrome_switch_connection":
            return {"connection_id": known[choice % len(known)]}
        case "debugger_remove_breakpoint":
            return {"breakpoint_id": f"b{choice}"}
    return {}


def truth(server: DebuggerServer) -> Mapping[str, Any]:
    state = server.state
    flat = {f"debugger.{name}": value for name, value in state["debugger"].items()}
    return {"connections": state["connections"], "active": state["active"], **flat}


CALLS = st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), st.integers(0, 3)), max_size=40)


@settings(max_examples=300)
@given(CALLS)
def test_on_any_walk_the_facts_are_those_of_the_server_and_hidden_tools_change_nothing(
    calls: list[tuple[str, int]],
) -> None:
    """A call of a hidden tool would have failed, or been without effect. Source: issue, "property test"."""
    server, facts = DebuggerServer(), TABLE.declared.initial()
    for tool, choice in calls:
        was, visible = truth(server), TABLE.visible(tool, facts)
        arguments = arguments_for(server, tool, choice)

        answer = server.call(tool, arguments).model_dump(by_alias=True, exclude_none=True)
        facts_after = after_call(facts, TABLE.declared, tool, arguments, answer)

        assert facts_after.values == truth(server)
        if not visible:
            assert truth(server) == was
            assert facts_after is facts
        facts = facts_after
    assert facts.doubts == {}


@settings(max_examples=100)
@given(CALLS)
def test_the_next_steps_lead_to_the_tool(calls: list[tuple[str, int]]) -> None:
    """From wherever a walk ends, following the advice shows every tool."""
    server, facts = DebuggerServer(), TABLE.declared.initial()

    def do(tool: str, choice: int) -> None:
        nonlocal facts
        arguments = {} if tool == "chrome_launch" else arguments_for(server, tool, choice)
        answer = server.call(tool, arguments).model_dump(by_alias=True, exclude_none=True)
        facts = after_call(facts, TABLE.declared, tool, arguments, answer)

    for tool, choice in calls:
        do(tool, choice)
    for tool in TOOLS:
        hidden = TABLE.why_hidden(tool, facts)
        if hidden is not None:
            for step in hidden.do.removeprefix("call ").split(", then "):
                do(step.split(" or ")[0].replace("chrome_connect", "chrome_launch"), 0)
            assert TABLE.visible(tool, facts), hidden.do


# --- any rules --------------------------------------------------------------------------------------------


def table(raw: dict[str, Any], **functions: Any) -> VisibilityTable:
    faults: list[Any] = []
    made = read(raw, RuleRegistry(functions), lambda *fault: faults.append(fault))
    assert faults == []
    return made


def test_a_rule_may_read_who_asks_how_the_server_does_and_what_time_it_is() -> None:
    """The built-in facts stand beside the declared ones."""
    made = table(
        {
            "facts": {"n": 1},
            "visible_when": {
                "t": "n == 1 && 'ops' in roles && era == 'handshake' && time.hour < 25 && server.healthy"
            },
        }
    )
    now = built_in(client="c", era="handshake", roles={"ops"}, state=State.READY, now=datetime.now(UTC))
    facts = made.declared.initial().given(now)

    assert made.visible("t", facts)
    assert made.why_hidden("t", facts.given({"roles": ()})) == HiddenReason(
        reason="needs `'ops' in roles` (roles is [])"
    )


def test_advice_names_calls_whose_answers_may_help_where_no_call_surely_does() -> None:
    """What an answer will say is not known before."""
    made = table(
        {
            "facts": {"mode": "idle", "n": 0},
            "on_success": {"refresh": {"mode": "$.mode"}, "count": {"n": {"add": 1}}},
            "visible_when": {"t": "mode == 'busy'"},
        }
    )

    hidden = made.why_hidden("t", made.declared.initial())

    assert hidden == HiddenReason(
        reason="needs `mode == 'busy'` (mode is \"idle\")", do="call refresh, which may change mode"
    )


def test_advice_names_no_call_that_is_hidden_itself() -> None:
    """It would be refused."""
    made = table(
        {
            "facts": {"on": False},
            "on_success": {"start": {"on": True}},
            "visible_when": {"start": "false", "t": "on"},
        }
    )

    assert made.why_hidden("t", made.declared.initial()) == HiddenReason(reason="needs `on` (on is false)")


def test_a_rule_in_python_gets_advice_too() -> None:
    """The calls that would make it say yes."""
    made = table(
        {
            "facts": {"n": 0},
            "on_success": {"count": {"n": {"add": 1}}, "read": {"n": "$.n"}},
            "visible_when": {"t": {"rule": "many"}, "u": {"rule": "lots"}},
        },
        many=lambda _, facts: facts["n"] > 2 or "has seen too little",
        lots=lambda _, facts: facts["n"] > 99,
    )
    begun = made.declared.initial()

    assert made.why_hidden("t", begun) == HiddenReason(
        reason="has seen too little", do="call count, then count, then count"
    )
    assert made.why_hidden("u", begun) == HiddenReason(
        reason="is hidden by the rule lots", do="call read, which may change n"
    )


def test_advice_takes_no_time_where_many_calls_change_many_facts() -> None:
    """The states that are looked at are few, however many there are."""
    facts = {f"f{n}": False for n in range(30)}
    made = table(
        {
            "facts": {**facts, "n": 0},
            "on_success": {f"put{n}": {f"f{n}": True} for n in range(30)},
            "visible_when": {"t": "n > 5"},
        }
    )

    assert made.why_hidden("t", made.declared.initial()) == HiddenReason(reason="needs `n > 5` (n is 0)")


@settings(max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(["connections", "active", "debugger.enabled", "debugger.paused", "x"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.floats() | st.lists(st.integers()),
    )
)
def test_any_facts_show_or_hide_every_tool_with_a_reason(values: dict[str, Any]) -> None:
    """States may come from a store that others write."""
    facts = Facts(values=values)

    assert shown(facts) == {tool for tool in TOOLS if TABLE.why_hidden(tool, facts) is None}
    assert shown(facts) >= ALWAYS


def test_answers_are_the_same_whether_they_were_asked_before_or_not() -> None:
    """What is remembered is remembered by value."""
    fresh = [parse(MANIFEST, MANIFEST.read_text(), RuleRegistry()) for _ in range(2)]
    states = [facts_of(n, active=a) for n, a in product(range(3), [False, True])]

    forth = [fresh[0].visible_set(TOOLS, facts) for facts in states]
    back = [fresh[1].visible_set(TOOLS, facts) for facts in reversed(states)]

    assert forth == back[::-1]
    assert fresh[0].declared == fresh[1].declared == TABLE.declared
    assert isinstance(TABLE.declared, DeclaredFacts)
