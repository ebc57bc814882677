"""`call_tool_chain`: run a short program that calls tools."""

from typing import Final

from maitred.gateway import LEDGER_KEY, LONGEST_MS, Answer, Gateway, known_id
from maitred.meta_tools import arguments as read
from maitred.meta_tools.base import BOOLEAN, INTEGER, TEXT, MetaTool, MetaToolRequest, Result


async def _answer(gateway: Gateway, request: MetaToolRequest) -> Result:
    given = request.arguments
    request_id = known_id(request.call.request_id, request.call.meta)
    result = await gateway.chain_answer(
        read.code(given),
        viewer=request.viewer,
        timeout_ms=read.integer(given, "timeout_ms", 30_000, most=LONGEST_MS),
        max_output_size=read.integer(given, "max_output_size", 20_000, most=read.MAX_OUTPUT),
        dry_run=read.boolean(given, "dry_run"),
        caller=request.caller,
        request_id=request_id,
    )
    result = gateway.fit_answer(result, request.viewer)
    entry = gateway.count_result(result, request.viewer)
    return Answer(wire=result).with_meta({LEDGER_KEY: entry}).wire


CALL_TOOL_CHAIN: Final = MetaTool(
    name="call_tool_chain",
    description="Run Python that calls tools, without files or network; only its result returns:"
    ' `return await call_tool("server__tool", {...})`, asyncio.gather.',
    answer=_answer,
    action="chain",
    properties={"code": TEXT, "timeout_ms": INTEGER, "max_output_size": INTEGER, "dry_run": BOOLEAN},
    required=("code",),
    open_world=True,
)
