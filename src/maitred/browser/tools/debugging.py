"""Tools that turn the debugger on, and set where it stops: breakpoints, exceptions, now."""

from collections.abc import Mapping
from typing import Any, Final

from maitred.browser.errors import BrowserFaultError
from maitred.browser.page import BrowserPage
from maitred.browser.tools.base import BrowserTool, text, whole
from maitred.browser.tools.stepping import NO_EXPRESSIONS, pause_text
from maitred.browser.workspace import Workspace
from maitred.wording import did_you_mean

_PAUSE_S: Final = 2.0
_OFF: Final = "the debugger to be on"


async def debugged_page(workspace: Workspace, arguments: Mapping[str, Any]) -> BrowserPage:
    """The page of a call, whose debugger is on.

    Raises:
        BrowserFaultError: It is off.
    """
    page = await workspace.page(arguments.get("connection_id", ""))
    if not page.debugger.enabled:
        raise BrowserFaultError("the debugger of this page is off; call debugger_enable")
    return page


async def _enable(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await workspace.page(arguments.get("connection_id", ""))
    await page.debugger.enable()
    return "The debugger is on."


async def _set_breakpoint(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    condition = arguments.get("condition", "")
    if condition and not workspace.options.evaluate:
        raise BrowserFaultError(f"leave out `condition`: {NO_EXPRESSIONS}")
    page = await debugged_page(workspace, arguments)
    made = await page.debugger.set_breakpoint(
        arguments["url"], arguments["line_number"], arguments["column_number"], condition
    )
    if made.unbound:
        return f"Breakpoint {made.id} is set, but stops nowhere: {made.unbound}."
    places = ", ".join(made.places) or "pending: no script of this address is loaded yet"
    return f"Breakpoint {made.id} is set ({places})."


async def _remove_breakpoint(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await debugged_page(workspace, arguments)
    breakpoint_id, known = arguments["breakpoint_id"], page.debugger.breakpoints
    if breakpoint_id not in known:
        otherwise = f"there are {', '.join(known)}" if known else "none is set"
        hint = did_you_mean(breakpoint_id, known, otherwise=otherwise)
        raise BrowserFaultError(f"there is no breakpoint {breakpoint_id!r}; {hint}")
    await page.debugger.remove_breakpoint(breakpoint_id)
    return f"Breakpoint {breakpoint_id} is removed."


async def _pause(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await debugged_page(workspace, arguments)
    if page.debugger.paused is None:
        await page.debugger.pause()
        if not await page.until(lambda: page.debugger.paused is not None, _PAUSE_S):
            return "The page runs no JavaScript now; it will pause as soon as it does."
    return await pause_text(page)


async def _pause_on_exceptions(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await debugged_page(workspace, arguments)
    await page.debugger.pause_on_exceptions(arguments["state"])
    return f"Exceptions that pause the page: {arguments['state']}."


TOOLS: Final = (
    BrowserTool(
        name="debugger_enable",
        description="Turn on the debugger of the page.",
        run=_enable,
        needs="a connection",
    ),
    BrowserTool(
        name="debugger_set_breakpoint",
        description="Stop at a line of a script, if a condition holds there.",
        run=_set_breakpoint,
        properties={
            "url": text("The address of the script, or its end, such as `app.js`.", minLength=1),
            "line_number": whole("Counted from 1.", minimum=1),
            "column_number": whole(default=0, minimum=0),
            "condition": text("An expression in JavaScript."),
        },
        required=("url", "line_number"),
        needs=_OFF,
    ),
    BrowserTool(
        name="debugger_remove_breakpoint",
        description="Remove a breakpoint.",
        run=_remove_breakpoint,
        properties={"breakpoint_id": text(minLength=1)},
        required=("breakpoint_id",),
        needs=_OFF,
    ),
    BrowserTool(
        name="debugger_pause",
        description="Pause the page at the next statement that it runs.",
        run=_pause,
        needs=_OFF,
    ),
    BrowserTool(
        name="debugger_set_pause_on_exceptions",
        description="Choose which exceptions pause the page.",
        run=_pause_on_exceptions,
        properties={"state": text(enum=["none", "uncaught", "all"])},
        required=("state",),
        needs=_OFF,
    ),
)
