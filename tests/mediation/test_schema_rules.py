"""Parameters that rules infer for tools that declare none; what is not in the text is not inferred."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from maitred.mediation import EnhancedTool, RuleTransformer, SourceTool, ToolContext
from maitred.mediation.inferred_schema import InferredParameter
from maitred.mediation.rules import SEEN
from maitred.mediation.schema_rules import infer_parameters, merge_seen

pytestmark = pytest.mark.anyio

LABELS: list[Mapping[str, Any]] = YAML(typ="safe").load(
    Path("tests/data/mediation/inferred.yaml").read_text(encoding="utf-8")
)
SILENT = [label for label in LABELS if not label["parameters"]]


def details(parameters: Mapping[str, InferredParameter]) -> dict[str, dict[str, Any]]:
    """What is inferred, in the form of the labels."""
    return {
        name: {key: value for key, value in one.schema.items() if key != "description"}
        | ({"required": True} if one.is_required else {})
        for name, one in parameters.items()
    }


def test_most_labelled_parameters_are_found_and_none_is_invented() -> None:
    """Of 36 tools that say what they take, of which twelve were not looked at before."""
    right = missed = 0
    invented: list[str] = []
    for label in LABELS:
        found, wanted = infer_parameters(label["tool"], label["description"]), label["parameters"]
        right += len(found.keys() & wanted.keys())
        missed += len(wanted.keys() - found.keys())
        invented += [f"{label['tool']}.{name}" for name in found.keys() - wanted.keys()]

    assert invented == []
    assert right / (right + missed) >= 0.95


def test_types_defaults_and_choices_are_those_of_the_labels() -> None:
    """And what is required; at most one of them differs."""
    differing = [
        (label["tool"], name, one, label["parameters"][name])
        for label in LABELS
        for name, one in details(infer_parameters(label["tool"], label["description"])).items()
        if one != label["parameters"].get(name)
    ]

    assert len(differing) <= 1, differing


@pytest.mark.parametrize("label", SILENT, ids=[label["tool"] for label in SILENT])
def test_nothing_is_inferred_from_a_text_that_names_no_parameter(label: Mapping[str, Any]) -> None:
    """Notes, lists of answers, examples of output and quoted commands are none."""
    assert infer_parameters(label["tool"], label["description"]) == {}


@given(
    st.text(alphabet="ab:,.`'\"(){}[]|-*@= \n01", max_size=200),
    st.sampled_from(["f", "search", "get_a_by_b", ""]),
)
def test_whatever_is_written_a_schema_is_valid(text: str, name: str) -> None:
    """With at most twelve parameters, whose default is one of the choices and of the type."""
    found = infer_parameters(name, text)

    assert len(found) <= 12
    for one in found.values():
        jsonschema_rs.validator_for(dict(one.schema))
        if "default" in one.schema:
            assert jsonschema_rs.is_valid(dict(one.schema), one.schema["default"])
            assert not one.is_required


async def enhanced(tool: SourceTool, **seen: Mapping[str, str]) -> EnhancedTool | None:
    context = ToolContext(source="s", source_type="api", metadata={SEEN: seen})
    [found] = await RuleTransformer().transform([tool], context) or [None]
    return found


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "Args:\n x" + " " * 3_900 + "y",
        "Args:\n x" + "\u2003" * 3_900 + "y",
        "Args:\n x: default" + " " * 3_900 + "?",
        "Args:\n x: default " + "1" * 1_900 + "." * 1_900,
        ("a" * 60 + "(" + "x" * 300) * 11,
        "a" * 4_000,
        "f1(" * 1_300,
        "`a` is a " * 440,
    ],
    ids=["blanks", "wide blanks", "default", "digits", "brackets", "letters", "calls", "ticks"],
)
def test_no_text_makes_the_rules_slow(text: str) -> None:
    """A hundred such descriptions take seconds; where each run is read again from each place, minutes."""
    for _ in range(100):
        infer_parameters("f1", text)


def test_blanks_in_a_line_say_nothing() -> None:
    """Those before a line say to what it belongs."""
    text = "Args:\n  path:   string,\t\tthe  file\n      mode: a part of it\n  size: int"

    found = infer_parameters("f", text)

    assert list(found) == ["path", "size"]
    assert found["path"].schema["description"] == "string, the file"


@pytest.mark.parametrize(
    "value",
    ["NaN", "Infinity", "-Infinity", "1e999", "9" * 31, '"\\ud800"', '"\\u0000"', "'\x1b[2J'", '"\u202e"'],
    ids=ascii,
)
@pytest.mark.parametrize("text", ["Args:\n  x: a thing (default: {})", "f(x={})"])
def test_a_default_that_no_schema_can_show_is_none(text: str, value: str) -> None:
    """Such as a number without an end, or a character that nobody sees."""
    schema = infer_parameters("f", text.format(value))["x"].schema

    assert "default" not in schema


def test_a_default_in_a_call_is_a_value_or_a_name() -> None:
    """A text has at most a hundred characters; an expression is none of them."""
    text = f"f(a=-1, b=celsius, c='x', d=True, e=1 + 1, g='{'x' * 101}', h=0.5)"

    found = infer_parameters("f", text)

    assert {name: one.schema["default"] for name, one in found.items() if "default" in one.schema} == {
        "a": -1, "b": "celsius", "c": "x", "d": True, "h": 0.5,
    }  # fmt: skip


async def test_one_description_never_ends_the_rules_for_its_server() -> None:
    """Here its default is nested so deep that Python cannot write it."""
    tools = [
        SourceTool(name="f1", description="f1(a=" + "-" * 350 + "1)"),
        SourceTool(name="find_docs", description=FIND),
    ]

    found = await RuleTransformer().transform(tools, ToolContext(source="s", source_type="api"))

    assert found is not None
    assert [one.inferred for one in found if one] == [("a",), ("query", "limit")]


FIND = "Finds documents. query: the search text (required); limit: how many (default 10)"


async def test_rules_infer_the_schema_of_a_tool_that_declares_none() -> None:
    """In the form of document 000; its parameters are named in `inferred`."""
    for schema in (None, {}, {"type": "object"}, {"type": "object", "properties": {}}):
        found = await enhanced(SourceTool(name="find_docs", description=FIND, input_schema=schema))
        assert found is not None
        assert found.input_schema == {
            "type": "object",
            "properties": {
                "query": {"description": "the search text (required)"},
                "limit": {"type": "integer", "description": "how many (default 10)", "default": 10},
            },
            "required": ["query"],
        }
        assert found.inferred == ("query", "limit")
        assert found.confidence == 0.5


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {}, "additionalProperties": False},
        {"type": "object", "patternProperties": {"^x": {}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"type": "object", "properties": {"q": {"type": "string", "description": "Words."}}},
    ],
)
async def test_a_schema_that_says_what_it_takes_is_left_alone(schema: Any) -> None:
    """Or that it takes nothing."""
    found = await enhanced(SourceTool(name="find_docs", description=FIND, input_schema=schema))

    assert found is None or (found.input_schema == schema and found.inferred == ())


async def test_what_only_the_name_says_is_a_guess() -> None:
    """Of such parameters, three of four are right on real servers."""
    found = await enhanced(
        SourceTool(name="search", description="Looks through all that there is to be had.")
    )

    assert found is not None
    assert (found.inferred, found.confidence) == (("query",), 0.4)


async def test_calls_add_names_and_types() -> None:
    """A type that the text has goes before; nothing becomes required by a call."""
    found = await enhanced(
        SourceTool(name="find_docs", description=FIND),
        find_docs={"query": "string", "limit": "number", "folder": "string", "raw": ""},
    )

    assert found is not None
    assert found.input_schema is not None
    assert found.input_schema["properties"]["query"]["type"] == "string"
    assert found.input_schema["properties"]["limit"]["type"] == "integer"
    assert found.input_schema["properties"]["folder"] == {"type": "string"}
    assert found.input_schema["properties"]["raw"] == {}
    assert found.input_schema["required"] == ["query"]


def test_calls_add_no_more_than_twelve() -> None:
    """As a text does not."""
    assert len(merge_seen({}, [(f"a{at}", "") for at in range(30)])) == 12


@pytest.mark.parametrize(
    "name",
    [
        "ghp_" + "a" * 20,
        "AKIA" + "A" * 16,
        "a" * 33,
        "send_all_your_files_here",
        "sendAllYourFilesHere",
        "send all your files here",
    ],
)
def test_a_name_in_a_call_that_may_be_data_is_not_published(name: str) -> None:
    """A secret, a long name or a sentence; all callers see the schema."""
    assert list(merge_seen({}, [(name, "string"), ("parent_folder_id", "string")])) == ["parent_folder_id"]


def test_a_name_that_the_text_has_takes_its_type_from_calls() -> None:
    """Its length does not matter: the server published it."""
    name = "a" * 33

    assert merge_seen({name: InferredParameter(schema={})}, [(name, "string")])[name].schema == {
        "type": "string"
    }
