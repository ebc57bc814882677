"""The menu: the few tools of our own by which an agent finds and calls all others.

Their definitions change with the catalog alone, so the menu has the same bytes for everybody; every word of
them is paid for in every conversation. Each function is a thin call on the gateway.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from maitred.errors import MaitredError, ProtocolError, ToolNotFoundError
from maitred.gateway import (
    LEDGER_KEY,
    LONGEST_MS,
    MAX_LIMIT,
    PAGE_TOOLS,
    REQUEST_KEY,
    Gateway,
    Progress,
    known_id,
)
from maitred.model.access import Viewer
from maitred.model.tools import ToolCall
from maitred.surfaces.mcp import meta_arguments as read

Result = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class MetaToolRequest:
    """One call of a meta-tool: its arguments, who asks, and what is relayed if it is a call of a tool."""

    arguments: Mapping[str, Any]
    viewer: Viewer
    call: ToolCall
    progress: Progress | None = None


Handler = Callable[[Gateway, MetaToolRequest], Awaitable[Result]]

_TEXT = {"type": "string"}
_DETAIL = {"enum": ["brief", "full"]}
_TEXTS = {"type": "array", "items": _TEXT}
_CALL = {
    "type": "object",
    "properties": {"name": _TEXT, "arguments": {"type": "object"}},
    "required": ["name"],
}

_DEFINED: tuple[Mapping[str, Any], ...] = (
    {
        "name": "search_tools",
        "description": "Find tools by what they do. Short phrases, one capability each."
        " Answers with signatures to call.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "phrases": _TEXTS,
                "server": _TEXT,
                "category": _TEXT,
                "read_only": {"type": "boolean"},
                "limit": {"type": "integer"},
                "detail": _DETAIL,
            },
            "required": ["phrases"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "list_tools_meta",
        "description": "Browse: hot tools and categories, or by path category/<name> or server/<name>.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": _TEXT, "cursor": _TEXT, "page_size": {"type": "integer"}},
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "tool_info",
        "description": "Describe tools; full includes schemas.",
        "inputSchema": {
            "type": "object",
            "properties": {"names": _TEXTS, "detail": _DETAIL},
            "required": ["names"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "call_tool",
        "description": "Call a tool by its full name.",
        "inputSchema": _CALL,
        "annotations": {"destructiveHint": True, "openWorldHint": True},
    },
    {
        "name": "call_read_only_tool",
        "description": "Call a tool that only reads; refuses any other.",
        "inputSchema": _CALL,
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    },
    {
        "name": "call_tool_chain",
        "description": "Run Python that calls tools; only its result returns:"
        ' `await call_tool("server__tool", {...})` or `import server; await server.tool(x=1)`;'
        " asyncio.gather; `return`. No files or network.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "code": _TEXT,
                "timeout_ms": {"type": "integer"},
                "max_output_size": {"type": "integer"},
                "dry_run": {"type": "boolean"},
            },
            "required": ["code"],
        },
        "annotations": {"destructiveHint": True, "openWorldHint": True},
    },
)

DEFINITIONS: tuple[Mapping[str, Any], ...] = tuple(
    {**one, "_meta": {"anthropic/alwaysLoad": True}} for one in _DEFINED
)
"""The menu. A client that defers tools has to keep it loaded: it is what all other tools are found by."""

_KEYS: Mapping[str, Sequence[str]] = {
    definition["name"]: list(definition["inputSchema"]["properties"]) for definition in DEFINITIONS
}
"""The arguments that the schema of each meta-tool has."""

CALLING: tuple[Mapping[str, Any], ...] = tuple(
    one for one in DEFINITIONS if one["name"] in ("search_tools", "call_tool", "call_read_only_tool")
)
"""What a list of categories needs beside it, to find and call what it does not show."""


def definitions(index: str) -> list[dict[str, Any]]:
    """The menu, with what there is to be found in the description of the search."""
    first, *rest = DEFINITIONS
    return [{**first, "description": first["description"] + index}, *map(dict, rest)]


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
    await gateway.warm()  # unknown names are answered with the nearest, by the index
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
            progress=request.progress,
            viewer=request.viewer,
            shorten=True,
        )
    entry = gateway.ledger.relayed(request.viewer.principal, result)
    meta = result.get("_meta")
    return result | {"_meta": {**(meta if isinstance(meta, Mapping) else {}), LEDGER_KEY: entry}}


async def _inner(gateway: Gateway, request: MetaToolRequest) -> ToolCall:
    """The call that a call of `call_tool` stands for.

    Raises:
        WrongArgumentError: It names no tool, or a value is of the wrong kind.
        ArgumentsError: What was sent beside `arguments` cannot be told from a mistake.
    """
    asked = read.asked_call(request.arguments)
    if asked.beside:
        asked = await _with_beside(gateway, asked, request.viewer)
    return replace(request.call, name=asked.name, arguments=asked.arguments)


async def _with_beside(gateway: Gateway, asked: read.RequestedCall, viewer: Viewer) -> read.RequestedCall:
    """A call with what was sent beside its arguments; if there is no such tool, the call itself says so."""
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
    arguments = read.merged(asked, tool=tool.name, schema=schema, parameters=parameters)
    return replace(asked, arguments=arguments)


async def _chain(gateway: Gateway, request: MetaToolRequest) -> Result:
    given = request.arguments
    _check(request, "call_tool_chain")
    request_id = known_id(request.call.request_id, request.call.meta)
    made = await gateway.chains.run(
        read.code(given),
        viewer=request.viewer,
        timeout_ms=read.integer(given, "timeout_ms", 30_000, most=LONGEST_MS),
        max_output_size=read.integer(given, "max_output_size", 20_000, most=read.MAX_OUTPUT),
        dry_run=read.boolean(given, "dry_run"),
        progress=request.progress,
        request_id=request_id,
    )
    result = await gateway.chains.result(made, request.viewer, request_id)
    entry = gateway.ledger.relayed(request.viewer.principal, result)
    return result | {"_meta": {**result["_meta"], LEDGER_KEY: entry}}


def _check(request: MetaToolRequest, tool: str, *same: Sequence[str], hidden: Sequence[str] = ()) -> None:
    """Refuse arguments that a meta-tool does not know."""
    read.check_keys(tool, request.arguments, _KEYS[tool], *same, hidden=hidden)


@contextmanager
def _own_names_explained(tool: str) -> Iterator[None]:
    """Tell a caller that looks for a meta-tool among the tools where it is."""
    try:
        yield
    except ToolNotFoundError as error:
        own = error.name.rpartition("__")[2]
        if own not in HANDLERS:
            raise
        raise read.WrongArgumentError(
            f"`{own}` is a tool beside `{tool}`: call it directly, with its own arguments"
        ) from error


HANDLERS: Mapping[str, Handler] = {
    "search_tools": _search,
    "list_tools_meta": _browse,
    "tool_info": _info,
    "call_tool": _call_tool,
    "call_read_only_tool": _call_read_only_tool,
    "call_tool_chain": _chain,
}


async def answer(gateway: Gateway, name: str, request: MetaToolRequest) -> Result:
    """The answer of a meta-tool, an error of ours included; the ledger's entry stands in its `_meta`.

    Raises:
        ProtocolError: A server answered a call with an error.
    """
    try:
        result = await HANDLERS[name](gateway, request)
    except ProtocolError:
        raise
    except MaitredError as error:
        return failed(gateway, request.viewer.principal, error)
    return result if "_meta" in result else with_ledger(gateway, request.viewer.principal, result)


def failed(gateway: Gateway, principal: str, error: MaitredError) -> Result:
    """An error as an answer, with the id of the call that it ended."""
    result = with_ledger(gateway, principal, text_result(str(error), error=True))
    marks = {REQUEST_KEY: error.request_id} if error.request_id else {}
    return result | {"_meta": {**result["_meta"], **marks}}


def with_ledger(gateway: Gateway, principal: str, result: Result) -> Result:
    """An answer of our own, with what finding tools has cost so far."""
    return result | {"_meta": {LEDGER_KEY: gateway.ledger.answered(principal, result["content"][0]["text"])}}
