"""The meta-tools as clients see them: name, description, arguments, hints.

Their definitions change with the catalog alone, so the menu has the same bytes for everybody; every word of
them is paid for in every conversation. The client process of a background gateway reads this module as well,
so it imports nothing of the gateway.

To add a meta-tool: an entry here, and its handler in `maitred.surfaces.mcp.metatools`.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_TEXT: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}
_BOOLEAN: Final = {"type": "boolean"}
_DETAIL: Final = {"enum": ["brief", "full"]}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_CALL: Final = {"name": _TEXT, "arguments": {"type": "object"}}


class MetaTool(NamedTuple):  # no dataclass: importing those takes time that a client waits for
    """One meta-tool. `with_categories`: a list of categories has it too, to find and call what it hides."""

    name: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...] = ()
    reads_only: bool = False
    open_world: bool = False
    with_categories: bool = False

    def definition(self, index: str = "") -> dict[str, Any]:
        """The definition for `tools/list`; `index` goes on from the description.

        A client that defers tools has to keep it loaded: all other tools are found by the menu.
        """
        required = {"required": list(self.required)} if self.required else {}
        hint = {"readOnlyHint": True} if self.reads_only else {"destructiveHint": True}
        return {
            "name": self.name,
            "description": self.description + index,
            "inputSchema": {"type": "object", "properties": dict(self.properties), **required},
            "annotations": {**hint, "openWorldHint": self.open_world},
            "_meta": {"anthropic/alwaysLoad": True},
        }


SEARCH: Final = "search_tools"
"""The meta-tool whose description ends with what there is to be found."""

_ALL: Final = (
    MetaTool(
        name=SEARCH,
        description="Find tools by what they do. Short phrases, one capability each."
        " Answers with signatures to call.",
        properties={
            "phrases": _TEXTS,
            "server": _TEXT,
            "category": _TEXT,
            "read_only": _BOOLEAN,
            "limit": _INTEGER,
            "detail": _DETAIL,
        },
        required=("phrases",),
        reads_only=True,
        with_categories=True,
    ),
    MetaTool(
        name="list_tools_meta",
        description="Browse: hot tools and categories, or by path category/<name> or server/<name>.",
        properties={"path": _TEXT, "cursor": _TEXT, "page_size": _INTEGER},
        reads_only=True,
    ),
    MetaTool(
        name="tool_info",
        description="Describe tools; full includes schemas.",
        properties={"names": _TEXTS, "detail": _DETAIL},
        required=("names",),
        reads_only=True,
    ),
    MetaTool(
        name="call_tool",
        description="Call a tool by its full name.",
        properties=_CALL,
        required=("name",),
        open_world=True,
        with_categories=True,
    ),
    MetaTool(
        name="call_read_only_tool",
        description="Call a tool that only reads; refuses any other.",
        properties=_CALL,
        required=("name",),
        reads_only=True,
        open_world=True,
        with_categories=True,
    ),
    MetaTool(
        name="call_tool_chain",
        description="Run Python that calls tools; only its result returns:"
        ' `await call_tool("server__tool", {...})` or `import server; await server.tool(x=1)`;'
        " asyncio.gather; `return`. No files or network.",
        properties={"code": _TEXT, "timeout_ms": _INTEGER, "max_output_size": _INTEGER, "dry_run": _BOOLEAN},
        required=("code",),
        open_world=True,
    ),
)
META_TOOLS: Final[dict[str, MetaTool]] = {tool.name: tool for tool in _ALL}
"""The menu, in its order."""


def definitions(index: str = "") -> list[dict[str, Any]]:
    """The menu, with what there is to be found in the description of the search."""
    return [tool.definition(index if tool.name == SEARCH else "") for tool in META_TOOLS.values()]


def calling() -> list[dict[str, Any]]:
    """What a list of categories needs beside it, to find and call what it does not show."""
    return [tool.definition() for tool in META_TOOLS.values() if tool.with_categories]


def is_safe(name: str) -> bool:
    """Whether a meta-tool changes nothing, whatever it is given."""
    return name in META_TOOLS and META_TOOLS[name].reads_only
