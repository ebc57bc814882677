"""The menu: the few tools of our own with which an agent finds and calls all other tools.

`meta_definitions` has their definitions for clients. Each handler is a thin call of the gateway.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from maitred.errors import MaitredError, ProtocolError, ToolNotFoundError
from maitred.gateway import (
    LEDGER_KEY,
    LONGEST_MS,
    MAX_LIMIT,
    NOT_ASKED,
    PAGE_TOOLS,
    REQUEST_KEY,
    Answer,
    Caller,
    Gateway,
    known_id,
)
from maitred.model.access import Viewer
from maitred.model.tools import ToolCall
from maitred.surfaces.mcp import meta_arguments as read
from maitred.surfaces.mcp.meta_definitions import META_TOOLS

Result = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class MetaToolRequest:
    """One call of a meta-tool: its arguments, viewer and caller, and the call to relay if there is one."""

    arguments: Mapping[str, Any]
    viewer: Viewer
    call: ToolCall
    caller: Caller = NOT_ASKED


Handler = Callable[[Gateway, MetaToolRequest], Awaitable[Result]]


def text_result(text: str, *, error: bool = False) -> Result:
    """A tool result of one text."""
    return {"content": [{"type": "text", "text": text}], "isError": error}


async def _search(gateway: Gateway, request: MetaToolRequest) -> Result:
    given = request.arguments
    _check(request, "search_tools", read.PHRASE_KEYS)
    answer = await gateway.search(
        read.texts(given, read.PHRASE_KEYS),
        server=read.text(given, "server").removeprefix("server/"),
        category=read.text(given, "category"),
        read_only=read.boolean(given, "read_only"),
        limit=read.integer(given, "limit", 5, most=MAX_LIMIT),
        detail=read.detail(given),
        viewer=request.viewer,
    )
    return text_result(answer.text)


async def _browse(gateway: Gateway, request: MetaToolRequest) -> Result:
    given = request.arguments
    _check(request, "list_tools_meta", hidden=read.PATH_KEYS)
    path, cursor = read.path(given), read.text(given, "cursor")
    size = read.integer(given, "page_size", PAGE_TOOLS, most=PAGE_TOOLS)
    return text_result(gateway.browse(path, cursor, size, viewer=request.viewer).text)


async def _info(gateway: Gateway, request: MetaToolRequest) -> Result:
    _check(request, "tool_info", read.NAMES_KEYS)
    detail = read.detail(request.arguments)
    names = read.texts(request.arguments, read.NAMES_KEYS)
    await gateway.warm()  # for unknown names, the index supplies the nearest ones
    with _own_names_explained("tool_info"):
        return text_result(gateway.info(names, detail, viewer=request.viewer).text)


async def _call_tool(gateway: Gateway, request: MetaToolRequest) -> Result:
    return await _relayed(gateway, request, read_only=False)


async def _call_read_only_tool(gateway: Gateway, request: MetaToolRequest) -> Result:
    return await _relayed(gateway, request, read_only=True)


async def _relayed(gateway: Gateway, request: MetaToolRequest, *, read_only: bool) -> Result:
    with _own_names_explained("call_read_only_tool" if read_only else "call_tool"):
        result = await gateway.call(
            await _inner(gateway, request),
            read_only=read_only,
            caller=request.caller,
            viewer=request.viewer,
            shorten=True,
        )
    entry = gateway.count_result(result, request.viewer)
    return Answer(wire=result).with_meta({LEDGER_KEY: entry}).wire


async def _inner(gateway: Gateway, request: MetaToolRequest) -> ToolCall:
    """The tool call that a call of `call_tool` contains.

    Raises:
        WrongArgumentError: It names no tool, or a value is of the wrong kind.
        ArgumentsError: Keys beside `arguments` may be parameters or a mistake.
    """
    asked = read.asked_call(request.arguments)
    if asked.beside:
        asked = await _with_beside(gateway, asked, request.viewer)
    return replace(request.call, name=asked.name, arguments=asked.arguments)


async def _with_beside(gateway: Gateway, asked: read.RequestedCall, viewer: Viewer) -> read.RequestedCall:
    """A call with the keys beside its arguments merged in; for an unknown tool, the call itself fails."""
    server = asked.beside.get("server")
    if isinstance(server, str):
        with suppress(MaitredError):
            tool = await gateway.tool_to_call(f"{server}/{asked.name}", viewer)
            rest = {key: value for key, value in asked.beside.items() if key != "server"}
            asked = replace(asked, name=tool.name, beside=rest)
    try:
        tool = await gateway.tool_to_call(asked.name, viewer)
    except MaitredError:
        return replace(asked, arguments={**asked.beside, **asked.arguments})
    schema, parameters = gateway.schema_of(tool.name, viewer), gateway.parameters(tool, viewer)
    arguments = read.merge_arguments(asked, tool=tool.name, schema=schema, parameters=parameters)
    return replace(asked, arguments=arguments)


async def _chain(gateway: Gateway, request: MetaToolRequest) -> Result:
    given = request.arguments
    _check(request, "call_tool_chain")
    request_id = known_id(request.call.request_id, request.call.meta)
    made = await gateway.run_chain(
        read.code(given),
        viewer=request.viewer,
        timeout_ms=read.integer(given, "timeout_ms", 30_000, most=LONGEST_MS),
        max_output_size=read.integer(given, "max_output_size", 20_000, most=read.MAX_OUTPUT),
        dry_run=read.boolean(given, "dry_run"),
        caller=request.caller,
        request_id=request_id,
    )
    result = await gateway.chain_result(made, request.viewer, request_id)
    entry = gateway.count_result(result, request.viewer)
    return Answer(wire=result).with_meta({LEDGER_KEY: entry}).wire


def _check(request: MetaToolRequest, tool: str, *same: Sequence[str], hidden: Sequence[str] = ()) -> None:
    """Refuse arguments that a meta-tool does not know."""
    read.check_keys(tool, request.arguments, list(META_TOOLS[tool].properties), *same, hidden=hidden)


@contextmanager
def _own_names_explained(tool: str) -> Iterator[None]:
    """Explain to a caller that looks up or calls a meta-tool like an ordinary tool how to call it."""
    try:
        yield
    except ToolNotFoundError as error:
        own = error.name.rpartition("__")[2]
        if own not in HANDLERS:
            raise
        raise read.WrongArgumentError(
            f"`{own}` is a tool beside `{tool}`: call it directly, with its own arguments"
        ) from error


HANDLERS: Final[dict[str, Handler]] = {
    "search_tools": _search,
    "list_tools_meta": _browse,
    "tool_info": _info,
    "call_tool": _call_tool,
    "call_read_only_tool": _call_read_only_tool,
    "call_tool_chain": _chain,
}
"""The handler of each meta-tool of `META_TOOLS`."""


async def answer(gateway: Gateway, name: str, request: MetaToolRequest) -> Result:
    """The answer of a meta-tool, also for our own errors; its `_meta` has the ledger's entry.

    Raises:
        ProtocolError: A server answered a call with an error.
    """
    try:
        result = await HANDLERS[name](gateway, request)
    except ProtocolError:
        raise
    except MaitredError as error:
        return error_result(gateway, request.viewer, error)
    return result if "_meta" in result else with_ledger(gateway, request.viewer, result)


def error_result(gateway: Gateway, viewer: Viewer, error: MaitredError) -> Result:
    """An error as an answer, with the request id of the failed call."""
    result = with_ledger(gateway, viewer, text_result(str(error), error=True))
    marks = {REQUEST_KEY: error.request_id} if error.request_id else {}
    return Answer(wire=result).with_meta(marks).wire


def with_ledger(gateway: Gateway, viewer: Viewer, result: Result) -> Result:
    """An answer of our own, with the tokens that finding tools has cost so far."""
    entry = gateway.count_answer(result["content"][0]["text"], viewer)
    return Answer(wire=result).with_meta({LEDGER_KEY: entry}).wire
