"""The field `tools` of a server's answer: its tools become known where the operator allows it.

A result could otherwise bring in tools that nobody has seen in a list, so the field is taken out of answers
unless `servers.<name>.result_tools` is set.
"""

from collections.abc import Callable, Mapping
from typing import Any

from maitred.backends.listing import TOOLS_KEY
from maitred.gateway.lists import MenuLists
from maitred.gateway.state import GatewayState, is_hidden
from maitred.model.access import Viewer
from maitred.model.tools import Tool, ToolKey


class ResultTools:
    """Looks at answers before they are passed on; `outside` are the tools that are not there for a viewer."""

    def __init__(
        self, context: GatewayState, expansion: MenuLists, outside: Callable[[Viewer], frozenset[ToolKey]]
    ) -> None:
        self._context = context
        self._expansion = expansion
        self._outside = outside

    async def taken(self, tool: Tool, viewer: Viewer, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer with its tools as they are published, or without the field."""
        meta = answer.get("_meta")
        copied = isinstance(meta, Mapping) and TOOLS_KEY in meta
        if not ("tools" in answer or copied) or self._context.is_saved(tool.server):
            return answer
        brought = answer.get("tools") or (meta[TOOLS_KEY] if isinstance(meta, Mapping) and copied else None)
        plain = {key: value for key, value in answer.items() if key != "tools"}
        if isinstance(meta, Mapping):
            plain["_meta"] = {key: value for key, value in meta.items() if key != TOOLS_KEY}
        allowed = self._context.spec(tool.server).result_tools and not answer.get("isError")
        if not allowed or not isinstance(brought, list):
            return plain
        brought_in = await self._context.keeper.bring(tool.server, brought)
        keys = [key for key in brought_in if key not in self._outside(viewer)]
        self._expansion.disclose(viewer, keys)
        snapshot = self._context.snapshot
        found = [known for key in keys if (known := snapshot.by_key.get(key)) and not is_hidden(known)]
        tools = [snapshot.definition(known) for known in found]
        return plain | {"tools": tools, "_meta": {**plain.get("_meta", {}), TOOLS_KEY: tools}}
