"""A server of the stateless era that asks its client for everything the protocol has; see `test_pairings.py`.

Each tool is named after one feature, and its answer says what came of it.
"""

import json
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from tests.support import task_server

Context: TypeAlias = ServerRequestContext[Any, Any]
Params: TypeAlias = types.CallToolRequestParams

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ADDER = types.Tool(name="add", description="Add two numbers.", input_schema={"type": "object"})
WATCHED = "pairs://watched"
SENDING = ("log", "progress", "touch")
PAUSE_S = 0.05  # the TypeScript SDK 2 drops progress that comes together with the answer
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}

bus = InMemorySubscriptionBus()
counts = {"waiting": 0, "cancelled": 0}


def sampling(tools: list[types.Tool] | None = None) -> types.CreateMessageRequest:
    hello = types.SamplingMessage(role="user", content=types.TextContent(text="Say hello."))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[hello], max_tokens=9, tools=tools)
    )


QUESTIONS: dict[str, types.InputRequest] = {
    "form": types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="What is your name?", requested_schema=FORM)
    ),
    "url": types.ElicitRequest(
        params=types.ElicitRequestURLParams(
            message="Log in.", url="https://example.com/in", elicitation_id="e1"
        )
    ),
    "sampling": sampling(),
    "sampling_tools": sampling([ADDER]),
    "roots": types.ListRootsRequest(),
}
TOOLS = (*QUESTIONS, *SENDING, "wait", *counts)


def text(value: object) -> types.CallToolResult:
    said = value if isinstance(value, str) else json.dumps(value)
    return types.CallToolResult(content=[types.TextContent(text=said)])


def ask(name: str, params: Params) -> types.CallToolResult | types.InputRequiredResult:
    answer: Any = (params.input_responses or {}).get("q")
    if answer is None:
        return types.InputRequiredResult(input_requests={"q": QUESTIONS[name]}, request_state=f"state {name}")
    if params.request_state != f"state {name}":
        return text(f"another state: {params.request_state}")
    match name:
        case "form":
            return text(answer.content)
        case "url":
            return text(answer.action)
        case "roots":
            return text([str(root.uri) for root in answer.roots])
        case _:
            return text(answer.content.text)


async def send(name: str, ctx: Context) -> types.CallToolResult:
    """Send notifications of one kind."""
    if name == "log":
        for level in ("debug", "warning"):
            await ctx.session.send_log_message(
                level, f"a {level}", "inner", related_request_id=ctx.request_id
            )
    elif name == "progress":
        for step in (1, 2):
            await ctx.session.report_progress(step, 2, f"step {step}")
            await anyio.sleep(PAUSE_S)
    else:
        await bus.publish(ResourceUpdated(uri=WATCHED))
    return text("sent")


async def wait() -> types.CallToolResult:
    counts["waiting"] += 1
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        counts["cancelled"] += 1
        raise
    finally:
        counts["waiting"] -= 1
    return text("never")


async def call_tool(ctx: Context, params: Params) -> types.CallToolResult | types.InputRequiredResult:
    if params.name in QUESTIONS:
        return ask(params.name, params)
    if params.name in SENDING:
        return await send(params.name, ctx)
    if params.name == "wait":
        return await wait()
    return text(str(counts[params.name]))


async def task(job: task_server.Job, arguments: dict[str, Any]) -> dict[str, Any]:
    """Work of a task; with `wait`, it ends only when it is cancelled."""
    await job.says("half way")
    if arguments.get("wait"):
        await anyio.sleep_forever()
    return task_server.text("done as a task")


tasks = task_server.Tasks({"task": task_server.TaskTool(work=task)})


async def list_tools(_ctx: Context, _params: object) -> types.ListToolsResult:
    named = [types.Tool(name=name, description=f"Show {name}.", input_schema=NO_ARGUMENTS) for name in TOOLS]
    return types.ListToolsResult(tools=[*named, *tasks.listed()])


async def list_resources(_ctx: Context, _params: object) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri=WATCHED, name="watched")])


async def read_resource(_ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text="watched")])


async def list_prompts(_ctx: Context, _params: object) -> types.ListPromptsResult:
    argument = types.PromptArgument(name="who", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", arguments=[argument])])


async def get_prompt(_ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    said = types.TextContent(text=f"Greet {(params.arguments or {}).get('who')}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])


async def complete(_ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[f"{params.argument.value}nn"]))


async def main() -> None:
    server: Server[Any] = Server(
        "asker",
        version="1.0",
        lifespan=tasks.lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_subscriptions_listen=ListenHandler(bus),
    )
    tasks.register(server)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
