"""What the list of one client has besides the menu; these are methods of `Gateway`."""

from collections.abc import Hashable, Sequence
from typing import Any

from maitred.gateway.lists import MenuLists
from maitred.gateway.shared_categories import SharedCategories
from maitred.model.access import Viewer
from maitred.model.tools import Tool


class ListMethods:
    """The methods of a gateway about category tools, and the categories that a client has opened."""

    _lists: MenuLists
    _shared_categories: SharedCategories

    def is_category(self, name: str, viewer: Viewer) -> bool:
        """Whether a category tool has this name."""
        return self._lists.is_category(name, viewer)

    def category_definitions(self, viewer: Viewer) -> Sequence[dict[str, Any]]:
        """The category tools of a viewer's list, in mode `categories`, as `tools/list` shows them."""
        return self._lists.definitions(viewer)

    def hidden_tools(self, viewer: Viewer) -> Sequence[Tool]:
        """The tools behind the category tools that a viewer's list does not show, in mode `categories`."""
        return self._lists.hidden(viewer)

    def list_state(self, viewer: Viewer) -> Hashable:
        """A key that differs if the lists of two viewers differ."""
        return self._lists.state(viewer)

    async def catch_up_lists(self, *, viewer: Viewer) -> None:
        """Have a viewer's list show the categories that its session opened through other gateways."""
        if self._shared_categories.concerns(viewer):
            await self._shared_categories.catch_up(viewer)
