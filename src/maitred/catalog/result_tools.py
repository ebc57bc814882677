"""The tools that results of servers brought, for as long as their connections last.

The operator must allow that for a server (`result_tools`). A listed tool overrides one from a result, and the
number and size of the latter are limited.
"""

from collections.abc import Sequence
from typing import Any, Final

from maitred.backends.listing import read_tools
from maitred.model.tools import RawTool, ToolKey, canonical

MOST_TOOLS: Final = 200
MOST_BYTES: Final = 1_000_000


class ResultToolStore:
    """Stores tools from results, by server."""

    def __init__(self) -> None:
        self._tools: dict[str, dict[ToolKey, RawTool]] = {}

    def take(self, server: str, definitions: Sequence[Any]) -> tuple[Sequence[ToolKey], bool]:
        """Add the tools of a result; returns the keys of the added tools, and whether anything changed.

        Tools beyond the limits of the server are left out; a repeated tool replaces the former one.
        """
        found, _ = read_tools(server, definitions[:MOST_TOOLS])
        before = self._tools.get(server, {})
        kept = dict(before)
        taken = []
        size = sum(map(_size, kept.values()))
        for tool in found:
            more = _size(tool) - (_size(kept[tool.key]) if tool.key in kept else 0)
            if size + more <= MOST_BYTES and (tool.key in kept or len(kept) < MOST_TOOLS):
                kept[tool.key] = tool
                size += more
                taken.append(tool.key)
        self._tools[server] = kept
        return taken, kept != before

    @property
    def servers(self) -> Sequence[str]:
        """The servers whose results brought tools."""
        return tuple(self._tools)

    def forget(self, server: str) -> None:
        """Drop the tools of a server that restarted, or that may not bring tools any more."""
        self._tools.pop(server, None)

    def beside(self, server: str, listed: Sequence[RawTool]) -> Sequence[RawTool]:
        """The tools that a server lists, then those that only its results brought."""
        names = {tool.key for tool in listed}
        return [*listed, *(tool for key, tool in self._tools.get(server, {}).items() if key not in names)]


def _size(tool: RawTool) -> int:
    written = (tool.title, tool.description, tool.input_schema, tool.output_schema)
    return len(canonical([*written, dict(tool.annotations), dict(tool.extra), tool.key.name]))
