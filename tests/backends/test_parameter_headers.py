"""Declarations of HTTP headers in tools' schemas: which are not valid, and what becomes of the tool."""

from typing import Any

import pytest

from maitred.backends.parameter_headers import judge_headers
from maitred.model.tools import RawTool, ToolKey

Json = dict[str, Any]
REGION: Json = {"type": "string", "x-mcp-header": "Region"}


def tool(name: str, **properties: Json) -> RawTool:
    schema = {"type": "object", "properties": properties}
    return RawTool(key=ToolKey(server="s", name=name), input_schema=schema)


INVALID = [
    {"a": {"type": "string", "x-mcp-header": ""}},
    {"a": {"type": "string", "x-mcp-header": "My Region"}},
    {"a": {"type": "string", "x-mcp-header": "Region\r\nHost"}},
    {"a": {"type": "string", "x-mcp-header": 7}},
    {"a": {"type": "number", "x-mcp-header": "A"}},
    {"a": {"type": "object", "x-mcp-header": "A"}},
    {"a": REGION, "b": {"type": "string", "x-mcp-header": "region"}},
    {"a": {"type": "array", "items": REGION}},
    {"a": {"anyOf": [REGION]}},
]


@pytest.mark.parametrize("properties", INVALID)
def test_a_tool_whose_declaration_is_not_valid_is_left_out_where_headers_are_sent(properties: Json) -> None:
    """The other tools stay. Source: 2026-07-28, streamable HTTP, schema extension."""
    usable, notes = judge_headers([tool("bad", **properties), tool("good", a=REGION)], mirrored=True)

    assert [one.key.name for one in usable] == ["good"]
    [note] = notes
    assert note.startswith("tool 'bad': ")
    assert note.endswith("; it was left out, as the protocol demands")
    assert "\r" not in note


@pytest.mark.parametrize("properties", INVALID)
def test_elsewhere_the_tool_stays_without_its_declarations(properties: Json) -> None:
    """A client of the gateway on HTTP would have to reject it. Source: maitred."""
    usable, notes = judge_headers([tool("bad", **properties)], mirrored=False)
    again, none = judge_headers(usable, mirrored=True)

    assert notes[0].endswith("; the declaration is ignored")
    assert again == usable
    assert none == []


def test_a_property_that_has_the_name_of_a_declaration_stays() -> None:
    """Names of properties are free. Source: JSON Schema 2020-12."""
    odd = tool("odd", **{"x-mcp-header": {"type": "string"}, "a": {"type": "number", "x-mcp-header": "A"}})
    [usable], _ = judge_headers([odd], mirrored=False)

    assert usable.input_schema == {
        "type": "object",
        "properties": {"x-mcp-header": {"type": "string"}, "a": {"type": "number"}},
    }
