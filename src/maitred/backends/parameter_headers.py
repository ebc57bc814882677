"""Arguments that a tool wants in HTTP headers too (`x-mcp-header` in its input schema).

The stateless era over HTTP has them. There a client must reject a tool whose declaration is not valid. Other
transports and revisions know no such headers, but clients of the gateway would read the declaration. So a
declaration that is not valid is taken out there, and the tool stays.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from mcp.shared.inbound import X_MCP_HEADER_KEY, find_invalid_x_mcp_header

from maitred.backends.listing import clean
from maitred.model.tools import RawTool

_LONGEST: Final = 200
_NAMED_SCHEMAS: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)


def judge_headers(tools: Sequence[RawTool], *, mirrored: bool) -> tuple[list[RawTool], list[str]]:
    """The tools that a client may use, and notes on the others.

    `mirrored` says that the server gets the headers, so that an invalid declaration makes a tool unusable.
    """
    usable: list[RawTool] = []
    notes: list[str] = []
    for tool in tools:
        fault = find_invalid_x_mcp_header(tool.input_schema)
        if fault is None:
            usable.append(tool)
            continue
        told = f"{clean(tool.key.name)!r}: {clean(fault)[:_LONGEST]}"
        if mirrored:
            notes.append(f"tool {told}; it was left out, as the protocol demands")
        else:
            notes.append(f"tool {told}; the declaration is ignored")
            usable.append(replace(tool, input_schema=_without_headers(tool.input_schema)))
    return usable, notes


def _without_headers(schema: Any) -> Any:
    """A schema without declarations of headers; a property may have the name of one."""
    if isinstance(schema, list):
        return [_without_headers(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_headers(inner) for name, inner in value.items()}
        if key in _NAMED_SCHEMAS and isinstance(value, dict)
        else _without_headers(value)
        for key, value in schema.items()
        if key != X_MCP_HEADER_KEY
    }
