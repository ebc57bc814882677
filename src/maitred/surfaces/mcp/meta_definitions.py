"""The meta-tools as clients see them: name, description, arguments, hints.

Their definitions change with the catalog alone, so all clients get the same bytes. Every word of them costs
tokens in every conversation. The client process of a background gateway also reads this module, so it imports
nothing of the gateway.
To add a meta-tool, write an entry here and its handler in `maitred.surfaces.mcp.metatools`.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from maitred.model.details import DETAILS

_TEXT: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}
_BOOLEAN: Final = {"type": "boolean"}
_DETAIL: Final = {"enum": list(DETAILS)}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_CALL: Final = {"name": _TEXT, "arguments": {"type": "object"}}


class MetaTool(NamedTuple):  # no dataclass: that import takes time for which a client waits
    """One meta-tool. `with_categories`: lists of categories have it too, to find and call hidden tools."""

    name: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...] = ()
    reads_only: bool = False
    open_world: bool = False
    with_categories: bool = False

    def definition(self, index: str = "") -> dict[str, Any]:
        """The definition for `tools/list`; `index` is appended to the description.

        A client that defers tools must keep the meta-tools loaded: it finds all other tools through them.
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
"""The meta-tool whose description ends with an index of the catalog."""

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
    """The definitions of the menu; the search's description ends with `index`."""
    return [tool.definition(index if tool.name == SEARCH else "") for tool in META_TOOLS.values()]


def calling() -> list[dict[str, Any]]:
    """The meta-tools that a list of categories needs, to find and call the tools that it does not show."""
    return [tool.definition() for tool in META_TOOLS.values() if tool.with_categories]


def is_safe(name: str) -> bool:
    """Whether a meta-tool changes nothing, whatever its arguments are."""
    return name in META_TOOLS and META_TOOLS[name].reads_only
