"""Tools for what is in a page: find elements, click, fill, and go to an address.

They also find what is in frames of the same origin and in open shadow roots. A click is one of the mouse,
where the element really is; an element that another one covers is not clicked. What waits for the page ends
as soon as the debugger pauses it.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

from maitred.browser.cdp import CdpTimeoutError
from maitred.browser.errors import BrowserFaultError
from maitred.browser.page import DEBUGGING_ADDRESS, BrowserPage
from maitred.browser.tools.base import CONTEXT, BrowserTool, text, truth, whole
from maitred.browser.tools.stepping import pause_text
from maitred.browser.workspace import Workspace

_LOAD_S: Final = 30.0
_BEGIN_S: Final = 0.1
_TASKS_S: Final = 10.0
_FRAME_LOAD_S: Final = 5.0
_SHOWN: Final = 200
_SCHEMES: Final = ("http", "https")
_MOST_ERRORS: Final = 3
_RUNNING: Final = "a connection, and a page that is not paused"


@cache
def _script() -> str:
    """The functions that run in the page."""
    return files("maitred.browser.tools").joinpath("elements.js").read_text(encoding="utf-8").strip()


async def _in_page(page: BrowserPage, function: str, *arguments: Any, can_pause: bool = False) -> Any:
    """The answer of one of the functions in `elements.js`.

    Raises:
        BrowserFaultError: The function refused, with its reason.
    """
    call = ", ".join(json.dumps(one) for one in arguments)
    answer = await page.evaluate(f"({_script()}).{function}({call})", can_pause=can_pause)
    if isinstance(answer, Mapping) and answer.get("fault"):
        raise BrowserFaultError(str(answer["fault"]))
    return answer


async def _query(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await workspace.page(arguments.get("connection_id", ""))
    wanted = {
        "limit": arguments["limit"],
        "text": arguments.get("text_contains", ""),
        "hidden": arguments["include_hidden"],
    }
    answer = await _in_page(page, "query", arguments["selector"], wanted)
    lines = [f"{one['index']}: {one['element']}" for one in answer["elements"]]
    found = f"{len(lines)} of {answer['fitting']} elements that fit"
    hidden = f"; {answer['hidden']} more are hidden" if answer["hidden"] else ""
    return "\n".join([f"{found}{hidden}{answer['apart']}{':' if lines else '.'}", *lines])


async def _click(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await _running_page(workspace, arguments)
    selector, index = arguments["selector"], arguments["index"]

    async def click() -> str:
        place = await _in_page(page, "place", selector, index)
        if place["in_background"]:
            await page.send("Page.bringToFront")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            await page.send("Input.dispatchMouseEvent", {"type": kind, **place["point"], **button})
        return str(place["element"])

    return await _acted(page, arguments, "Clicked", click)


async def _fill(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await _running_page(workspace, arguments)

    async def fill() -> str:
        wanted = {"text": arguments["text"], "submit": arguments["submit"]}
        selector, index = arguments["selector"], arguments["index"]
        return str(await _in_page(page, "fill", selector, index, wanted, can_pause=True))

    return await _acted(page, arguments, "Filled", fill)


async def _navigate(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page, url = await _running_page(workspace, arguments), arguments["url"]
    if url != "about:blank" and urlsplit(url).scheme.lower() not in _SCHEMES:
        raise BrowserFaultError(
            f"{url[:200]!r} is no address of the web; it must begin with http:// or https://"
        )
    if page.browser.is_debugging_address(url):
        raise BrowserFaultError(DEBUGGING_ADDRESS)

    async def go() -> str:
        answer = await page.send("Page.navigate", {"url": url}, timeout_s=_LOAD_S)
        if answer.get("errorText"):
            raise BrowserFaultError(f"{url[:200]} cannot be opened: {answer['errorText']}")
        loader = answer.get("loaderId", "")  # none within the same document
        if loader and not await page.until(lambda: page.has_loaded(loader), _LOAD_S):
            return f"{url[:200]}, which is still loading after {_LOAD_S:g} s"
        return str(url)[:200]

    return await _acted(page, arguments, "Opened", go)


async def _running_page(workspace: Workspace, arguments: Mapping[str, Any]) -> BrowserPage:
    """The page of a call, which is not paused: a paused one would answer only after it runs again.

    Raises:
        BrowserFaultError: It is paused.
    """
    page = await workspace.page(arguments.get("connection_id", ""))
    if page.debugger.paused is not None:
        raise BrowserFaultError("this page is paused; call debugger_resume")
    return page


async def _acted(page: BrowserPage, arguments: Mapping[str, Any], done: str, act: Any) -> str:
    """Do something to a page; the answer says what became of it, or where the debugger paused it."""
    top, page_before, loading_before = page.tab.target_id, page.url, page.loading
    newer_messages = page.follow_console()
    page.take_dialogs()

    def begun() -> frozenset[str]:
        return page.loading - (loading_before - {top})

    async def act_and_settle() -> str:
        what = str(await act())
        await page.settle(_TASKS_S)  # a link or a form that was used has begun to load by then
        if await page.until(lambda: bool(begun()), _BEGIN_S):
            await page.until(lambda: not begun(), _LOAD_S if top in begun() else _FRAME_LOAD_S)
        return what

    try:
        what = await page.unless_paused(act_and_settle)
    except CdpTimeoutError as error:
        raise BrowserFaultError(f"{error}; its page may be busy") from error
    if page.debugger.paused is not None:
        return f"The page paused before the call was over.\n{await pause_text(page)}"
    lines = [f"{done} {what}."]
    if arguments["include_context"]:
        title, url = await page.evaluate("[String(document.title), location.href]")
        moved = f", from {_short(page_before)}" if url != page_before else ""
        lines.append(f"Page: {_short(title)!r} {_short(url)}{moved}")
        errors = [f"{one.text} ({one.where})" for one in newer_messages() if one.level == "error"]
        lines += [f"Error in the console: {one}" for one in errors[-_MOST_ERRORS:]]
    return "\n".join([*lines, *(f"The page's dialog: {one}." for one in page.take_dialogs())])


def _short(value: str) -> str:
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"


_SELECTOR: Final = text("A CSS selector.", minLength=1)
_INDEX: Final = whole("Which of the elements that fit the selector.", default=0, minimum=0)

TOOLS: Final = (
    BrowserTool(
        name="query_elements",
        description="Find elements of the page by a CSS selector.",
        run=_query,
        properties={
            "selector": _SELECTOR,
            "limit": whole(default=5, minimum=1, maximum=100),
            "text_contains": text("In the text, the label or the placeholder of the element."),
            "include_hidden": truth(default=False),
        },
        required=("selector",),
        needs="a connection",
        reads=True,
    ),
    BrowserTool(
        name="click_element",
        description="Click an element.",
        run=_click,
        properties={"selector": _SELECTOR, "index": _INDEX, "include_context": CONTEXT},
        required=("selector",),
        needs=_RUNNING,
    ),
    BrowserTool(
        name="fill_element",
        description="Write text into a field, or choose an option of a list.",
        run=_fill,
        properties={
            "selector": _SELECTOR,
            "text": text(),
            "index": _INDEX,
            "submit": truth("Submit the form afterwards.", default=False),
            "include_context": CONTEXT,
        },
        required=("selector", "text"),
        needs=_RUNNING,
    ),
    BrowserTool(
        name="navigate",
        description="Open an address in the page, and wait until it is loaded.",
        run=_navigate,
        properties={"url": text(minLength=1), "include_context": CONTEXT},
        required=("url",),
        needs=_RUNNING,
    ),
)
