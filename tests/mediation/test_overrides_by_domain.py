"""Overrides in the form of document 000: domain -> tool -> `rename`, `description`, `inputSchema`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.mediator import described
from tests.gateway.rig import Upstream, opened, settings_of

from maitred.config.settings import MediationSettings
from maitred.errors import ConfigError
from maitred.mediation import EnhancedTool, OverrideTransformer, SourceTool, ToolContext, load_overrides

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"userId": {"type": "number"}, "email": {"type": "string"}}}
GET_USER = {
    "rename": "get_user",
    "description": "Retrieve a user by their ID or email address",
    "inputSchema": SCHEMA,
}
OF_DOCUMENT = {"example.com": {"gt_usr": GET_USER}}
"""The example of document 000, to the letter."""


def write(folder: Path, value: Any, name: str = "tool-overrides.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=2))
    return path


async def applied(
    path: Path, tool: SourceTool, source: str = "example.com", **metadata: Any
) -> EnhancedTool | None:
    context = ToolContext(source=source, source_type="web", metadata=metadata)
    [found] = await OverrideTransformer(load_overrides(path)).transform([tool], context) or [None]
    return found


async def test_the_example_of_the_document_is_read(tmp_path: Path) -> None:
    """With or without the schema type that a server left out."""
    for schema in (None, {}, {"type": "object"}):
        found = await applied(write(tmp_path, OF_DOCUMENT), SourceTool(name="gt_usr", input_schema=schema))
        assert found is not None
        assert (found.name, found.original_name) == ("get_user", "gt_usr")
        assert found.description == GET_USER["description"]
        assert found.input_schema is not None
        assert found.input_schema["properties"] == SCHEMA["properties"]
        assert (found.confidence, found.enhanced_by) == (1.0, "overrides")


@pytest.mark.parametrize(
    ("source", "name", "metadata", "is_found"),
    [
        ("example.com", "gt_usr", {}, True),
        ("https://example.com/users?x=1", "gt_usr", {}, True),
        ("users", "gt_usr", {"url": "https://example.com/mcp"}, True),
        ("pages", "https://example.com#gt_usr", {}, True),
        ("users", "gt_usr", {"url": "https://example.org/mcp"}, False),
        ("pages", "https://example.org#gt_usr", {}, False),
        ("users", "gt_usr", {}, False),
    ],
)
async def test_a_domain_holds_for_servers_and_pages_of_it(
    tmp_path: Path, source: str, name: str, metadata: Mapping[str, Any], is_found: bool
) -> None:
    """A server by its address, a page by its origin."""
    found = await applied(write(tmp_path, OF_DOCUMENT), SourceTool(name=name), source, **metadata)

    assert (found is not None) == is_found


async def test_a_tool_of_a_server_is_of_no_page_whatever_its_name_says(tmp_path: Path) -> None:
    """Else any server could take the overrides of another domain."""
    transformer = OverrideTransformer(load_overrides(write(tmp_path, OF_DOCUMENT)))
    context = ToolContext(source="evil", source_type="api")

    assert await transformer.transform([SourceTool(name="https://example.com#gt_usr")], context) == [None]


async def test_required_adds_to_what_the_server_requires(tmp_path: Path) -> None:
    """Nothing that the server requires is given up."""
    path = write(
        tmp_path,
        {
            "example.com": {
                "t": {"inputSchema": {"properties": {"a": {"title": "A"}, "c": {}}, "required": ["a"]}}
            }
        },
    )
    own = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]}

    found = await applied(path, SourceTool(name="t", input_schema=own))
    assert found is not None
    assert found.input_schema == {
        "type": "object",
        "properties": {"a": {"title": "A"}, "b": {}, "c": {}},
        "required": ["b", "a"],
    }
    closed = await applied(
        path, SourceTool(name="t", input_schema={"properties": {}, "additionalProperties": False})
    )
    assert closed is not None
    assert closed.input_schema == {"properties": {}, "additionalProperties": False}


def test_what_is_unknown_is_refused_with_file_domain_tool_and_field(tmp_path: Path) -> None:
    """All faults at once, each with its line."""
    entry = {"renam": "get_user", "category": "data", "inputSchema": {"type": "array", "propertys": {}}}
    other = {
        "inputSchema": {"properties": {"a": {"tpye": "string"}, "b": {"type": "text"}}, "required": ["c"]}
    }
    path = write(
        tmp_path, {"example.com": {"gt_usr": entry, "t": other, "u": {"inputSchema": []}}, "e.org": 1}
    )

    with pytest.raises(ConfigError) as caught:
        load_overrides(path)
    assert str(path) in str(caught.value)
    found = [fault.partition(": ")[2] for fault in caught.value.faults]
    assert found[:3] == [
        "example.com.gt_usr.renam: is not a known key; did you mean `rename`?",
        "example.com.gt_usr.category: is not a known key; there are rename, description, inputSchema",
        "example.com.gt_usr.inputSchema.type: must be `object`",
    ]
    rest = "\n".join(found[3:])
    for text in (
        "example.com.gt_usr.inputSchema.propertys: is not a known key; did you mean `properties`?",
        "example.com.t.inputSchema.properties.a.tpye: is not a known key; did you mean `type`?",
        "example.com.t.inputSchema.properties.b.type: 'text' is not a type",
        "example.com.t.inputSchema.required[0]: 'c' is no parameter",
        "example.com.u.inputSchema: must be a mapping of keywords of a JSON Schema to values",
        "e.org: must be a mapping of tools to overrides",
    ):
        assert text in rest


def test_a_mistyped_top_key_is_no_domain(tmp_path: Path) -> None:
    """Neither in JSON nor, whatever it is, in YAML."""
    for value, name in (({"override": {}}, "a.json"), (OF_DOCUMENT, "a.yaml")):
        with pytest.raises(ConfigError, match="the top level must have the key `overrides`"):
            load_overrides(write(tmp_path, value, name))


async def test_a_gateway_reads_the_file_by_its_setting(tmp_path: Path) -> None:
    """A server that has the name in the place of a domain; its tool is called by the new name."""
    write(tmp_path, {"shop": {"gt_usr": {"rename": "get_user", "description": "Retrieve a user"}}})
    settings = settings_of(tmp_path, "shop", mediation=MediationSettings(overrides="tool-overrides.json"))
    async with opened(settings, Upstream("shop", {"gt_usr": "gets user"})) as gateway:
        assert described(gateway) == {"shop__get_user": "Retrieve a user"}
