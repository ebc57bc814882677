"""Differences of schemas as clauses; what they mean for tools is tested with definitions."""

import pytest

from maitred.admission.schema_diff import differences, rewording_clause, short


def test_equal_schemas_differ_in_nothing() -> None:
    """Whatever they are, objects or not."""
    for schema in (None, True, {}, {"type": "object", "properties": {"a": True}}, [1]):
        assert list(differences(schema, schema)) == []


def test_a_type_that_changes_beside_a_reference_is_told() -> None:
    """Neither hides the other."""
    [found] = differences({"$ref": "#/a", "type": "string"}, {"$ref": "#/a", "type": "object"})

    assert found.weight == "power"


def test_alternatives_that_only_name_types_are_told_by_the_whole_when_it_has_no_type_of_its_own() -> None:
    """Beside a type of its own they are places, and a change in one is not lost."""
    before = {"type": "string", "anyOf": [{"type": "string"}, {"minLength": 1}]}
    after = {"type": "string", "anyOf": [{"type": "object"}, {"minLength": 1}]}

    assert [found.weight for found in differences(before, after)] == ["power"]


@pytest.mark.parametrize(("old", "new"), [("", "b"), ("a", ""), ("abc", "abd"), ("aa", "aaa"), ("x", "y")])
def test_a_rewording_shows_both_versions(old: str, new: str) -> None:
    """Also where one is the beginning or the end of the other."""
    clause = rewording_clause("it", old, new)

    assert repr(old) in clause or not old
    assert repr(new) in clause or not new


def test_a_line_stays_a_line() -> None:
    """Line breaks and control characters of a server are shown as escapes."""
    assert "\n" not in rewording_clause("it", "a\nb", "a\x1b[31m\nc")
    assert len(short("x" * 1_000)) < 200
