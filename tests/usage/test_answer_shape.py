"""The shape of answers: types and names of fields, never a value, whatever an answer is."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.disclosure.views import returns
from maitred.usage.answer_shape import merge_shapes, shape_of, shape_of_answer

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab_1é@", max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (text("42 files"), "str"),
        (text('{"id": 1, "tags": ["a"], "owner": null}'), "{id: int, tags: str[], owner: null}"),
        (text("[1, 2.5]"), "num[]"),
        (text('{"broken'), "str"),
        ({"structuredContent": {"ok": True}, "content": []}, "{ok: bool}"),
        ({"content": [{"type": "image", "data": "aa", "mimeType": "image/png"}]}, ""),
        ({"content": []}, ""),
        (text(json.dumps({"ann@example.com": {"age": 3}})), "obj"),
        (text(json.dumps({"user_48151623": 1})), "obj"),
        (text(json.dumps({name: {"age": 3} for name in ("ann", "bob", "cid", "dan")})), "obj"),
        (text(json.dumps({f"field_{chr(97 + n)}": 1 for n in range(26)})), "obj"),
    ],
)
def test_an_answer_is_described_by_its_types(answer: dict[str, Any], expected: str) -> None:
    """Names that are data, such as addresses and ids, are left out with their object."""
    assert returns(shape_of_answer(answer), 200) == expected


def test_fields_of_some_answers_are_optional() -> None:
    """Of several answers, what all have is certain."""
    merged = merge_shapes(shape_of({"id": 1, "next": None}), shape_of({"id": 2, "next": "b", "more": True}))

    assert returns(merged, 200) == "{id: int, next: str, more?: bool}"


@given(JSON, JSON)
def test_a_merged_shape_has_no_value_and_merging_it_again_changes_nothing(one: Any, other: Any) -> None:
    """Whatever the answers are, the shape is a valid schema that both fit, but for null."""
    merged = merge_shapes(shape_of(one), shape_of(other))

    assert merge_shapes(merged, shape_of(one)) == merged
    assert merge_shapes(merged, merged) == merged
    assert jsonschema_rs.meta.is_valid({"$schema": "https://json-schema.org/draft/2020-12/schema", **merged})
    assert not {"enum", "const", "default", "examples"} & set(json.dumps(merged).replace('"', " ").split())
