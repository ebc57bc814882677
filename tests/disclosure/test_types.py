"""Types in a few characters, for every schema that a server may send."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maitred.disclosure.signature import parameters, type_of

ITEM = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
}
DEFS = {"$defs": {"item": ITEM, "a/b~c": {"type": "boolean"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "num"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "null"),
        ({"type": "array"}, "any[]"),
        ({"type": "array", "items": {"type": "string"}}, "str[]"),
        ({"type": "array", "items": {"type": ["string", "integer"]}}, "(str|int)[]"),
        ({"type": "object"}, "obj"),
        (ITEM, "{id: int, note?: str}"),
        ({"type": "array", "items": ITEM}, "{id: int, note?: str}[]"),
        ({"enum": ["a", "b"]}, '"a"|"b"'),
        ({"enum": ["a", None]}, '"a"'),
        ({"enum": [None]}, "null"),
        ({"enum": list("abcdefgh")}, '"a"|"b"|"c"|"d"|"e"|"f"|…+2'),
        ({"const": 5}, "5"),
        ({"type": ["string", "null"]}, "str"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "str|int"),
        ({"$ref": "#/$defs/item"}, "{id: int, note?: str}"),
        ({"$ref": "#/$defs/a~1b~0c"}, "bool"),
        ({"$ref": "#/$defs/nowhere"}, "any"),
        ({"$ref": "https://example.com/schema"}, "any"),
        ({"allOf": [{"$ref": "#/$defs/item"}], "type": "object"}, "{id: int, note?: str}"),
        ({}, "any"),
        (True, "any"),
        (None, "any"),
        ({"type": "nonsense"}, "any"),
        ({"type": 5}, "any"),
    ],
)
def test_a_type_reads_as_an_agent_would_write_it(schema: Any, expected: str) -> None:
    """The notation of the menu's lines. Source: DESIGN 5."""
    assert type_of(schema, DEFS) == expected


def test_required_parameters_come_first_and_keep_their_order() -> None:
    """An agent reads what it must give before what it may give."""
    schema = {
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {}, "d": {"type": "boolean"}},
        "required": ["d", "b", "undeclared"],
    }

    assert list(parameters(schema)) == [
        ("b", "int", True), ("d", "bool", True), ("undeclared", "any", True),
        ("a", "str", False), ("c", "any", False),
    ]  # fmt: skip


def test_parts_joined_by_all_of_count_as_parameters() -> None:
    """Generated schemas often put half of their parameters into `allOf`."""
    part = {"properties": {"b": {"type": "integer"}}, "required": ["b"]}

    assert list(parameters({"properties": {"a": {}}, "allOf": [part]})) == [
        ("b", "int", True),
        ("a", "any", False),
    ]


@pytest.mark.timeout(60)
def test_a_schema_that_contains_itself_many_times_over_is_told_at_once() -> None:
    """Fifty references to the whole are not followed fifty times fifty times. Source: DESIGN 5, rule 6."""
    schema = {"type": "object", "properties": {f"p{number}": {"$ref": "#"} for number in range(50)}}

    assert len(list(parameters(schema))) == 50


@pytest.mark.timeout(60)
def test_choices_of_choices_are_told_at_once() -> None:
    """The same through `anyOf` and arrays."""
    options = [{"$ref": "#/$defs/a"}] * 50
    schema = {
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"anyOf": options, "items": options}},
    }

    assert [name for name, _, _ in parameters(schema)] == ["x"]


def test_references_that_go_in_a_circle_end() -> None:
    """`a` is `b` and `b` is `a`: nothing is known, and nothing hangs."""
    schema = {
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    }

    assert list(parameters(schema)) == [("x", "any", False)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["string", "object", "array", "#", "#/properties/type", "#/$defs/type"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"]
        )
        | st.sampled_from(["$defs"])
        | st.text(max_size=3),
        inner,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@settings(max_examples=300, deadline=1000)
@given(json_values)
def test_any_json_value_is_taken_for_a_schema_without_a_fault(value: Any) -> None:
    """Servers send invalid, empty and misplaced schemas. Source: notes/real-servers.md."""
    assert isinstance(type_of(value, value), str)
    assert all(isinstance(name, str) and kind for name, kind, _ in parameters(value))


@pytest.mark.alone
def test_a_small_schema_cannot_make_a_signature_expensive() -> None:
    """Thousands of parameters that each refer to the whole cost no more than a moment; the rest is `any`."""
    schema = {"type": "object", "properties": {f"p{n}": {"$ref": "#"} for n in range(6_000)}}

    started = time.process_time()
    found = list(parameters(schema))

    assert time.process_time() - started < 2
    assert len(found) == 6_000
    assert found[-1] == ("p5999", "any", False)
