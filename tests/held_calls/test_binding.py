"""What an approval is bound to, what a person reads, and what an answer of a client means."""

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.chains.pauses import Pauses
from maitred.held_calls.binding import binding_of, exact_text, subject_of
from maitred.held_calls.question import decision_of, exact_name, question_of
from maitred.model.held_calls import HeldCall
from maitred.model.tools import Mediation, Tool, ToolCall, ToolKey, canonical

TOOL = Tool(
    key=ToolKey(server="bank", name="refund"), name="bank__refund", title="", description="Pay.",
    input_hash="1", output_hash="2", annotations={}, extra={}, cost_tokens=1,
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def bound(tool: Tool = TOOL, subject: Any = None, **changes: str) -> str:
    parts = {"principal": "ann", "fingerprint": "f", "policy": "p", **changes}
    principal = parts.pop("principal")
    return binding_of(principal, tool, {} if subject is None else subject, **parts).digest


def held(arguments: Any, *choices: Any, **fields: Any) -> HeldCall:
    return HeldCall(
        id="1",
        binding=binding_of("ann", TOOL, arguments, fingerprint="", policy=""),
        name="bank__refund",
        arguments=canonical(arguments).decode(),
        why="`true`",
        by="caller",
        choices=choices or ("once", "refuse"),
        expires_at="2026-03-01T09:46:00.120+00:00",
        **fields,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"principal": "bob"},
        {"fingerprint": "g"},
        {"policy": "q"},
        {"subject": {"a": 1}},
        {"tool": replace(TOOL, description="Pay!")},
        {"tool": replace(TOOL, annotations={"readOnlyHint": True})},
        {"tool": replace(TOOL, input_hash="3")},
        {"tool": replace(TOOL, extra={"_meta": {"a": 1}})},
        {"tool": replace(TOOL, key=ToolKey(server="bank", name="refund2"))},
    ],
)
def test_a_difference_in_any_part_asks_again(changes: dict[str, Any]) -> None:
    assert bound(**changes) != bound()


def test_a_better_text_of_mediation_is_no_difference() -> None:
    """The server's own definition counts, whatever agents read in its place."""
    own = Mediation(by="rules", description="Pay.", input_hash="1")
    assert bound(replace(TOOL, description="Pays money back.", input_hash="9", mending=own)) == bound()


@given(JSON, JSON)
def test_equal_hashes_mean_equal_arguments_down_to_the_type(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (bound(subject={"a": one}) == bound(subject={"a": other})) == same


def test_the_order_of_keys_makes_no_difference_and_a_type_does() -> None:
    assert bound(subject={"a": 1, "b": 2}) == bound(subject={"b": 2, "a": 1})
    assert len({bound(subject={"a": one}) for one in (1, 1.0, True, "1", [1], None)}) == 6


def test_answers_that_come_with_a_call_are_a_part_of_it() -> None:
    call = ToolCall(name="x", arguments={"a": 1})
    answered = replace(call, input_responses={"q": {"action": "accept"}})
    assert subject_of(call) == {"a": 1}
    assert subject_of(answered)["inputResponses"] == {"q": {"action": "accept"}}
    assert subject_of(answered, alone=True) == {"a": 1}


@given(st.dictionaries(st.text(), JSON, max_size=3))
def test_what_a_person_reads_is_the_exact_value_and_every_character_shows(value: Any) -> None:
    try:
        canonical(value).decode()
    except UnicodeDecodeError:
        return  # half a character, which no call may have
    text = exact_text(canonical(value).decode())
    assert json.loads(text) == value
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize(
    "hidden",
    [
        *"\u2800\ufe0e\ufe0f\u17b4\u17b5\u180b\u180c\u180d\u180f\u034f\u3164\uffa0\u115f\xa0\u200d\x7f",
        "\U000e0041",
        "\U000e0100",
    ],
)
def test_a_character_that_does_not_show_is_an_escape(hidden: str) -> None:
    """Also where an emoji is before it."""
    for value in (f"a{hidden}b", f"\u263a{hidden}"):
        text = exact_text(json.dumps(value))
        assert hidden not in text
        assert json.dumps(hidden)[1:-1] in text
        assert json.loads(text) == value


def test_of_a_tower_of_marks_only_the_first_are_drawn() -> None:
    value = "a" + "\u0301" * 9 + "e\u0301"
    text = exact_text(json.dumps(value))
    assert text == '"a' + "\u0301" * 3 + "\\u0301" * 6 + 'e\u0301"'
    assert json.loads(text) == value


def test_a_question_offers_what_may_be_decided_and_nothing_else() -> None:
    plain = question_of(held({"a": 1}))
    assert plain is not None
    assert plain["requestedSchema"] == {"type": "object", "properties": {}}
    wide = question_of(held({"a": 1}, "once", "session", "any", "refuse"))
    assert wide is not None
    assert wide["requestedSchema"]["properties"]["allow"]["enum"] == ["once", "session", "any"]
    assert "refused at 2026-03-01 09:46:00 UTC" in wide["message"]
    assert exact_name("a\u202eb\n") == r"'a\u202eb\n'"


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ({"action": "accept"}, "once"),
        ({"action": "accept", "content": None}, "once"),
        ({"action": "accept", "content": {}}, "once"),
        ({"action": "accept", "content": {"allow": "session"}}, "session"),
        ({"action": "accept", "content": {"allow": "any"}}, "refuse"),
        ({"action": "accept", "content": {"allow": "refuse"}}, "refuse"),
        ({"action": "decline", "content": {"allow": "once"}}, "refuse"),
        ({"action": "cancel"}, "refuse"),
        ({}, "refuse"),
    ],
)
def test_an_answer_allows_only_what_was_offered(answer: dict[str, Any], decision: str) -> None:
    assert decision_of(answer, held({}, "once", "session", "refuse")) == decision


@pytest.mark.anyio
async def test_no_time_passes_in_a_pause() -> None:
    """Pauses may overlap; a deadline that was set meanwhile, to end the chain, stays."""
    pauses, now = Pauses(), anyio.current_time()
    scope, late = anyio.CancelScope(deadline=now + 100), anyio.CancelScope(deadline=now + 9)
    with pauses.moving(scope):
        with pauses.paused():
            with pauses.paused(), pauses.moving(late):
                assert scope.deadline == late.deadline == float("inf")
            assert scope.deadline == float("inf")
        left_s = scope.deadline - anyio.current_time()
        assert 90 < left_s <= 100
        with pauses.paused():
            scope.deadline = anyio.current_time() + 1
        assert scope.deadline <= anyio.current_time() + 1
