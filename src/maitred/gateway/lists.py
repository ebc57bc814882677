"""Category tools: a short list of categories, of which a client opens those that it needs.

In the handshake era a call of a category tool puts the tools of the category into the list of the calling
connection, until it collapses the category or ends. So that no client pays twice for them, the answer has
their names alone. A client that calls again gets their signatures: its list may not have them. In the
stateless era no call may change a list, and every answer has the signatures. In both eras a client can call
every tool by its name, through `call_tool` if it is not listed.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cachetools import LRUCache

from maitred.backends.listing import TOOLS_KEY
from maitred.config.clients.table import traits_of
from maitred.config.settings import Mode
from maitred.disclosure import pages
from maitred.disclosure.budget import pack
from maitred.disclosure.category_tools import CategoryTool, group_by_category, name_briefly
from maitred.disclosure.groups import group_headings
from maitred.disclosure.introduction import ListContent
from maitred.errors import CursorError
from maitred.gateway.client_shapes import ClientShapes
from maitred.gateway.menu import Menu
from maitred.gateway.state import GatewayState
from maitred.gateway.stats import LEDGER_KEY, SpendingLedger
from maitred.gateway.visibility import VisibilityService
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.annotations import annotate
from maitred.model.categories import Category
from maitred.model.profiles import mode_of_profiles
from maitred.model.tools import Tool, ToolCall, ToolKey
from maitred.wording import count_of

_DEFINITIONS_TOKENS: Final = 20_000
_FRAME_TOKENS: Final = 150
_MOST_SCOPES: Final = 10_000
_NAMES_TOKENS: Final = 400

Opened = frozenset[ToolKey] | None
"""The open tools of a category in a connection; `None` is all of them, later ones included."""


@dataclass(kw_only=True)
class _OpenCategories:
    """What a connection of the handshake era has opened, and whether its client reads the changed list.

    Attributes:
        opened: The open tools by the name of their category tool.
        named: The pages of categories, as `(category, end)`, that were answered by names alone.
        unread: Those of them after which the client has not read its list.
        ignores_changes: Whether it asked for a page again that it had not read in its list.
    """

    opened: dict[str, Opened] = field(default_factory=dict)
    named: set[tuple[str, int]] = field(default_factory=set)
    unread: set[tuple[str, int]] = field(default_factory=set)
    ignores_changes: bool = False

    def names_suffice(self, group: str, end: int) -> bool:
        """Whether names answer a call for a page that is in the list now; it counts as named from now on."""
        page = (group, end)
        if page in self.unread:
            self.ignores_changes = True
        if self.ignores_changes or page in self.named:
            return False
        self.named.add(page)
        self.unread.add(page)
        return True

    def collapse(self, group: str) -> bool:
        """Close a category; false if it was not open."""
        self.named = {page for page in self.named if page[0] != group}
        self.unread &= self.named
        return self.opened.pop(group, ()) != ()


class MenuLists:
    """Decides what lists show, and answers for category tools; `changed` is called when lists may differ.

    No category tool has one of the `reserved` names, which other tools of the list have.
    """

    def __init__(
        self,
        context: GatewayState,
        menu: Menu,
        visibility: VisibilityService,
        ledger: SpendingLedger,
        changed: Callable[[], None],
        shapes: ClientShapes,
        *,
        reserved: frozenset[str],
    ) -> None:
        self._context = context
        self._menu = menu
        self._visibility = visibility
        self._ledger = ledger
        self._changed = changed
        self._shapes = shapes
        self._reserved = reserved
        self._connections: LRUCache[tuple[str, str], _OpenCategories] = LRUCache(_MOST_SCOPES)

    # --- lists --------------------------------------------------------------------------------------------

    def chosen_mode(self, viewer: Viewer) -> Mode:
        """The mode that the viewer's profile, or else the section `disclosure`, asks for."""
        settings = self._context.settings
        return (
            mode_of_profiles(viewer.grant.scope.shown_profiles, settings.profiles) or settings.disclosure.mode
        )

    def mode(self, viewer: Viewer) -> ListContent:
        """The present mode; `auto` and `categories` show all tools while these cost few tokens.

        All viewers without a profile have the same: that of all tools. A profile counts its own tools.
        """
        context, chosen = self._context, self.chosen_mode(viewer)
        if chosen in ("menu", "all"):
            return chosen
        measured = viewer if viewer.grant.scope.shown_profiles else LOCAL_USER
        break_even = context.settings.disclosure.break_even_tokens
        if not context.keeper.discovering and self._ledger.raw_tokens(measured) < break_even:
            return "all"
        return "menu" if chosen == "auto" else "categories"

    def listed(self, viewer: Viewer) -> Sequence[Tool]:
        """The tools in a viewer's list, by name; in mode `categories` none behind a category tool."""
        if self.mode(viewer) != "categories":
            return self._listable(viewer)
        state = self.state(viewer)
        return self._menu.kept(("opened", state), lambda: self._with_opened(viewer))

    def categories(self, viewer: Viewer) -> Sequence[CategoryTool]:
        """The categories in a viewer's list, in mode `categories`."""
        return [group for group in self._groups(viewer).values() if group.is_category]

    def definitions(self, viewer: Viewer) -> Sequence[dict[str, Any]]:
        """The same as `tools/list` shows them."""
        return [group.definition for group in self.categories(viewer)]

    def state(self, viewer: Viewer) -> Hashable:
        """All state by which the list of a viewer differs from the lists of others."""
        return self._visibility.unlisted(viewer), frozenset(self.opened(viewer).items())

    def hidden(self, viewer: Viewer) -> Sequence[Tool]:
        """The tools behind category tools that a viewer's list does not show."""

        def find() -> Sequence[Tool]:
            shown = {tool.key for tool in self._with_opened(viewer)}
            return [tool for tool in self._listable(viewer) if tool.key not in shown]

        return self._menu.kept(("hidden", self.state(viewer)), find)

    def _listable(self, viewer: Viewer) -> Sequence[Tool]:
        """All tools that a list of this viewer may have."""
        unlisted = self._visibility.unlisted(viewer)
        return self._menu.kept(
            ("listable", unlisted),
            lambda: [tool for tool in self._context.listable() if tool.key not in unlisted],
        )

    def _groups(self, viewer: Viewer) -> Mapping[str, CategoryTool]:
        """All categories by published name, with those that are too small for a list."""
        context = self._context
        return self._menu.kept(
            ("groups", self._visibility.unlisted(viewer)),
            lambda: {
                group.name: group
                for group in group_by_category(
                    self._listable(viewer),
                    [*context.categories, *self._proposed(viewer)],
                    self._reserved | context.snapshot.by_name.keys(),
                )
            },
        )

    def _proposed(self, viewer: Viewer) -> Sequence[Category]:
        """The groups that have listable tools, each with what is said of these tools alone."""
        own = group_headings(self._listable(viewer))
        return [own[name].category for name in self._context.groups if name in own]

    def _with_opened(self, viewer: Viewer) -> Sequence[Tool]:
        opened = self.opened(viewer)
        shown: set[ToolKey] = set()
        for group in self._groups(viewer).values():
            keys = opened.get(group.name, frozenset()) if group.is_category else None
            shown.update(tool.key for tool in group.tools if keys is None or tool.key in keys)
        return [tool for tool in self._listable(viewer) if tool.key in shown]

    # --- open categories of a connection ------------------------------------------------------------------

    def opened(self, viewer: Viewer) -> Mapping[str, Opened]:
        """What a viewer's connection has open, by the name of the category tool."""
        connection = self._connections.get(viewer.scope)
        return connection.opened if connection else {}

    def open_as_elsewhere(self, scope: tuple[str, str], opened: Mapping[str, Opened]) -> None:
        """Have open in a connection what its client opened through another gateway."""
        mine = self._connections.setdefault(scope, _OpenCategories())
        if mine.opened != opened:
            for group in mine.opened.keys() - opened.keys():
                mine.collapse(group)
            mine.opened = dict(opened)
            self._changed()

    def forget(self, scope: tuple[str, str]) -> None:
        """A connection has ended."""
        self._connections.pop(scope, None)

    def was_read(self, viewer: Viewer) -> None:
        """A client reads its list from the start: it has the tools that it opened before."""
        if connection := self._connections.get(viewer.scope):
            connection.unread.clear()
            connection.ignores_changes = False

    def disclose(self, viewer: Viewer, keys: Collection[ToolKey]) -> None:
        """Show some tools in the list of a viewer's connection until it collapses them."""
        for group in self._groups(viewer).values():
            if found := frozenset(keys) & {tool.key for tool in group.tools}:
                self._put(viewer, group, found)

    def _put(self, viewer: Viewer, group: CategoryTool, keys: Collection[ToolKey]) -> bool:
        """Add tools of a category to the open ones; returns whether this viewer can have open ones at all."""
        if viewer.era != "handshake" or not viewer.connection or self.mode(viewer) != "categories":
            return False
        mine = self._connections.setdefault(viewer.scope, _OpenCategories()).opened
        before = mine.get(group.name, frozenset())
        if before is not None:
            after = before | frozenset(keys)
            mine[group.name] = None if all(tool.key in after for tool in group.tools) else after
        if mine[group.name] != before:
            self._changed()
        return True

    def _collapse(self, viewer: Viewer, group: CategoryTool) -> bool:
        """Take a category's tools out of the list again; false if they were not in it."""
        connection = self._connections.get(viewer.scope)
        if connection is None or not connection.collapse(group.name):
            return False
        self._changed()
        return True

    # --- calls --------------------------------------------------------------------------------------------

    def answer(self, call: ToolCall, viewer: Viewer) -> dict[str, Any] | None:
        """The answer of a category tool; `None` for a call of another tool.

        Its arguments may be `cursor`, for the rest of a long category, or `collapse: true`.

        Raises:
            CursorError: The gateway did not make this cursor.
        """
        if call.name in self._context.snapshot.by_name:
            return None  # the name of a tool, as in most calls
        group = self._meant(call.name, viewer)
        if group is None:
            return None
        if call.arguments.get("collapse") in (True, "true"):
            was = "is collapsed" if self._collapse(viewer, group) else "was not expanded for this client"
            text = f"{group.name} {was}; its {_count(group)} can be called by name all the same."
            return self._result(viewer, text, ())
        cursor = call.arguments.get("cursor") or ""
        page = self._page(group, cursor, viewer)
        snapshot = self._context.snapshot
        opened = self._put(viewer, group, [tool.key for tool in page.tools])
        text = self._text(viewer, group, page, opened=opened)
        return self._result(viewer, text, [snapshot.definition(tool) for tool in page.tools])

    def _text(self, viewer: Viewer, group: CategoryTool, page: "_CategoryPage", *, opened: bool) -> str:
        """The names of the tools if the client has their definitions in its list, else their signatures."""
        if not opened:
            return page.signatures(group, "by name" if self.mode(viewer) == "all" else "with call_tool")
        if traits_of(viewer).list_changes is False:
            return page.signatures(group, "with call_tool")
        connection = self._connections[viewer.scope]
        if group.is_category and connection.names_suffice(group.name, page.end):
            return page.names(group, can_collapse=len(connection.opened) > 1)
        return page.signatures(group, "with call_tool" if connection.ignores_changes else "by name")

    def is_category(self, name: str, viewer: Viewer) -> bool:
        """Whether a category tool has this name."""
        return self._meant(name, viewer) is not None

    def _meant(self, name: str, viewer: Viewer) -> CategoryTool | None:
        """The category of this name. A server's tool of that name wins over a category that no list shows."""
        snapshot = self._context.snapshot
        group = None if name in snapshot.by_name else self._groups(viewer).get(name)
        if (
            group
            and self.mode(viewer) != "categories"
            and any(tool.key.name == name for tool in snapshot.tools)
        ):
            return None
        return group

    def _page(self, group: CategoryTool, cursor: object, viewer: Viewer) -> "_CategoryPage":
        """The tools of a category from a cursor on, as many as fit the budgets of lines and definitions."""
        tools = [self._shapes.shown_tool(tool, viewer) for tool in self._menu.by_use(group.tools)]
        if not isinstance(cursor, str):
            raise CursorError(str(cursor))
        start = pages.start_of(cursor, [tool.name for tool in tools])
        hidden = self._visibility.hidden(viewer)
        budget = self._context.budget(pages.PAGE_TOKENS) - _FRAME_TOKENS
        share = budget // pages.PAGE_TOOLS
        shown, spent = tools[start : start + pages.PAGE_TOOLS], 0
        for number, tool in enumerate(shown):
            spent += tool.cost_tokens
            if spent > _DEFINITIONS_TOKENS and number:
                shown = shown[:number]
                break
        snapshot = self._context.snapshot
        lines = [
            pages.Summary(snapshot=snapshot, tool=tool, budget_tokens=share, not_now=tool.key in hidden).text
            for tool in shown
        ]
        packed = pack(lines, budget)
        end = start + len(packed.items)
        return _CategoryPage(
            tools=shown[: len(packed.items)], lines=packed.items, left=len(tools) - end, end=end
        )

    def _result(self, viewer: Viewer, text: str, tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
        entry = self._ledger.answered(viewer, text)
        return {
            "content": [{"type": "text", "text": text, "annotations": annotate(len(text))}],
            "isError": False,
            "tools": list(tools),
            "_meta": {LEDGER_KEY: entry, TOOLS_KEY: list(tools)},
        }


@dataclass(frozen=True, kw_only=True)
class _CategoryPage:
    """Some tools of a category with their lines; `end` is the place after them, `left` how many follow."""

    tools: Sequence[Tool]
    lines: Sequence[str]
    left: int
    end: int

    def signatures(self, group: CategoryTool, how: str) -> str:
        """The page as an agent reads it; `how` says how to call its tools."""
        return "\n".join(
            [f"{_count(group)} in {group.name}; call them {how}:", *self.lines, *self._more(group)]
        )

    def names(self, group: CategoryTool, *, can_collapse: bool) -> str:
        """The page for an agent that has the definitions of its tools in its list.

        How to take tools out again, it says where several categories are open: earlier there is no need.
        """
        packed = pack(name_briefly(self.tools), _NAMES_TOKENS)
        rest = [f"{packed.left} more"] if packed.left else []
        rows = [f"Now in your list: {', '.join([*packed.items, *rest])}.", *self._more(group)]
        undo = ' {"collapse": true} removes them.' if can_collapse else ""
        return "\n".join([*rows, f"Missing? Call again.{undo}"])

    def _more(self, group: CategoryTool) -> Sequence[str]:
        """How to go on, if the category has further pages."""
        if not self.left:
            return []
        cursor = f"{self.end}:{self.tools[-1].name}"
        return [f"({self.left} more: {group.name} with cursor {cursor!r})"]


def _count(group: CategoryTool) -> str:
    return count_of(len(group.tools), "tool")
