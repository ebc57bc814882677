"""Makes tools from results known to the catalog, if the operator allows that for the server."""

from collections.abc import Callable, Sequence
from typing import Any

from maitred.gateway.lists import MenuLists
from maitred.gateway.state import GatewayState
from maitred.model.access import Viewer
from maitred.model.tools import ToolKey


class ResultTools:
    """The source for `TakeResultTools`; `outside` returns the tools outside the scope of a viewer."""

    def __init__(
        self, context: GatewayState, lists: MenuLists, outside: Callable[[Viewer], frozenset[ToolKey]]
    ) -> None:
        self._context = context
        self._lists = lists
        self._outside = outside

    def allows(self, server: str) -> bool:
        """Whether the results of a server may bring in tools."""
        return self._context.spec(server).result_tools

    async def bring(self, server: str, viewer: Viewer, brought: list[Any]) -> Sequence[dict[str, Any]]:
        """Make tools known, and return the definitions of those that the viewer may see."""
        brought_in = await self._context.keeper.bring(server, brought)
        keys = [key for key in brought_in if key not in self._outside(viewer)]
        self._lists.disclose(viewer, keys)
        snapshot = self._context.snapshot
        known = [tool for key in keys if (tool := snapshot.by_key.get(key))]
        return [snapshot.definition(tool) for tool in known if not self._context.is_hidden(tool)]
