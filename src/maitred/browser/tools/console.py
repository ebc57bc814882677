"""The tool for the console of a page."""

from collections.abc import Mapping
from typing import Any, Final

from maitred.browser.page import ConsoleMessage
from maitred.browser.tools.base import BrowserTool, text, truth, whole
from maitred.browser.workspace import Workspace

_LEVELS: Final = ("all", "error", "warning", "info", "debug")


async def _console(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    page = await workspace.page(arguments.get("connection_id", ""))
    level, limit = arguments["filter_level"], arguments["limit"]
    fitting = [one for one in page.console if level in ("all", one.level)]
    if not fitting:
        return "The console has no such message."
    newest = fitting[-limit:]
    lines = [_line(one, expand=arguments["expand_errors"]) for one in newest]
    head = f"{len(newest)} of {len(fitting)} messages, the newest last:"
    return "\n".join([head, *lines])


def _line(message: ConsoleMessage, *, expand: bool) -> str:
    where = f" ({message.where})" if message.where else ""
    line = f"[{message.level}] {message.text}{where}"
    if expand and message.level == "error":
        line = "\n".join([line, *(f"    at {one}" for one in message.stack)])
    return line


TOOLS: Final = (
    BrowserTool(
        name="get_console_logs",
        description="Read the newest messages of the page's console.",
        run=_console,
        properties={
            "filter_level": text(enum=list(_LEVELS), default="all"),
            "limit": whole(default=3, minimum=1, maximum=200),
            "expand_errors": truth("With the stack of each error.", default=False),
        },
        needs="a connection",
        reads=True,
    ),
)
