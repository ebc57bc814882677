"""Tools: by category and server, what agents read of each and what it costs, and decisions about one.

A person who may configure switches a tool off, pins it or moves it; `Gateway.change_tool` writes that. Texts
are edited on the Search screen. To add a filter, read its field in `view_all`, and add it to `tools.html`.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from maitred.config.taxonomy import merge_categories
from maitred.errors import ConfigError, UnknownTagError
from maitred.gateway import Gateway, ToolChange, ToolMatch
from maitred.model.access import Viewer
from maitred.model.categories import Placement, ToolChoice
from maitred.model.tools import Tool
from maitred.surfaces.web.narrowing import NarrowingFields, narrowing_of
from maitred.surfaces.web.screen import Action, Form, ScreenPage, Visit, WebScreen, url_of

_PAGE: Final = 100
_NOTHING_CHOSEN: Final = ToolChoice()


@dataclass(frozen=True, kw_only=True)
class ToolRow:
    """A tool of the list, with what the operator decided about it."""

    tool: Tool
    choice: ToolChoice

    @property
    def is_pinned(self) -> bool:
        """Whether the operator pinned it, in the configuration or in an override."""
        return self.choice.pinned or (self.tool.mending is not None and self.tool.mending.pinned)

    @property
    def is_moved(self) -> bool:
        """Whether it is in a category that the configuration names for it."""
        return bool(self.choice.category)


_ONLY: Final[Mapping[str, tuple[str, Callable[[ToolRow], bool]]]] = {
    "off": ("switched off", lambda row: not row.choice.enabled),
    "pinned": ("pinned", lambda row: row.is_pinned),
    "moved": ("moved to a category", lambda row: row.is_moved),
}
"""What the list can be limited to: the words, and whether a row is of it."""


async def view_all(visit: Visit) -> Mapping[str, Any]:
    """The tools of a category, of a server, with words in their names, with tags, or by their use."""
    query, may_change = visit.query, visit.gateway.is_allowed(visit.viewer, "configure")
    category, server, words = query.text("category"), query.text("server"), query.text("q")[:200]
    kinds = {name: text for name, (text, _) in _ONLY.items() if may_change or name != "off"}
    only = query.text("only") if query.text("only") in kinds else ""
    listed = _listed(visit, may_change=may_change)
    narrow, match = await _narrowed(visit)
    chosen = listed.rows if match else []
    if match and (category or server or words or only or narrow.is_set):
        chosen = [
            row
            for row in chosen
            if _is_chosen(row.tool, listed.heading(category), server, words.casefold().split())
            and (not only or _ONLY[only][1](row))
            and match.fits(row.tool)
        ]
    start = query.number("from", most=len(chosen))
    end = start + _PAGE
    fields = {"category": category, "server": server, "q": words, "only": only, **narrow.fields}
    shown = chosen[start:end]
    return {
        "narrow": narrow,
        "listed": listed,
        "usage": await visit.gateway.tool_usage([row.tool for row in shown], visit.viewer),
        "command_line": _command(category, server, only, narrow),
        "category": category,
        "server": server,
        "words": words,
        "only": only,
        "kinds": kinds,
        **_agents(visit),
        "found": len(chosen),
        "off": sum(not row.choice.enabled for row in chosen),
        "first": start,
        "rows": shown,
        "tokens": sum(row.tool.cost_tokens for row in chosen if row.choice.enabled or only == "off"),
        "newer": url_of("tools", **fields) if start else "",
        "older": url_of("tools", **fields, **{"from": end}) if end < len(chosen) else "",
    }


def _agents(visit: Visit) -> Mapping[str, Any]:
    """What agents get in their list, for a remark about it."""
    return {"mode": visit.gateway.mode(visit.viewer), "disclosure": visit.gateway.settings.disclosure}


@dataclass(frozen=True, kw_only=True)
class ToolList:
    """All tools for a viewer by name, and how many there are of each category, group, server and tag.

    A category has its sub-categories with their numbers.
    """

    rows: Sequence[ToolRow]
    categories: Sequence[tuple[str, int, Sequence[tuple[str, int]]]]
    groups: Sequence[tuple[str, int]]
    servers: Sequence[tuple[str, int]]
    tags: Sequence[tuple[str, int]]

    def heading(self, name: str) -> Callable[[Placement], bool]:
        """Whether a tool is below a heading: a category, else a sub-category, else a group."""
        if not name:
            return lambda _: True
        if any(name == one for one, _, _ in self.categories):
            return lambda own: own.category == name
        if any(name == part for _, _, parts in self.categories for part, _ in parts):
            return lambda own: own.subcategory == name
        return lambda own: own.group is not None and own.group.name == name


async def _narrowed(visit: Visit) -> tuple[NarrowingFields, ToolMatch | None]:
    """The fields of the form, and the tools that they choose; nothing if a field means nothing."""
    narrow = narrowing_of(visit.query)
    if narrow.faults:
        return narrow, None
    try:
        return narrow, await visit.gateway.tool_match(narrow.tags, narrow.use, viewer=visit.viewer)
    except UnknownTagError as error:
        return replace(narrow, faults=error.faults), None


def _command(category: str, server: str, only: str, narrow: NarrowingFields) -> str:
    """The command that prints the same, or the nearest to it."""
    if only:
        return "maitred tools"
    if path := f"category/{category}" if category else f"server/{server}" if server else "":
        return shlex.join(["maitred", "menu", path, *narrow.options])
    return "maitred categories --tags"


def _listed(visit: Visit, *, may_change: bool) -> ToolList:
    """The tools that agents may see, and for who may change them those that are switched off."""
    gateway, viewer = visit.gateway, visit.viewer
    choices = gateway.tool_choices(viewer)
    off = gateway.switched_off_tools(viewer) if may_change else ()
    tools = [*gateway.visible_tools(viewer), *off]

    def work_out() -> ToolList:
        tools.sort(key=lambda tool: tool.name)
        categories = _counts(tool.placement.category for tool in tools)
        return ToolList(
            rows=[ToolRow(tool=tool, choice=choices.get(tool.key, _NOTHING_CHOSEN)) for tool in tools],
            categories=[(name, number, _parts(tools, name)) for name, number in categories],
            groups=_counts(tool.placement.group.name for tool in tools if tool.placement.group),
            servers=_counts(tool.server for tool in tools),
            tags=_counts(tag for tool in tools for tag in tool.placement.tags),
        )

    return visit.memory.keep(("tools", viewer.grant), (tuple(tools), choices), work_out)


def _parts(tools: Sequence[Tool], category: str) -> Sequence[tuple[str, int]]:
    """The sub-categories of a category with the number of tools in each."""
    placements = [tool.placement for tool in tools if tool.placement.category == category]
    return _counts(one.subcategory for one in placements if one.subcategory)


def _is_chosen(tool: Tool, is_there: Callable[[Placement], bool], server: str, words: Sequence[str]) -> bool:
    if not is_there(tool.placement) or (server and tool.server != server):
        return False
    text = f"{tool.name} {tool.title}".casefold() if words else ""
    return all(word in text for word in words)


def _counts(names: Any) -> Sequence[tuple[str, int]]:
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))


async def view_one(visit: Visit) -> Mapping[str, Any]:
    """One tool: what agents read of it at each level of detail, its definition, its use, and decisions."""
    gateway, viewer = visit.gateway, visit.viewer
    tool = gateway.tool(visit.path["server"], visit.path["tool"], viewer)
    known = await gateway.tool_json(tool, viewer)
    choice = gateway.tool_choices(viewer).get(tool.key, _NOTHING_CHOSEN)
    spec = gateway.settings.servers.get(tool.server)
    may_configure, is_registered = (
        gateway.is_allowed(viewer, "configure"),
        spec is not None and spec.registered,
    )
    return {
        "page_title": f"{tool.name} · Tools",
        "tool": tool,
        **_agents(visit),
        "known": known,
        "brief": await _text(gateway, tool, "brief", viewer),
        "full": await _text(gateway, tool, "full", viewer),
        "definition": known["definition"],
        "original": known["original"],
        "usage": known["usage"],
        "tiers_at": gateway.snapshot.tiers_at,
        "watches": gateway.is_allowed(viewer, "watch", server=tool.server),
        "may_change": may_configure and not is_registered,
        "may_edit": may_configure,
        "is_registered": is_registered,
        "row": ToolRow(tool=tool, choice=choice),
        "all_categories": [(one.name, one.title) for one in merge_categories(gateway.settings.categories)],
    }


async def _text(gateway: Gateway, tool: Tool, detail: str, viewer: Viewer) -> tuple[str, int]:
    """What `tool_info` answers an agent for a tool, and its price; nothing if it is withheld."""
    text = (await gateway.info([tool.name], detail, viewer=viewer)).text
    return text, gateway.tokens_of(text)


_SWITCHES: Final[Mapping[str, tuple[ToolChange, str]]] = {
    "off": (ToolChange(enabled=False), "is switched off: no agent finds or calls it"),
    "on": (ToolChange(enabled=True), "is switched on again"),
    "pin": (ToolChange(pinned=True), "is pinned to the top of the hot list"),
    "unpin": (ToolChange(pinned=False), "is no longer pinned"),
}
"""What a button of a tool's page does, and what the next page says of the tool."""


async def change(visit: Visit, form: Form) -> str:
    """Switch a tool off or on, pin or unpin it, or move it to a category or back."""
    server, name, what = visit.path["server"], visit.path["tool"], form.text("what")
    tool = visit.gateway.tool(server, name, visit.viewer)
    if what == "move":
        category = form.text("category")
        wanted = ToolChange(category=category)
        outcome = f"is in {category} now" if category else "is in the category that the gateway finds"
    elif what in _SWITCHES:
        wanted, outcome = _SWITCHES[what]
    else:
        raise ConfigError("the form", ["says nothing that can be changed"])
    file = await visit.gateway.change_tool(tool.name, wanted, visit.viewer)
    visit.notify(f"{tool.name} {outcome}. This is in {file}.")
    return url_of("tools", server, name)


SCREEN: Final = WebScreen(
    title="Tools",
    role="viewer",
    summary="what agents read of each tool, and what it costs",
    pages=[
        ScreenPage(path="tools", template="tools/tools.html", view=view_all),
        ScreenPage(path="tools/{server}/{tool}", template="tools/tool.html", view=view_one),
    ],
    actions=[Action(path="tools/{server}/{tool}/change", act=change)],
)
