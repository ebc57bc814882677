"""`call_tool`: call any tool by its name. `call_read_only_tool` calls tools in the same way."""

from contextlib import suppress
from dataclasses import replace
from typing import Final

from maitred.errors import MaitredError
from maitred.gateway import LEDGER_KEY, Answer, Gateway
from maitred.meta_tools import arguments as read
from maitred.meta_tools.base import TEXT, MetaTool, MetaToolRequest, Result
from maitred.model.access import Viewer
from maitred.model.tools import ToolCall

PROPERTIES: Final = {"name": TEXT, "arguments": {"type": "object"}}


async def relay(gateway: Gateway, request: MetaToolRequest, *, read_only: bool) -> Result:
    """The answer of the tool that a request names, with the ledger's entry.

    Raises:
        WrongArgumentError: The request names no tool, or a value is of the wrong kind.
        ArgumentsError: Keys beside `arguments` may be parameters or a mistake.
        MaitredError: The call was refused, or its server failed.
    """
    result = await gateway.call(
        await _inner(gateway, request, "call_read_only_tool" if read_only else "call_tool"),
        read_only=read_only,
        caller=request.caller,
        viewer=request.viewer,
        shorten=True,
    )
    entry = gateway.count_result(result, request.viewer)
    return Answer(wire=result).with_meta({LEDGER_KEY: entry}).wire


async def _inner(gateway: Gateway, request: MetaToolRequest, via: str) -> ToolCall:
    """The tool call that a request contains."""
    asked = read.asked_call(request.arguments)
    if asked.beside:
        asked = await _with_beside(gateway, asked, request.viewer)
    return replace(request.call, name=asked.name, arguments=asked.arguments, via=via)


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


async def _answer(gateway: Gateway, request: MetaToolRequest) -> Result:
    return await relay(gateway, request, read_only=False)


CALL_TOOL: Final = MetaTool(
    name="call_tool",
    description="Call a tool by name.",
    answer=_answer,
    action="call",
    properties=PROPERTIES,
    required=("name",),
    any_keys=True,
    open_world=True,
    with_categories=bool,
)
