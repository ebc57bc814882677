"""Examples of calls from schemas: they fit, or there is none."""

from typing import Any

import pytest
from tests.catalog.makers import corpus_snapshot

from maitred.calls.arguments import ArgumentChecker
from maitred.disclosure.examples import call_examples

STR = {"type": "string"}


def schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (schema(["a"], a={"type": "integer", "minimum": 7}), [{"a": 7}]),
        (
            schema(["a"], a={**STR, "examples": ["x", "y"]}, b={**STR, "default": "z"}),
            [{"a": "x"}, {"a": "x", "b": "z"}],
        ),
        (schema(["a"], a={"enum": [None, "red", "green"]}), [{"a": "red"}]),
        (schema(["path"], path=STR), [{"path": "<path>"}]),
        (schema(["at"], at={**STR, "format": "date"}), [{"at": "2026-01-31"}]),
        (schema(["id"], id={**STR, "pattern": "^[A-Z]{3}$"}), []),
        (
            schema(["to"], to={"type": "array", "items": {"$ref": "#/$defs/m"}})
            | {"$defs": {"m": {"const": 3}}},
            [{"to": [3]}],
        ),
        (schema(["o"], o=schema(["n"], n={"type": "number"}, m=STR)), [{"o": {"n": 1}}]),
        (schema(["a"], a={"anyOf": [{"type": "null"}, {"type": "boolean"}]}), [{"a": True}]),
        (schema([], a=STR) | {"examples": [{"a": "whole"}]}, [{"a": "whole"}]),
        (schema([], a=STR), []),
        ({"type": "object"}, []),
        (None, []),
    ],
)  # fmt: skip
def test_examples_come_from_what_the_schema_names(given: Any, expected: list[Any]) -> None:
    """Its own examples, defaults and choices first; what a text means is not guessed."""
    assert call_examples(given) == expected


def test_most_examples_of_real_schemas_fit() -> None:
    """Those that do not fit are dropped by the gateway, and a schema of any form makes no error."""
    snapshot = corpus_snapshot("generated")
    assert snapshot is not None
    checker, fitting, made = ArgumentChecker(), 0, 0
    for tool in snapshot.tools[:2_000]:
        found = snapshot.schema(tool.input_hash)
        for example in call_examples(found):
            made += 1
            fitting += not checker.faults(tool.input_hash, snapshot.schema, example)

    assert made > 500
    assert fitting / made > 0.9
