"""A value or a text in a few lines, and cut by its structure: within a budget, and saying what is missing."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maitred.calls.outline import break_at, clip, compact, kind, outline, truncate
from maitred.disclosure.budget import estimate

ISSUES = {
    "items": [{"id": n, "name": f"issue {n}", "labels": ["bug"], "closed": None} for n in range(1200)],
    "next": "page2",
    "total": 1200,
    "ok": True,
}

texts = st.tuples(st.text(max_size=30), st.integers(1, 100)).map(lambda x: x[0] * x[1])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=40), inner, max_size=12),
    max_leaves=40,
)


def deep(levels: int) -> Any:
    """Lists within objects, and so on."""
    value: Any = "core"
    for _ in range(levels):
        value = {"in": [value]}
    return value


# --- outline ----------------------------------------------------------------------------------------------


def test_an_object_is_told_by_its_keys_counts_types_and_first_item() -> None:
    """What a caller needs in order to ask for less the next time."""
    assert outline(ISSUES, 300, estimate) == (
        "object with 4 keys: items (list of 1,200 objects: id int, name str, labels (list of 1 str),"
        " closed null), next str, total int, ok bool\n"
        'first item: {"id":0,"name":"issue 0","labels":["bug"],"closed":null}'
    )


def test_a_smaller_budget_gives_fewer_keys_and_says_so() -> None:
    """The outline thins out rather than breaking off."""
    wide = {f"key_{n}": n for n in range(100)}

    assert outline(wide, 80, estimate).endswith("…+92")
    assert outline(wide, 16, estimate) == "object with 100 keys"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "empty list"),
        ({}, "object with 0 keys"),
        ([1, "a", None], "list of 3 items (integers, nulls, strings)\nfirst item: 1"),
        ([[1, 2], [3]], "list of 2 lists, the first a list of 2 integers\nfirst item: [1,2]"),
        ({"text": "x" * 5000}, "object with 1 key: text str of 5,000 characters"),
        (True, "bool"),
        (1.5, "number"),
    ],
    ids=str,
)
def test_odd_values_have_an_outline_too(value: Any, told: str) -> None:
    """Nothing about a value has to be known before."""
    assert outline(value, 200, estimate) == told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, 2]}', "JSON"),
        ('{"a": 1}\n{"a": 2}\n', "JSON lines"),
        ("<?xml version='1.0'?><a><b/></a>", "XML"),
        ("<!DOCTYPE html>\n<html><body>Hi</body></html>", "HTML"),
        ("id,name,price\n1,a,2\n2,b,3\n3,c,4\n", "CSV"),
        ("# Title\n\nSome words.\n\n## More\n- one\n- two\n", "Markdown"),
        ("2026-01-02T10:00:00Z INFO up\n2026-01-02T10:00:01Z WARN hot\n", "log lines"),
        ("Dear all,\nthis is a letter.\nYours\n", "plain text"),
        ("", "plain text"),
    ],
    ids=lambda x: x[:12],
)
def test_the_kind_of_a_text_is_guessed_by_its_first_lines(text: str, expected: str) -> None:
    """Good enough for a reader to know what to expect."""
    assert kind(text) == expected


def test_a_text_is_told_by_its_kind_size_and_first_lines() -> None:
    """Blank lines are left out, so that the outline stays in one piece."""
    text = "\n".join(["id,name", "", *(f"{n},name {n}" for n in range(2000))])

    assert outline(text, 200, estimate) == (
        "CSV, 2,002 lines, 27,788 characters; it begins:\nid,name\n0,name 0\n1,name 1\n2,name 2\n3,name 3"
    )


@given(values, st.integers(0, 400))
@settings(max_examples=150, deadline=None)
def test_an_outline_never_exceeds_its_budget(value: Any, budget: int) -> None:
    """Whatever the value, and however small the budget."""
    assert estimate(outline(value, budget, estimate)) <= budget


# --- cut --------------------------------------------------------------------------------------------------


def test_a_value_that_fits_is_returned_itself() -> None:
    """The same object, not a copy."""
    value = {"a": [1, 2, 3]}

    assert truncate(value, 100, estimate) == (value, False)
    assert truncate(value, 100, estimate)[0] is value


def test_keys_are_kept_and_lists_say_how_many_items_are_missing() -> None:
    """The small members stay whole; the long list takes what they leave."""
    made, was_cut = truncate(ISSUES, 500, estimate)

    assert was_cut
    assert {k: v for k, v in made.items() if k != "items"} == {"next": "page2", "total": 1200, "ok": True}
    *kept, marker = made["items"]
    assert kept == ISSUES["items"][: len(kept)]  # type: ignore[index]
    assert len(kept) > 5
    assert marker == f"…+{1200 - len(kept):,} more items"


def test_long_strings_share_the_budget_fairly_and_say_what_is_missing() -> None:
    """One long text does not crowd out another."""
    made, _ = truncate({"a": "x " * 4000, "b": "y " * 9000, "c": "short"}, 600, estimate)

    assert made["c"] == "short"
    assert abs(len(made["a"]) - len(made["b"])) < 10
    end = made["a"].partition("…")[0]
    assert made["a"] == f"{end}…+{8000 - len(end):,} characters"


def test_more_keys_than_fit_are_counted() -> None:
    """An object used as a table is cut like a list."""
    made, _ = truncate({f"user_{n}": {"visits": n} for n in range(5000)}, 300, estimate)

    assert made["user_0"] == {"visits": 0}
    assert made["…"] == f"+{5000 - (len(made) - 1):,} more keys"


def test_a_budget_that_fills_is_used() -> None:
    """Cutting leaves out little more than it must."""
    text = compact(truncate(ISSUES["items"], 2000, estimate)[0])

    assert 1700 <= estimate(text) <= 2000


@pytest.mark.parametrize("levels", [30, 150, 5000])
def test_a_value_nested_without_end_is_cut_at_a_level(levels: int) -> None:
    """No recursion follows it down."""
    made, was_cut = truncate(deep(levels), 60, estimate)

    assert was_cut
    assert estimate(compact(made)) <= 60
    assert "characters" in outline("x" * 999 + compact(deep(levels)), 100, estimate)
    assert outline(deep(levels), 100, estimate).startswith("object with 1 key: in (list of 1 object")


def test_half_a_character_is_encoded_as_it_is() -> None:
    """Lone surrogates occur in what servers send; they must not fail here."""
    assert compact({"a": "\ud83d"}) == '{"a":"\ud83d"}'
    assert json.loads(compact({"a": "\ud83d"}, indent=2)) == {"a": "\ud83d"}


@given(values, st.integers(3, 400))
@settings(max_examples=200, deadline=None)
def test_a_cut_value_always_fits_and_an_uncut_one_is_whole(value: Any, budget: int) -> None:
    """The two promises of cutting, for any value."""
    made, was_cut = truncate(value, budget, estimate)

    assert estimate(compact(made)) <= budget
    assert was_cut == (made is not value)
    assert was_cut == (estimate(compact(value)) > budget) or len(compact(value)) > 12 * budget


# --- texts ------------------------------------------------------------------------------------------------


def test_a_text_is_clipped_at_a_line_end_and_says_what_is_missing() -> None:
    """No line is shown in half."""
    text = "".join(f"line {n}\n" for n in range(3000))

    start, was_clipped = clip(text, 200, estimate)

    *lines, marker = start.split("\n")
    assert was_clipped
    assert lines == text.split("\n")[: len(lines)]
    assert marker == f"…+{len(text) - len(''.join(f'{x}{chr(10)}' for x in lines)):,} characters"


def test_a_break_is_never_inside_a_character() -> None:
    """A pair of surrogates is one character for whoever decodes it."""
    assert break_at("ab\ud83d\ude00cd", 3) == 2
    assert break_at("ab\ud83d\ude00cd", 4) == 4
    assert break_at("short", 50) == 5
