"""Tools for the tabs of a browser: list them, and choose the one to work with."""

from collections.abc import Mapping
from typing import Any, Final

from maitred.browser.browsers import Tab
from maitred.browser.errors import BrowserFaultError
from maitred.browser.tools.base import BrowserTool, text, whole
from maitred.browser.workspace import Attachment, Workspace

_LOAD_S: Final = 30.0
_SHOWN: Final = 200


async def _list(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    found = workspace.find(arguments.get("connection_id", ""))
    await found.browser.refresh()
    lines = [
        f"{number}: {_line(workspace, found, tab)}" for number, tab in enumerate(found.browser.tabs.values())
    ]
    return "\n".join(lines) or "The browser has no page."


def _line(workspace: Workspace, found: Attachment, tab: Tab) -> str:
    if tab.owner is not None and tab.owner is not workspace.owner:
        named = f"{_named(tab)} " if _is_readable(workspace, tab) else ""
        return f"{named}(belongs to {tab.owner.name})"
    is_current = found.page is not None and found.page.tab is tab
    crashed = " (crashed)" if tab.has_crashed else ""
    return f"{_named(tab)}{crashed}{' (current)' if is_current else ' (yours)' if tab.owner else ''}"


def _is_readable(workspace: Workspace, tab: Tab) -> bool:
    """Whether a client may know what is in a tab: not in one of another principal."""
    return tab.owner is None or tab.owner.principal == workspace.owner.principal


def _named(tab: Tab) -> str:
    return f"{tab.title[:_SHOWN]!r} {tab.url[:_SHOWN]}"


async def _switch(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    found = workspace.find(arguments.get("connection_id", ""))
    await found.browser.refresh()
    tab = _chosen(workspace, list(found.browser.tabs.values()), arguments)
    await workspace.use(found, tab)
    is_read = found.page is None or await found.page.until_read(_LOAD_S)
    loading = "" if is_read else f" It is still loading after {_LOAD_S:g} s."
    return f"Works with {_named(tab)} now. Its debugger is off.{loading}"


def _chosen(workspace: Workspace, tabs: list[Tab], arguments: Mapping[str, Any]) -> Tab:
    """The tab that the arguments mean; of several that fit, the first that is no other client's.

    Those of other principals never fit a title or an address, whose text a client could guess otherwise.
    """
    index: int | None = arguments.get("index")
    title, url = arguments.get("title", ""), arguments.get("url", "")
    if index is None and not title and not url:
        raise BrowserFaultError("switch_target needs `index`, `title` or `url`; list_targets has them")
    if index is not None and index >= len(tabs):
        raise BrowserFaultError(f"there is no tab {index}; list_targets has {len(tabs)}, counted from 0")
    if index is not None and not _is_readable(workspace, tabs[index]):
        return tabs[index]  # which is refused
    fitting = [
        tab
        for tab in (tabs if index is None else [tabs[index]])
        if _is_readable(workspace, tab)
        and title.casefold() in tab.title.casefold()
        and url.casefold() in tab.url.casefold()
    ]
    if not fitting:
        raise BrowserFaultError("no tab has this title and address; list_targets has all of them")
    return min(fitting, key=lambda tab: tab.owner not in (None, workspace.owner))


TOOLS: Final = (
    BrowserTool(
        name="list_targets",
        description="List the tabs of the browser, with those that other clients use.",
        run=_list,
        needs="a connection",
        reads=True,
    ),
    BrowserTool(
        name="switch_target",
        description="Work with another tab, by its number, or a part of its title or address.",
        run=_switch,
        properties={"index": whole(minimum=0), "title": text(), "url": text()},
        needs="a connection",
    ),
)
