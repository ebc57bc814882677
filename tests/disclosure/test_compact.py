"""Definitions in lists: what says nothing is left out, and whatever might mean something stays."""

from typing import Any

import jsonschema_rs
import pytest
from tests.support import corpus

from maitred.disclosure.compact import compact, compact_schema

DRAFT_07 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def test_titles_that_repeat_a_name_are_left_out_and_others_stay() -> None:
    """As the SDK for Python writes them, for parameters, definitions and the whole. Source: docs/menu.md."""
    schema = {
        "title": "create_userArguments",
        "type": "object",
        "properties": {
            "user_name": {"title": "User Name", "type": "string"},
            "title": {"title": "Title", "type": "string"},
            "kind": {"title": "Kind of account", "type": "string"},
            "home": {"$ref": "#/$defs/Home"},
        },
        "$defs": {"Home": {"title": "Home", "type": "object", "properties": {}}},
    }

    made = compact({"name": "crm__create_user", "inputSchema": schema, "outputSchema": {"title": "Users"}})

    assert made["inputSchema"] == {
        "type": "object",
        "properties": {
            "user_name": {"type": "string"},
            "title": {"type": "string"},
            "kind": {"title": "Kind of account", "type": "string"},
            "home": {"$ref": "#/$defs/Home"},
        },
        "$defs": {"Home": {"type": "object", "properties": {}}},
    }
    assert made["outputSchema"] == {"title": "Users"}


@pytest.mark.parametrize(
    ("dialect", "beside", "stays"),
    [
        (DRAFT_07, {}, False),
        (DRAFT_2020, {}, True),
        ("http://json-schema.org/draft-04/schema#", {}, True),
        (DRAFT_07, {"properties": {"a": {"items": [{"type": "string"}]}}}, True),
        (DRAFT_07, {"properties": {"a": {"$ref": "#/definitions/b", "minLength": 2}}}, True),
        (DRAFT_07, {"properties": {"a": {"$ref": "#/definitions/b", "description": "B."}}}, False),
        (DRAFT_07, {"properties": {"dependencies": {"type": "string"}}}, False),
        (DRAFT_07, {"dependencies": {"a": ["b"]}}, True),
        (DRAFT_07, {"properties": {"a": {"format": "email"}}}, True),
        (DRAFT_07, {"properties": {"a": {"default": {"items": [1]}}}}, False),
    ],
)
def test_a_dialect_is_left_out_where_the_schema_means_the_same_without_it(
    dialect: str, beside: dict[str, Any], stays: bool
) -> None:
    """The protocol's default is 2020-12; draft-07 differs from it in a few keywords. Source: docs/menu.md."""
    schema = {"$schema": dialect, "type": "object", **beside}

    assert ("$schema" in compact_schema(schema)) is stays


def test_defaults_choices_and_what_is_not_known_stay() -> None:
    """Values may look like schemas. Source: maitred."""
    schema = {
        "type": "object",
        "properties": {"mode": {"enum": ["a"], "default": {"title": "mode", "required": []}, "x-own": [1]}},
        "additionalProperties": False,
        "required": ["mode"],
        "examples": [{"title": "mode"}],
    }

    assert compact_schema(schema, "mode") == schema


def test_texts_lose_the_indentation_of_a_docstring_alone() -> None:
    """Deeper lines stay deeper. Source: docs/menu.md."""
    text = "Find a user.\n\n        Args:\n            name: Of whom.\n        "

    made = compact({"name": "a__b", "description": text, "inputSchema": {"type": "object", "required": []}})

    assert made["description"] == "Find a user.\n\nArgs:\n    name: Of whom."
    assert made["inputSchema"] == {"type": "object"}


def test_every_schema_of_a_corpus_takes_the_same_arguments_as_before() -> None:
    """Checked with one set of values against both forms, in the dialect that each names. Source: maitred."""
    values: list[Any] = [{}, {"a": 1}, {"name": "x"}, {"path": 1}, {"query": None}]
    compared = 0
    for record in corpus.generate(servers=20, tools=200):
        for tool in record["tools"]:
            schema = tool.get("inputSchema")
            if not isinstance(schema, dict):
                continue
            for value in values:
                assert _takes(schema, value) == _takes(compact_schema(schema, str(tool.get("name"))), value)
                compared += 1

    assert compared > 500


def _takes(schema: dict[str, Any], value: Any) -> bool | str:
    try:
        return jsonschema_rs.validator_for(schema).is_valid(value)
    except jsonschema_rs.ValidationError as error:  # a schema that no validator reads stays so
        return type(error).__name__
