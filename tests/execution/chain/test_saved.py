"""Saved chains: read with every fault named, held to what was reviewed, called with arguments."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.chains.saved_chain import SavedChain, parse_saved
from maitred.errors import ArgumentsError, ConfigError, ToolWithheldError

TEXT = """
description: Count the open issues of a repository.
parameters:
  type: object
  properties:
    repo: {type: string}
    limit: {type: integer, default: 50, maximum: 100}
    label: {type: string}
  required: [repo]
read_only: true
code: |
  import github
  found = await github.search(query=repo, limit=limit)
  return len(found)
"""
CHAIN = parse_saved("count_issues", TEXT)


def faults(text: str, name: str = "count_issues") -> str:
    """What is wrong with a file."""
    with pytest.raises(ConfigError) as caught:
        parse_saved(name, text)
    return str(caught.value)


def written(**changes: Any) -> str:
    """A file as JSON."""
    return json.dumps({"description": "Does it.", "code": "return 1", **changes})


# --- reading ----------------------------------------------------------------------------------------------


def test_a_file_is_read_as_yaml_or_as_json() -> None:
    """Numbers of the schema are numbers, the program keeps its lines."""
    assert CHAIN.description == "Count the open issues of a repository."
    assert CHAIN.read_only
    assert CHAIN.parameters["properties"]["limit"] == {"type": "integer", "default": 50, "maximum": 100}
    assert CHAIN.code.startswith("import github\nfound")
    as_json = {key: getattr(CHAIN, key) for key in ("description", "parameters", "code", "read_only")}
    assert parse_saved("count_issues", json.dumps(as_json)) == CHAIN


def test_parameters_and_read_only_may_be_left_out() -> None:
    """What is not said to be read-only is not."""
    chain = parse_saved("one", written())

    assert (chain.read_only, chain.parameters) == (False, {"type": "object", "properties": {}})


def test_all_faults_of_a_file_are_told_at_once_by_key() -> None:
    """So that one look mends them all."""
    told = faults(
        "code: ''\nread_only: maybe\nparameter: {}\nparameters: {type: array}\ndescription: [1]", "Bad-Name"
    )

    assert "saved chain 'Bad-Name': 6 faults" in told
    for key in ("name:", "parameter: is not known", "description:", "code:", "read_only:", "parameters:"):
        assert f"\n  {key}" in told


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"type": "object", "properties": {"x y": {}}}, "'x y' cannot be the name of a variable"),
        ({"type": "object", "properties": {"call_tool": {}}}, "'call_tool' cannot be"),
        ({"type": "object", "properties": {"__name__": {}}}, "cannot be the name"),
        ({"type": "object", "properties": {"class": {}}}, "'class' cannot be"),
        ({"type": "object", "properties": {"x": {"type": "strin"}}}, "not a valid JSON Schema"),
        ({"type": "object", "properties": {}, "required": ["x"]}, "names 'x'"),
        (
            {"type": "object", "properties": {"x": {"type": "integer", "default": "a"}}},
            'default of "a" is not',
        ),
        ({"type": "object", "properties": []}, "`properties` must be a mapping"),
        ([1], "type: object"),
    ],
)
def test_parameters_that_cannot_be_variables_are_refused(parameters: Any, told: str) -> None:
    """They stand as variables before the first line of the program."""
    assert told in faults(written(parameters=parameters))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must be a mapping"),
        ("- a", "must be a mapping"),
        ("code: [", "line 1"),
        ("code: &a x\ndescription: *a", "alias"),
        ("code: 2020-01-01\ndescription: !!python/object:os.system x", "line 2"),
        ("description: d\ncode: c\nparameters: {type: object, default: .nan}", "JSON"),
        ("description: d\ncode: c\ncode: d", "line 3"),
        ("x" * 200_001, "longer than 200,000"),
        ("[" * 50_000, "nested"),
        ('{"code": ' + "[" * 5_000, "nested"),
        ("a: \0", "special characters"),
    ],
    ids=lambda x: x[:20].replace("\0", "NUL"),
)
def test_a_text_that_cannot_be_read_says_why(text: str, told: str) -> None:
    """Whatever it tries."""
    assert told in faults(text)


@given(st.text() | st.text(alphabet="{}[]:,&*!#|>-'\"\n ab0").map("code: ".__add__))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    """It is a chain, or its faults are told."""
    with suppress(ConfigError):
        parse_saved("a", text)


# --- the hash ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"description": "other"},
        {"code": "return 2"},
        {"parameters": {"type": "object", "properties": {}}},
        {"read_only": False},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_chain_that_was_changed_since_its_review_is_refused(changes: dict[str, Any]) -> None:
    """Whatever of it was changed."""
    CHAIN.verify(CHAIN.hash)

    with pytest.raises(ToolWithheldError, match="changed since it was reviewed"):
        replace(CHAIN, **changes).verify(CHAIN.hash)
    with pytest.raises(ToolWithheldError, match="not reviewed yet"):
        CHAIN.verify("")


def test_the_hash_does_not_depend_on_how_the_file_is_written() -> None:
    """The order of keys, quotes and comments mean nothing."""
    one = parse_saved("a", "description: d\ncode: c\nparameters: {type: object, properties: {x: {}, y: {}}}")
    two = parse_saved(
        "a", "# a comment\nparameters: {properties: {y: {}, x: {}}, type: object}\ncode: 'c'\ndescription: d"
    )

    assert one.hash == two.hash
    assert len(one.hash) == 64


# --- calling ----------------------------------------------------------------------------------------------


def test_parameters_are_variables_of_the_program() -> None:
    """With the argument, else the default, else None; never undefined."""
    program = CHAIN.program({"repo": "a/b"})

    assert program.code == CHAIN.code
    assert program.inputs == {"repo": "a/b", "limit": 50, "label": None}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "repo"),
        ({"repo": 1}, "repo"),
        ({"repo": "a", "limit": 500}, "limit"),
        ({"repo": "a", "x": 1}, "x:"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_parameters(
    arguments: dict[str, Any], told: str
) -> None:
    """Nothing undeclared becomes a variable either."""
    with pytest.raises(ArgumentsError) as caught:
        CHAIN.program(arguments)

    assert told in str(caught.value)
    assert '"default":50' in str(caught.value)


def test_a_chain_made_by_hand_is_the_same_as_one_that_was_read() -> None:
    """They are values."""
    assert SavedChain(**{key: getattr(CHAIN, key) for key in CHAIN.__dataclass_fields__}) == CHAIN
