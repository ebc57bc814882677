"""A server of the handshake era that asks its client for everything the protocol has.

It runs on the SDK of that time (`mcp` 1.x), in an environment of its own; see `test_pairings.py`. Each
tool is named after one feature, and its answer says what came of it.
"""

import json
from typing import Any

import anyio
from mcp import types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from pydantic import AnyUrl

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ADDER = types.Tool(name="add", description="Add two numbers.", inputSchema={"type": "object"})
WATCHED = AnyUrl("pairs://watched")
PAUSE_S = 0.05  # the TypeScript SDK 2 drops progress that comes together with the answer
NO_ARGUMENTS = {"type": "object", "properties": {}}
WAITING = {"type": "object", "properties": {"wait": {"type": "boolean"}}}

server: Server[Any, Any] = Server("asker", version="1.0")
server.experimental.enable_tasks()
counts = {"waiting": 0, "cancelled": 0}
SENDING = ("log", "progress", "touch")
TOOLS = ("form", "url", "sampling", "sampling_tools", "roots", *SENDING, "wait", *counts)


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    tools = [types.Tool(name=name, description=f"Show {name}.", inputSchema=NO_ARGUMENTS) for name in TOOLS]
    support = types.ToolExecution(taskSupport="optional")
    return [
        *tools,
        types.Tool(name="task", description="Show tasks.", inputSchema=WAITING, execution=support),
    ]


def text(value: object) -> types.CallToolResult:
    said = value if isinstance(value, str) else json.dumps(value)
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


def prompt(words: str) -> list[types.SamplingMessage]:
    return [types.SamplingMessage(role="user", content=types.TextContent(type="text", text=words))]


async def ask(name: str) -> object:
    """Ask the client by a request, on the stream of the call."""
    ctx = server.request_context
    session, call = ctx.session, ctx.request_id
    if name == "form":
        return (await session.elicit_form("What is your name?", FORM, call)).content
    if name == "url":
        return (await session.elicit_url("Log in.", "https://example.com/in", "e1", call)).action
    if name == "roots":
        return [str(root.uri) for root in (await session.list_roots()).roots]
    tools = [ADDER] if name == "sampling_tools" else None
    answer = await session.create_message(
        prompt("Say hello."), max_tokens=9, tools=tools, related_request_id=call
    )
    return getattr(answer.content, "text", "")


async def send(name: str) -> str:
    """Send notifications of one kind."""
    ctx = server.request_context
    if name == "log":
        for level in ("debug", "warning"):
            await ctx.session.send_log_message(level, f"a {level}", "inner", ctx.request_id)
    elif name == "progress" and ctx.meta and ctx.meta.progressToken is not None:
        for step in (1, 2):
            await ctx.session.send_progress_notification(
                ctx.meta.progressToken, step, 2, f"step {step}", str(ctx.request_id)
            )
            await anyio.sleep(PAUSE_S)
    elif name == "touch":
        await ctx.session.send_resource_updated(WATCHED)
    return "sent"


async def wait() -> str:
    counts["waiting"] += 1
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        counts["cancelled"] += 1
        raise
    finally:
        counts["waiting"] -= 1
    return "never"


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    if name == "task":
        features = server.request_context.experimental
        if not features.is_task:
            return text("done at once")

        async def work(task: Any) -> types.CallToolResult:
            await task.update_status("half way")
            if arguments.get("wait"):
                await anyio.sleep_forever()
            return text("done as a task")

        return await features.run_task(work)
    if name == "wait":
        return text(await wait())
    if name in counts:
        return text(str(counts[name]))
    return text(await (send(name) if name in SENDING else ask(name)))


@server.set_logging_level()
async def set_level(level: types.LoggingLevel) -> None:
    """Every level is sent: it is the gateway that has clients with different wishes."""


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    return [types.Resource(uri=WATCHED, name="watched")]


@server.read_resource()
async def read_resource(uri: AnyUrl) -> str:
    return "watched"


@server.subscribe_resource()
async def subscribe(uri: AnyUrl) -> None:
    """Every client gets the notice of `touch`."""


@server.unsubscribe_resource()
async def unsubscribe(uri: AnyUrl) -> None:
    """See `subscribe`."""


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    return [types.Prompt(name="greet", arguments=[types.PromptArgument(name="who", required=True)])]


@server.get_prompt()
async def get_prompt(name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
    said = types.TextContent(type="text", text=f"Greet {(arguments or {}).get('who')}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    return types.Completion(values=[f"{argument.value}nn"])


async def main() -> None:
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    capabilities = options.capabilities
    if capabilities.resources is not None:
        capabilities.resources.subscribe = True
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


anyio.run(main)
