"""FastMCP's BM25 search transform over tools of ours, searched as its own `search_tools` does.

Tools stand in it under the names that a mounted proxy gives them, `server_tool`. What its tool does besides,
which is to collect the visible tools and to write the answer, is left out in its favour.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool

from maitred.model.tools import RawTool, ToolKey


class Bm25:
    """An index over tools; the first search makes it, and so does the first after any change."""

    def __init__(self, tools: Sequence[RawTool], results: int) -> None:
        self._transform = BM25SearchTransform(max_results=results)
        self._tools = [_tool(tool) for tool in tools]
        self._keys = {made.name: tool.key for made, tool in zip(self._tools, tools, strict=True)}

    async def search(self, query: str) -> list[ToolKey]:
        """The best tools; looks through the texts of all tools for changes first, as its searches do."""
        found = await self._transform._search(self._tools, query)  # noqa: SLF001  # its tool needs a session
        return [self._keys[tool.name] for tool in found]

    def rank(self, query: str, results: int) -> list[ToolKey]:
        """The best tools of an index that has been made, without looking for changes: the same, sooner."""
        places = self._transform._index.query(query, results)  # noqa: SLF001  # as above
        return [self._keys[self._tools[place].name] for place in places]

    def change(self, tools: Sequence[RawTool]) -> None:
        """Put tools in the place of the first ones."""
        self._tools[: len(tools)] = [_tool(tool) for tool in tools]
        self._keys |= {_name(tool): tool.key for tool in tools}


def _name(tool: RawTool) -> str:
    return f"{tool.key.server}_{tool.key.name}"


def _tool(tool: RawTool) -> Tool:
    schema: Any = tool.input_schema
    readable = isinstance(schema, Mapping) and isinstance(schema.get("properties", {}), Mapping)
    parameters = dict(schema) if readable else {"type": "object"}
    return Tool(name=_name(tool), description=tool.description, parameters=parameters)
