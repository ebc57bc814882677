"""What a person writes about tools, and how it is laid over what their server says."""

import fnmatch
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from maitred.mediation import (
    EnhancedTool,
    Overrides,
    OverrideTransformer,
    SourceTool,
    ToolContext,
    ToolOverride,
    load_overrides,
)

pytestmark = pytest.mark.anyio

STR = {"type": "string"}


def write(folder: Path, text: str, name: str = "overrides.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


async def apply(
    folder: Path, text: str, *tools: SourceTool, source: str = "shop"
) -> list[EnhancedTool | None]:
    transformer = OverrideTransformer(load_overrides(write(folder, text)))
    found = await transformer.transform(tools, ToolContext(source=source, source_type="api"))
    return list(found or [])


async def schema_after(folder: Path, schema: Any, parameters: Any) -> tuple[Any, list[str]]:
    """The schema that overrides of parameters lead to, and what of them was refused."""
    text = json.dumps({"overrides": {"shop": {"t": {"parameters": parameters}}}})
    with capture_logs() as logs:
        [found] = await apply(folder, text, SourceTool(name="t", input_schema=schema))
    assert found is not None
    return found.input_schema, [f"{log['parameter']}: {log['part']}" for log in logs]


# --- applying ---------------------------------------------------------------------------------------------


async def test_an_override_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    """A renamed tool keeps the name that its server knows."""
    text = """
    overrides:
      shop:
        gt_usr:
          rename: get_user
          title: Get a user
          description: Look a user up.
          category: users
          tags: [people, accounts]
          use_cases: [who is user 7]
          pin: true
        del: {hide: true}
    """
    schema = {"type": "object", "properties": {"id": STR}}
    raw = SourceTool(
        name="gt_usr", input_schema=schema, annotations={"readOnlyHint": True}, metadata={"m": 1}
    )

    found = await apply(
        tmp_path, text, raw, SourceTool(name="del", description="D"), SourceTool(name="other")
    )

    assert found == [
        EnhancedTool(
            name="get_user", original_name="gt_usr", title="Get a user", description="Look a user up.",
            input_schema=schema, annotations={"readOnlyHint": True}, metadata={"m": 1}, category="users",
            tags=("people", "accounts"), use_cases=("who is user 7",), pinned=True, confidence=1.0,
            enhanced_by="overrides",
        ),
        EnhancedTool(
            name="del", original_name="del", description="D", hidden=True, confidence=1.0,
            enhanced_by="overrides",
        ),
        None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("example.com", True),
        ("Example.com", True),
        ("https://example.com:8443/shop?x=1", True),
        ("other.example.com", False),
        ("https://[", False),
        ("", False),
    ],
)
async def test_overrides_of_a_domain_hold_for_its_urls(tmp_path: Path, source: str, is_found: bool) -> None:
    text = "overrides: {EXAMPLE.com: {a: {title: T}}}"

    [found] = await apply(tmp_path, text, SourceTool(name="a"), source=source)

    assert (found is not None) is is_found


async def test_a_name_comes_before_patterns_and_a_long_pattern_before_a_short_one(tmp_path: Path) -> None:
    patterns = '"*": {title: any}, "get_*": {title: getter}, "get_u*r": {title: u}'
    text = f"overrides: {{shop: {{{patterns}, get_x: {{title: x}}}}}}"

    found = await apply(
        tmp_path, text, *(SourceTool(name=n) for n in ("get_x", "get_user", "get_y", "[a].b\n"))
    )

    assert [tool.title for tool in found if tool] == ["x", "u", "getter", "any"]


async def test_of_several_files_the_first_that_names_a_tool_wins(tmp_path: Path) -> None:
    """One's own file comes before that of a community."""
    own = load_overrides(write(tmp_path, "overrides: {shop: {a: {title: mine}}}", "own.yaml"))
    theirs = load_overrides(write(tmp_path, "overrides: {shop: {a: {title: x}, b: {title: theirs}}}"))

    found = await OverrideTransformer(own, theirs).transform(
        [SourceTool(name="a"), SourceTool(name="b")], ToolContext(source="shop", source_type="api")
    )

    assert [tool.title for tool in found or [] if tool] == ["mine", "theirs"]


# --- schemas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "part", "expected"),
    [
        ({}, {"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 1}),
        (True, {"description": "D"}, {"description": "D"}),
        ({"type": "string", "description": "old"}, {"description": "new"}, {**STR, "description": "new"}),
        ({"type": "number"}, {"type": "integer"}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": "string"}, STR),
        (STR, {"enum": ["a", "b"]}, {**STR, "enum": ["a", "b"]}),
        ({"enum": ["a", "b", "c"]}, {"enum": ["a"]}, {"enum": ["a"]}),
        (STR, {"default": "a", "maxLength": 3}, {**STR, "default": "a", "maxLength": 3}),
        ({"$ref": "#/$defs/x"}, {"description": "D"}, {"$ref": "#/$defs/x", "description": "D"}),
    ],
)
async def test_a_part_fills_in_what_a_server_left_open(
    tmp_path: Path, own: Any, part: dict[str, Any], expected: Any
) -> None:
    """Texts are replaced, types and values may become narrower."""
    found, refused = await schema_after(tmp_path, {"type": "object", "properties": {"p": own}}, {"p": part})

    assert found == {"type": "object", "properties": {"p": expected}}
    assert refused == []


@pytest.mark.parametrize(
    ("own", "part", "refused"),
    [
        (STR, {"type": "integer"}, "p: type"),
        ({"type": "integer"}, {"type": "number"}, "p: type"),
        (STR, {"type": ["string", "integer"]}, "p: type"),
        ({"type": 5}, {"type": "string"}, "p: type"),
        ({"enum": ["a"]}, {"enum": ["b"]}, "p: enum"),
        ({"type": "integer"}, {"enum": ["1"]}, "p: enum"),
        ({"minimum": 3}, {"minimum": 1}, "p: minimum"),
        ({"default": 3}, {"default": 1}, "p: default"),
        (STR, {"default": 1}, "p: default"),
        ({"$ref": "#/$defs/x"}, {"type": "string"}, "p: type"),
        ({"anyOf": [STR]}, {"enum": ["a"]}, "p: enum"),
        ({"const": 1}, {"type": "string"}, "p: type"),
        ({"type": "array", "items": {"$ref": "https://x.example/s"}}, {"default": []}, "p: default"),
        (False, {"description": "D"}, "p: all, since the server takes no value for it"),
    ],
)
async def test_a_part_that_contradicts_the_server_is_left_out_and_logged(
    tmp_path: Path, own: Any, part: dict[str, Any], refused: str
) -> None:
    """The schema stays a true account of what the server takes."""
    schema = {"type": "object", "properties": {"p": own}, "required": ["p"]}

    assert await schema_after(tmp_path, schema, {"p": part}) == (schema, [refused])


async def test_a_parameter_that_the_server_did_not_name_is_added(tmp_path: Path) -> None:
    """Many servers declare nothing; what they require stays required."""
    found, _ = await schema_after(tmp_path, None, {"q": STR})
    assert found == {"type": "object", "properties": {"q": STR}}

    found, _ = await schema_after(tmp_path, {"required": ["q"]}, {"q": STR})
    assert found == {"required": ["q"], "properties": {"q": STR}}


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False, "properties": {}},
        {"additionalProperties": STR},
        {"propertyNames": {"enum": ["x"]}},
        {"properties": 5},
    ],
)
async def test_a_parameter_that_the_server_would_refuse_is_not_added(tmp_path: Path, schema: Any) -> None:
    found, refused = await schema_after(tmp_path, schema, {"q": STR})

    assert found == schema
    assert len(refused) == 1


async def test_values_keep_the_types_that_the_file_gives_them(tmp_path: Path) -> None:
    """A configuration is read as text, a schema is not; merged and repeated parts count as written out."""
    text = """
    overrides:
      shop:
        t:
          description: 1.10
          parameters:
            base: &base {type: number, description: "5"}
            p:
              <<: *base
              minimum: 1
              maximum: 2.5
              default: 2
              examples: [1, "1", true, null, 2024-01-01, .inf, 0o7]
            q: *base
    """

    [found] = await apply(tmp_path, text, SourceTool(name="t"))

    assert found is not None
    assert found.description == "1.10"
    assert found.input_schema is not None
    assert found.input_schema["properties"] == {
        "base": {"type": "number", "description": "5"},
        "p": {
            "type": "number", "description": "5", "minimum": 1, "maximum": 2.5, "default": 2,
            "examples": [1, "1", True, None, "2024-01-01", ".inf", "0o7"],
        },
        "q": {"type": "number", "description": "5"},
    }  # fmt: skip
    jsonschema_rs.validator_for(dict(found.input_schema))


@given(pattern=st.text("ab*", max_size=6), name=st.text("ab", max_size=6))
def test_a_star_stands_for_any_letters(pattern: str, name: str) -> None:
    """As few as none, as in patterns for files."""
    found = Overrides(source="o", servers={"shop": {pattern: ToolOverride(title="x")}}).find("shop", name)
    assert (found is not None) == fnmatch.fnmatchcase(name, pattern)


def test_a_pattern_with_many_stars_costs_no_time() -> None:
    """Names come from servers, and patterns may come from others."""
    pattern = "*a" * 30 + "b"
    overrides = Overrides(source="o", servers={"shop": {pattern: ToolOverride(title="x")}})
    assert overrides.find("shop", "a" * 10_000) is None
