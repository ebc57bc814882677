"""A server of both eras whose tools, prompt and resource ask their caller, and answer with what they got.

Run as `python asking_server.py [FILE]` over standard streams, or with `--http` on a free port, which it
prints. A call that is cancelled while it asks writes a line into FILE.
"""

import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]

SCHEMA: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
URL = "https://example.org/login?state=a%20b&x=1#top"
TEXT: Json = {"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}
TOOL: Json = {"name": "look", "inputSchema": {"type": "object"}}
QUESTIONS: Mapping[str, types.InputRequest] = {
    "form": types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="Who?\u001b[2J", requested_schema=SCHEMA)
    ),
    "url": types.ElicitRequest(
        params=types.ElicitRequestURLParams(message="Log in", url=URL, elicitation_id="e-1")
    ),
    "sampling": types.CreateMessageRequest(
        params=types.CreateMessageRequestParams.model_validate({"messages": [TEXT], "maxTokens": 9})
    ),
    "tools": types.CreateMessageRequest(
        params=types.CreateMessageRequestParams.model_validate(
            {"messages": [TEXT], "maxTokens": 9, "tools": [TOOL], "toolChoice": {"mode": "auto"}}
        )
    ),
    "roots": types.ListRootsRequest(),
}
RESULTS: Mapping[str, Any] = {
    "form": types.ElicitResult,
    "url": types.ElicitResult,
    "sampling": types.CreateMessageResult,
    "tools": types.CreateMessageResultWithTools,
    "roots": types.ListRootsResult,
}


KNOWN: list[str] = []
"""The roots of the client that announced a change, as asked for afterwards."""


class NeededError(Exception):
    """The stateless era: the request ends with questions."""

    def __init__(self, questions: Mapping[str, types.InputRequest], state: str) -> None:
        super().__init__(state)
        self.result = types.InputRequiredResult(input_requests=dict(questions), request_state=state)


async def ask(ctx: Context, kinds: list[str], responses: Mapping[str, Any] | None) -> str:
    """Ask one question of each kind, in either era; the answers as JSON, or the refusal."""
    given: Json = {}
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        if missing := {kind: QUESTIONS[kind] for kind in kinds if kind not in (responses or {})}:
            raise NeededError(missing, f"asked {' '.join(kinds)}")
        given = {kind: dumped((responses or {})[kind]) for kind in kinds}
    else:
        async with anyio.create_task_group() as tasks:
            for kind in kinds:
                tasks.start_soon(send, ctx, kind, given)
    return json.dumps({kind: given[kind] for kind in kinds})


async def send(ctx: Context, kind: str, given: Json) -> None:
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        answer = await ctx.session.send_request(QUESTIONS[kind], RESULTS[kind], metadata=related)
    except MCPError as error:
        given[kind] = {"code": error.code, "message": error.message}
    except anyio.get_cancelled_exc_class():
        note_cancelled()
        raise
    else:
        given[kind] = dumped(answer)


def note_cancelled() -> None:
    if len(sys.argv) > 1:
        with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
            file.write("cancelled\n")


def dumped(answer: Any) -> Any:
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


async def list_tools(_ctx: Context, _params: object) -> types.ListToolsResult:
    kinds = {"type": "object", "properties": {"kinds": {"type": "array", "items": {"type": "string"}}}}
    echo = {"type": "object", "properties": {"text": {"type": "string"}}}
    return types.ListToolsResult(
        tools=[
            types.Tool(name="ask", description="Ask the caller.", input_schema=kinds),
            types.Tool(name="echo", description="Say it again.", input_schema=echo),
            types.Tool(name="known", description="The roots it knows.", input_schema={"type": "object"}),
            types.Tool(name="can", description="What the caller declared.", input_schema={"type": "object"}),
        ]
    )


async def call_tool(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    arguments = params.arguments or {}
    if params.name == "echo":
        text = str(arguments.get("text"))
    elif params.name == "known":
        text = json.dumps(KNOWN)
    elif params.name == "can":
        text = json.dumps(dumped(ctx.session.client_capabilities or types.ClientCapabilities()))
    else:
        try:
            text = await ask(ctx, arguments["kinds"], params.input_responses)
        except NeededError as needed:
            return needed.result
    return types.CallToolResult(content=[types.TextContent(text=text)])


async def list_prompts(_ctx: Context, _params: object) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="ask")])


async def get_prompt(
    ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    try:
        text = await ask(ctx, ["form"], params.input_responses)
    except NeededError as needed:
        return needed.result
    message = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(messages=[message])


async def list_resources(_ctx: Context, _params: object) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri="ask://form", name="form")])


async def read_resource(
    ctx: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult | types.InputRequiredResult:
    try:
        text = await ask(ctx, ["form"], params.input_responses)
    except NeededError as needed:
        return needed.result
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])


async def roots_changed(ctx: Context, _params: object) -> None:
    answer = await ctx.session.send_request(QUESTIONS["roots"], types.ListRootsResult)
    KNOWN[:] = [str(root.uri) for root in answer.roots]


def make_server() -> Server[Any]:
    return Server(
        "asking",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_roots_list_changed=roots_changed,
    )


async def main() -> None:
    server = make_server()
    if "--http" not in sys.argv:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options(NotificationOptions()))
        return
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"listens on http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)  # noqa: T201
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    anyio.run(main)
