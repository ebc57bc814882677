"""Tools: by category and server, and for each what agents read of it and what that costs in tokens.

It changes nothing; the command line does (`maitred categories`, `maitred mediate`).
To add a filter, read its field in `view_all`, and add it to the form of `tools.html`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from maitred.gateway import Gateway
from maitred.model.access import Viewer
from maitred.model.tools import Tool
from maitred.surfaces.web.screen import ScreenPage, Visit, WebScreen, url_of

_PAGE: Final = 100


async def view_all(visit: Visit) -> Mapping[str, Any]:
    """The tools of a category, of a server, or with words in their names; all of them without a choice."""
    query = visit.query
    category, server, words = query.text("category"), query.text("server"), query.text("q")[:200]
    tools = visit.gateway.visible_tools(visit.viewer)
    chosen = [tool for tool in tools if _is_chosen(tool, category, server, words.casefold().split())]
    start = query.number("from", most=len(chosen))
    more = start + _PAGE < len(chosen)
    fields = {"category": category, "server": server, "q": words}
    return {
        "categories": _counts(tool.placement.category for tool in tools),
        "servers": _counts(tool.server for tool in tools),
        "category": category,
        "server": server,
        "words": words,
        "total": len(tools),
        "found": len(chosen),
        "first": start,
        "tools": chosen[start : start + _PAGE],
        "tokens": sum(tool.cost_tokens for tool in chosen),
        "newer": url_of("tools", **fields) if start else "",
        "older": url_of("tools", **fields, **{"from": start + _PAGE}) if more else "",
    }


def _is_chosen(tool: Tool, category: str, server: str, words: Sequence[str]) -> bool:
    if (category and tool.placement.category != category) or (server and tool.server != server):
        return False
    text = f"{tool.name} {tool.title}".casefold() if words else ""
    return all(word in text for word in words)


def _counts(names: Any) -> Sequence[tuple[str, int]]:
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))


async def view_one(visit: Visit) -> Mapping[str, Any]:
    """One tool: what agents read of it at each level of detail, its definition, and its use."""
    gateway, viewer = visit.gateway, visit.viewer
    tool = gateway.tool(visit.path["server"], visit.path["tool"], viewer)
    known = gateway.tool_json(tool, viewer)
    return {
        "page_title": f"{tool.name} · Tools",
        "tool": tool,
        "known": known,
        "brief": _text(gateway, tool, "brief", viewer),
        "full": _text(gateway, tool, "full", viewer),
        "definition": known["definition"],
        "original": known["original"],
        "usage": known["usage"],
        "watches": gateway.is_allowed(viewer, "watch", server=tool.server),
    }


def _text(gateway: Gateway, tool: Tool, detail: str, viewer: Viewer) -> tuple[str, int]:
    """What `tool_info` answers an agent for a tool, and its price; nothing if it is withheld."""
    text = gateway.info([tool.name], detail, viewer=viewer).text
    return text, gateway.tokens_of(text)


SCREEN: Final = WebScreen(
    title="Tools",
    role="viewer",
    summary="what agents read of each tool, and what it costs",
    pages=[
        ScreenPage(path="tools", template="tools/tools.html", view=view_all),
        ScreenPage(path="tools/{server}/{tool}", template="tools/tool.html", view=view_one),
    ],
)
