"""Tools for a page that is paused: its stack, values in a frame, steps, and going on."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from maitred.browser.debugger import Frame, Step, preview_text, value_text
from maitred.browser.errors import BrowserFaultError
from maitred.browser.page import BrowserPage, exception_text
from maitred.browser.tools.base import BrowserTool, text
from maitred.browser.workspace import Workspace

_STEP_S: Final = 5.0
_SHORT_STACK: Final = 5
_NEEDS: Final = "a paused debugger"
NO_EXPRESSIONS: Final = "the operator turned expressions off in this gateway (`evaluate: false`)"


async def pause_text(page: BrowserPage, frames: int = _SHORT_STACK) -> str:
    """Where a page is paused: the reason, the stack, the lines around, the variables of the top frame."""
    pause = page.debugger.paused
    if pause is None:
        return "The page runs."
    lines = [f"Paused: {pause.reason}."]
    lines += [f"#{number} {one.text}" for number, one in enumerate(pause.frames[:frames])]
    if len(pause.frames) > frames:
        lines.append(f"… and {len(pause.frames) - frames} more; debugger_get_call_stack has them")
    if pause.frames:
        top = pause.frames[0]
        lines += await page.debugger.source(top)
        values = await page.debugger.variables(top)
        lines += ["Variables: " + ", ".join(f"{name} = {value}" for name, value in values)] if values else []
    return "\n".join(lines)


async def paused_page(workspace: Workspace, arguments: Mapping[str, Any]) -> BrowserPage:
    """The page of a call, which is paused.

    Raises:
        BrowserFaultError: It runs.
    """
    page = await workspace.page(arguments.get("connection_id", ""))
    if page.debugger.paused is None:
        raise BrowserFaultError("this page is not paused; call debugger_pause, or set a breakpoint")
    return page


async def _call_stack(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await paused_page(workspace, arguments)
    return await pause_text(page, frames=100)


async def _evaluate(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    if not workspace.options.evaluate:
        raise BrowserFaultError(NO_EXPRESSIONS)
    page = await paused_page(workspace, arguments)
    frame = _frame(page, arguments["call_frame_id"])
    answer = await page.debugger.evaluate(frame.id, arguments["expression"])
    if (failed := answer.get("exceptionDetails")) is not None:
        raise BrowserFaultError(f"the expression failed: {exception_text(failed)}")
    value = answer["result"]
    preview = value.get("preview")
    return preview_text(preview) if preview and value.get("subtype") != "error" else value_text(value)


def _frame(page: BrowserPage, wanted: str) -> Frame:
    """The frame of a number on the stack, or of its id in the protocol."""
    frames = page.debugger.paused.frames if page.debugger.paused else ()
    for number, one in enumerate(frames):
        if wanted in (str(number), f"#{number}", one.id):
            return one
    raise BrowserFaultError(
        f"there is no function {wanted!r} on the stack, which has {len(frames)}, counted from 0"
    )


async def _step(step: Step, workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await paused_page(workspace, arguments)
    with page.debugger.hold():
        await page.debugger.step(step)
        await page.settle(_STEP_S)
        if page.debugger.paused is None and step != "resume":
            await page.debugger.end_step()
    return await pause_text(page)


_STEPS: Final[tuple[tuple[str, str, Step], ...]] = (
    ("debugger_step_over", "Run to the next line.", "stepOver"),
    ("debugger_step_into", "Run into the function that is called next.", "stepInto"),
    ("debugger_step_out", "Run until the function returns.", "stepOut"),
    ("debugger_resume", "Let the page run on, until the next breakpoint.", "resume"),
)

TOOLS: Final = (
    BrowserTool(
        name="debugger_get_call_stack",
        description="The functions that the page is paused in, with their numbers.",
        run=_call_stack,
        needs=_NEEDS,
        reads=True,
    ),
    BrowserTool(
        name="debugger_evaluate_on_call_frame",
        description="Evaluate a JavaScript expression in a function that the page is paused in.",
        run=_evaluate,
        properties={
            "call_frame_id": text("The number of the function on the stack; 0 is the top.", minLength=1),
            "expression": text(minLength=1),
        },
        required=("call_frame_id", "expression"),
        needs=_NEEDS,
    ),
    *(
        BrowserTool(name=name, description=description, run=partial(_step, step), needs=_NEEDS)
        for name, description, step in _STEPS
    ),
)
