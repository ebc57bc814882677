"""The menu: the table of all meta-tools, their definitions for `tools/list`, and the answer to a call of one.

Definitions change with the catalog alone, so all clients of one viewer get the same bytes. The audit trail
has each answer. That of a tool, or of a chain, is recorded where it is made.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

from maitred.errors import MaitredError, ProtocolError, ToolNotFoundError
from maitred.gateway import LEDGER_KEY, NOTHING_FOUND, REQUEST_KEY, Answer, Gateway
from maitred.meta_tools.arguments import WrongArgumentError
from maitred.meta_tools.base import MenuText, MetaTool, MetaToolRequest, Result, text_result
from maitred.meta_tools.call_read_only_tool import CALL_READ_ONLY_TOOL
from maitred.meta_tools.call_tool import CALL_TOOL
from maitred.meta_tools.call_tool_chain import CALL_TOOL_CHAIN
from maitred.meta_tools.list_tools_meta import LIST_TOOLS_META
from maitred.meta_tools.search_tools import SEARCH_TOOLS
from maitred.meta_tools.tool_info import TOOL_INFO
from maitred.model.access import Viewer
from maitred.model.tools import Tool
from maitred.wording import as_code

META_TOOLS: Final[dict[str, MetaTool]] = {
    tool.name: tool
    for tool in (
        SEARCH_TOOLS,
        LIST_TOOLS_META,
        TOOL_INFO,
        CALL_TOOL,
        CALL_READ_ONLY_TOOL,
        CALL_TOOL_CHAIN,
    )
}
"""The meta-tools by name, in the order of the menu."""


def definitions(index: str = "") -> list[dict[str, Any]]:
    """The definitions of the menu; the search's description ends with `index`."""
    return [tool.definition(index) for tool in META_TOOLS.values()]


def with_categories(gateway: Gateway, viewer: Viewer) -> list[dict[str, Any]]:
    """What a list of categories begins with: the meta-tools that it needs, and the category tools."""
    return [*calling(gateway.hidden_tools(viewer)), *gateway.category_definitions(viewer)]


def calling(hidden: Sequence[Tool]) -> list[dict[str, Any]]:
    """The meta-tools that a list of categories needs, to find and call the tools that it hides."""
    return [
        tool.definition_with_categories()
        for tool in META_TOOLS.values()
        if tool.with_categories and tool.with_categories(hidden)
    ]


def safe_tools() -> list[str]:
    """The names of the meta-tools that change nothing, whatever their arguments are."""
    return [tool.name for tool in META_TOOLS.values() if tool.reads_only]


async def answer(gateway: Gateway, name: str, request: MetaToolRequest) -> Result:
    """The answer of a meta-tool, also for our own errors; its `_meta` has the ledger's entry.

    Raises:
        KeyError: There is no such meta-tool.
        ProtocolError: A server answered a call with an error.
    """
    tool, started = META_TOOLS[name], time.perf_counter()
    try:
        tool.check(request.arguments)
        result = await tool.answer(gateway, request)
    except ProtocolError:
        raise
    except MaitredError as error:
        shown = _explained(name, error) if isinstance(error, ToolNotFoundError) else error
        answered = error_result(gateway, request.viewer, shown)
        if not error.request_id:  # else the trail has it already
            _record(gateway, tool, request, answered, started, outcome=shown.code)
        return answered
    if isinstance(result, MenuText):
        answered = _with_ledger(gateway, request.viewer, text_result(result.text))
        outcome = "ok" if result.has_results else NOTHING_FOUND
        _record(gateway, tool, request, answered, started, outcome=outcome, tools=result.tools)
        return answered
    return result if "_meta" in result else _with_ledger(gateway, request.viewer, result)


def _record(
    gateway: Gateway,
    tool: MetaTool,
    request: MetaToolRequest,
    result: Result,
    started: float,
    *,
    outcome: str,
    tools: Sequence[str] = (),
) -> None:
    """Record an answer of our own: what was asked, and what the agent read of it."""
    gateway.record_menu_answer(
        tool.action or tool.name,
        request.call,
        request.viewer,
        result,
        arguments=request.arguments,
        outcome=outcome,
        ms=(time.perf_counter() - started) * 1_000,
        tools=tools,
    )


def _explained(name: str, error: ToolNotFoundError) -> MaitredError:
    """The error for a caller that used a meta-tool like an ordinary tool: it says how to call that one."""
    own = error.name.rpartition("__")[2]
    if own not in META_TOOLS:
        return error
    return WrongArgumentError(
        f"{as_code(own)} is a tool beside {as_code(name)}: call it directly, with its own arguments"
    )


def error_result(gateway: Gateway, viewer: Viewer, error: MaitredError) -> Result:
    """An error as an answer, with the request id of the failed call."""
    result = _with_ledger(gateway, viewer, text_result(str(error), error=True))
    marks = {REQUEST_KEY: error.request_id} if error.request_id else {}
    return Answer(wire=result).with_meta(marks).wire


def _with_ledger(gateway: Gateway, viewer: Viewer, result: Result) -> Result:
    """An answer of our own, with the tokens that finding tools has cost so far."""
    entry = gateway.count_answer(result["content"][0]["text"], viewer)
    return Answer(wire=result).with_meta({LEDGER_KEY: entry}).wire
