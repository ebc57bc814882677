"""The upstream server that the official conformance suite expects to find behind the gateway.

Each tool has the name, the arguments and the answer which a server scenario of
`@modelcontextprotocol/conformance` asks for; its resources and prompts stand in `everything_offers.py`.
A tool that needs its client's user, model or roots asks in the way the era allows: by a request of
its own (handshake era) or by an input-required result (2026-07-28).

Run as a module from the root of the project: over standard streams, as the gateway does, or with
`--http PORT` to put the suite straight on the SDK; what fails there is not the gateway's doing.
"""

import argparse
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio
import mcp_types as types
import uvicorn
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tests.conformance import everything_offers
from tests.conformance.everything_forms import (
    CONFIRM_FORM,
    DEFAULTS_FORM,
    ENUMS_FORM,
    NAME_FORM,
    TEXT,
    form,
    sampling,
    user_form,
)
from tests.support import task_server

Context: TypeAlias = ServerRequestContext[Any, Any]
Params: TypeAlias = types.CallToolRequestParams
Handler: TypeAlias = Callable[[Context, Params], Awaitable[types.CallToolResult]]

# A wave file without samples.
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

# The suite describes its progress and logging tools with pauses of about this length.
PAUSE_S = 0.05

EXTRA = "test_extra"


def text_argument(name: str, **keywords: str) -> dict[str, Any]:
    """Write the schema of a tool with one argument."""
    return {"type": "object", "properties": {name: {**TEXT, **keywords}}, "required": [name]}


NO_ARGUMENTS: dict[str, Any] = {"type": "object", "additionalProperties": False}

# The features which the scenario json-schema-2020-12 looks for in what it is served.
SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"city": TEXT}}},
    "properties": {
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": TEXT,
        "email": TEXT,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "greet": text_argument("name"),
    "test_sampling": text_argument("prompt"),
    "test_elicitation": text_argument("message"),
    "test_mirrored_argument": text_argument("region", **{"x-mcp-header": "Region"}),
    "json_schema_2020_12_tool": SCHEMA_2020_12,
}


class InputNeededError(Exception):
    """The call cannot end before the client has answered `result.input_requests`."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__("input required")
        self.result = result


class Tools:
    """The tools of this server, one of which comes and goes."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = dict(handlers)
        self._listed = {
            name: types.Tool(
                name=name,
                description=f"Conformance tool: {name.replace('_', ' ')}.",
                input_schema=SCHEMAS.get(name, NO_ARGUMENTS),
            )
            for name in handlers
        }
        self._hidden = {EXTRA}

    def toggle_extra(self) -> None:
        """Show the extra tool, or hide it: either way the list has changed."""
        self._hidden ^= {EXTRA}

    def listed(self) -> list[types.Tool]:
        return [tool for name, tool in self._listed.items() if name not in self._hidden]

    async def call(self, ctx: Context, params: Params) -> types.CallToolResult:
        handler = self._handlers.get(params.name)
        if handler is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await handler(ctx, params)


def text(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)])


def embedded(uri: str, mime_type: str, content: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=content)
    )


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def ask(ctx: Context, params: Params, requests: types.InputRequests, state: str | None = None) -> str:
    """Return the client's answers as JSON text, in either era.

    Raises:
        InputNeededError: 2026-07-28 only: an answer is missing, so the client has to call again.
    """
    answers: types.InputResponses = {}
    if is_modern(ctx):
        answers = params.input_responses or {}
        if not requests.keys() <= answers.keys() or params.request_state != state:
            raise InputNeededError(types.InputRequiredResult(input_requests=requests, request_state=state))
    else:
        answers = {key: await send(ctx, request) for key, request in requests.items()}
    return json.dumps(
        {key: answers[key].model_dump(by_alias=True, mode="json", exclude_none=True) for key in requests}
    )


async def send(ctx: Context, request: types.InputRequest) -> types.InputResponse:
    """Ask over the back-channel of the handshake era."""
    match request:
        case types.ElicitRequest(params=types.ElicitRequestFormParams() as asked):
            return await ctx.session.elicit_form(asked.message, asked.requested_schema, ctx.request_id)
        case types.CreateMessageRequest(params=wanted):
            return await ctx.session.create_message(
                wanted.messages, max_tokens=wanted.max_tokens, related_request_id=ctx.request_id
            )
        case _:
            return await ctx.session.list_roots()


def fixed(*content: types.ContentBlock, is_error: bool = False) -> Handler:
    """Make a tool that gives the same answer every time."""

    async def run(_ctx: Context, _params: Params) -> types.CallToolResult:
        return types.CallToolResult(content=list(content), is_error=is_error)

    return run


def asking(*, state: str | None = None, **requests: types.InputRequest) -> Handler:
    """Make a tool that needs `requests` answered and says what it got."""

    async def run(ctx: Context, params: Params) -> types.CallToolResult:
        answers = await ask(ctx, params, requests, state)
        return text(answers if state is None else f"state-ok {answers}")

    return run


def asking_by_argument(argument: str, make: Callable[[str], types.InputRequest]) -> Handler:
    """Make a tool that asks what its argument says."""

    async def run(ctx: Context, params: Params) -> types.CallToolResult:
        return text(await ask(ctx, params, {"answer": make(str((params.arguments or {})[argument]))}))

    return run


def logging_tool(*messages: str) -> Handler:
    """Make a tool that logs while it runs."""

    async def run(ctx: Context, _params: Params) -> types.CallToolResult:
        for message in messages:
            await ctx.session.send_log_message("info", message, related_request_id=ctx.request_id)
            await anyio.sleep(PAUSE_S)
        return text("Messages were logged.")

    return run


async def report_progress(ctx: Context, _params: Params) -> types.CallToolResult:
    for progress in (0, 50, 100):
        await ctx.session.report_progress(progress, total=100)
        await anyio.sleep(PAUSE_S)
    return text("Progress was reported.")


async def close_stream(ctx: Context, _params: Params) -> types.CallToolResult:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
        await anyio.sleep(PAUSE_S)
    return text("The answer comes after the client has reconnected.")


async def echo(_ctx: Context, params: Params) -> types.CallToolResult:
    return text(json.dumps(params.arguments or {}, sort_keys=True))


async def greet(_ctx: Context, params: Params) -> types.CallToolResult:
    return text(f"Hello, {(params.arguments or {})['name']}!")


async def need_sampling(ctx: Context, _params: Params) -> types.CallToolResult:
    needed = types.ClientCapabilities(sampling=types.SamplingCapability())
    if not ctx.session.check_client_capability(needed):
        missing: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "The client cannot sample.", missing)
    return text("The client can sample.")


async def ask_what_is_possible(ctx: Context, params: Params) -> types.CallToolResult:
    can = ctx.session.client_capabilities or types.ClientCapabilities()
    requests: types.InputRequests = {}
    if can.sampling is not None:
        requests["completion"] = sampling("Say something.")
    if can.elicitation is not None:
        requests["user"] = NAME_FORM
    return text(await ask(ctx, params, requests) if requests else "The client can answer nothing.")


async def ask_in_two_rounds(ctx: Context, params: Params) -> types.CallToolResult:
    if params.request_state != "second":
        step1 = form("Step 1: What is your name?", name=TEXT)
        await ask(ctx, params, {"step1": step1}, "first")
    step2 = form("Step 2: What is your favorite color?", color=TEXT)
    return text(await ask(ctx, params, {"step2": step2}, "second"))


def content_tools() -> dict[str, Handler]:
    image = types.ImageContent(data=everything_offers.PNG, mime_type="image/png")
    resource = embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    mixed = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    failure = types.TextContent(text="This tool intentionally returns an error for testing")
    return {
        "test_simple_text": fixed(types.TextContent(text="This is a simple text response for testing.")),
        "test_image_content": fixed(image),
        "test_audio_content": fixed(types.AudioContent(data=WAV, mime_type="audio/wav")),
        "test_embedded_resource": fixed(resource),
        "test_multiple_content_types": fixed(types.TextContent(text="Three types:"), image, mixed),
        "test_error_handling": fixed(failure, is_error=True),
        "json_schema_2020_12_tool": echo,
        "test_mirrored_argument": echo,
        "greet": greet,
    }


def asking_tools() -> dict[str, Handler]:
    """Collect those that need the client's user, model or roots; SEP-2322 owns the long names."""
    question = sampling("What is the capital of France?")
    greeting = sampling("Generate a greeting")
    roots = types.ListRootsRequest()
    return {
        "test_sampling": asking_by_argument("prompt", sampling),
        "test_elicitation": asking_by_argument("message", user_form),
        "test_elicitation_sep1034_defaults": asking(values=DEFAULTS_FORM),
        "test_elicitation_sep1330_enums": asking(choices=ENUMS_FORM),
        "test_streaming_elicitation": asking(user_name=NAME_FORM),
        "test_missing_capability": need_sampling,
        "test_input_required_result_elicitation": asking(user_name=NAME_FORM),
        "test_input_required_result_sampling": asking(capital_question=question),
        "test_input_required_result_list_roots": asking(client_roots=roots),
        "test_input_required_result_request_state": asking(confirm=CONFIRM_FORM, state="asked"),
        "test_input_required_result_tampered_state": asking(confirm=CONFIRM_FORM, state="asked"),
        "test_input_required_result_multiple_inputs": asking(
            user_name=NAME_FORM, greeting=greeting, client_roots=roots, state="asked"
        ),
        "test_input_required_result_multi_round": ask_in_two_rounds,
        "test_input_required_result_capabilities": ask_what_is_possible,
    }


def notifying_tools() -> dict[str, Handler]:
    stages = ("Tool execution started", "Tool processing data", "Tool execution completed")
    return {
        "test_tool_with_logging": logging_tool(*stages),
        "test_logging_tool": logging_tool("Tool executed"),
        "test_tool_with_progress": report_progress,
        "test_reconnection": close_stream,
    }


def make_server() -> Server[Any]:
    bus = InMemorySubscriptionBus()

    async def change_tools(ctx: Context, _params: Params) -> types.CallToolResult:
        tools.toggle_extra()
        if is_modern(ctx):
            await bus.publish(ToolsListChanged())
        else:
            await ctx.session.send_tool_list_changed()
        return text("The list of tools has changed.")

    async def change_prompts(_ctx: Context, _params: Params) -> types.CallToolResult:
        prompts.toggle_extra()
        await bus.publish(PromptsListChanged())
        return text("The list of prompts has changed.")

    prompts = everything_offers.Prompts()
    tasks = task_server.Tasks(task_server.TOOLS)
    tools = Tools(
        content_tools()
        | asking_tools()
        | notifying_tools()
        | {"test_trigger_tool_change": change_tools, "test_trigger_prompt_change": change_prompts}
        | {EXTRA: echo}
    )

    async def list_tools(_ctx: Context, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*tools.listed(), *tasks.listed()])

    async def call_tool(ctx: Context, params: Params) -> types.CallToolResult | types.InputRequiredResult:
        try:
            return await tools.call(ctx, params)
        except InputNeededError as needed:
            return needed.result

    async def set_level(_ctx: Context, _params: object) -> types.EmptyResult:
        return types.EmptyResult()

    server: Server[Any] = Server(
        "conformance",
        version="1.0.0",
        lifespan=tasks.lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_set_logging_level=set_level,
        on_subscriptions_listen=ListenHandler(bus),
    )
    everything_offers.offer(server, prompts)
    tasks.register(server)
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience="conformance"))
    return server


async def serve_stdio(server: Server[Any]) -> None:
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", type=int, metavar="PORT", help="serve http://127.0.0.1:PORT/mcp instead")
    port = parser.parse_args().http
    server = make_server()
    if port is None:
        anyio.run(serve_stdio, server)
    else:
        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
