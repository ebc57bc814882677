"""An honest server on the SDK, for the tests of all transports and both eras.

Run as `python honest_server.py stdio`, or with `http` or `sse` and the number of an inherited file descriptor
that listens, so that nobody has to wait for a port; `make_server` makes one for the backend in memory. Over
HTTP it wants the bearer token that the environment variable `HONEST_TOKEN` names, if there is one, and with
`HONEST_AGE=old` it answers the probe for the new era with a bare 404, as servers do that never heard of it.
"""

import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio
import mcp_types as types
import uvicorn
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Context: TypeAlias = ServerRequestContext[Any, Any]
Arguments: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Context, Arguments], Awaitable[types.CallToolResult]]

INSTRUCTIONS = "Honest in every way."
STEPS = 3
URIS = [f"note:///{number}" for number in range(1, 6)]
TEMPLATE = "note:///{number}"
PROMPTS = ["greet", "part", "thank"]
PAGE = 2


def text(message: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=is_error)


async def echo(_: Context, arguments: Arguments) -> types.CallToolResult:
    return text(str(arguments["text"]))


async def structured(_: Context, arguments: Arguments) -> types.CallToolResult:
    result = text("42")
    result.structured_content = {"answer": 42, "asked": arguments}
    return result


async def repeat(_: Context, arguments: Arguments) -> types.CallToolResult:
    return text("x" * arguments["characters"])


async def count(ctx: Context, _: Arguments) -> types.CallToolResult:
    """Report each step of a short work."""
    for step in range(1, STEPS + 1):
        await ctx.session.report_progress(step, total=STEPS, message=f"step {step}")
    return text("counted")


async def wait(ctx: Context, arguments: Arguments) -> types.CallToolResult:
    """Wait until cancelled; the file given tells whether it was."""
    mark = anyio.Path(arguments["mark"])
    try:
        await ctx.session.report_progress(0)
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await mark.write_text("cancelled")
    return text("never reached")


async def refuse(_: Context, arguments: Arguments) -> types.CallToolResult:
    raise MCPError(arguments["code"], "not today", {"retry": "tomorrow"})


async def fail(_: Context, __: Arguments) -> types.CallToolResult:
    return text("the disk is full", is_error=True)


TOOLS: dict[str, tuple[Handler, dict[str, str]]] = {
    "echo": (echo, {"text": "string"}),
    "structured": (structured, {}),
    "repeat": (repeat, {"characters": "integer"}),
    "count": (count, {}),
    "wait": (wait, {"mark": "string"}),
    "refuse": (refuse, {"code": "integer"}),
    "fail": (fail, {}),
}


def definition(name: str, properties: Mapping[str, str]) -> types.Tool:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return types.Tool(name=name, description=f"The honest tool {name}.", input_schema=schema)


RESOURCES = [
    types.Resource(uri=uri, name=f"note {uri[-1]}", description="An honest note.", mime_type="text/plain")
    for uri in URIS
]


class Lists:
    """What the server lists besides tools, two entries a page, and reads, gets and completes."""

    async def resources(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        start = int((params and params.cursor) or 0)
        more = str(start + PAGE) if start + PAGE < len(RESOURCES) else None
        return types.ListResourcesResult(resources=RESOURCES[start : start + PAGE], next_cursor=more)

    async def templates(self, _: Context, __: object) -> types.ListResourceTemplatesResult:
        one = types.ResourceTemplate(uri_template=TEMPLATE, name="note")
        return types.ListResourceTemplatesResult(resource_templates=[one])

    async def prompts(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        start = int((params and params.cursor) or 0)
        more = str(start + PAGE) if start + PAGE < len(PROMPTS) else None
        who = types.PromptArgument(name="who", required=True)
        page = [types.Prompt(name=name, arguments=[who]) for name in PROMPTS[start : start + PAGE]]
        return types.ListPromptsResult(prompts=page, next_cursor=more)

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if params.uri not in URIS:
            modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            raise MCPError(types.INVALID_PARAMS if modern else -32002, "no such note", {"uri": params.uri})
        note = types.TextResourceContents(uri=params.uri, text=f"the note {params.uri[-1]}")
        return types.ReadResourceResult(contents=[note])

    async def get(self, _: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        said = types.TextContent(text=f"{params.name} {(params.arguments or {}).get('who')}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])

    async def complete(self, _: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        values = [name for name in ("Ada", "Alan") if name.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=values))


class Changes:
    """Says that something changed, in the way of the era, to those who asked for it."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._subscribed: set[str] = set()

    async def announce(self, ctx: Context, arguments: Arguments) -> types.CallToolResult:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            events: dict[str, ServerEvent] = {
                "tools": ToolsListChanged(),
                "resources": ResourcesListChanged(),
                "prompts": PromptsListChanged(),
            }
            await self.bus.publish(events[arguments["list"]])
        else:
            send = {
                "tools": ctx.session.send_tool_list_changed,
                "resources": ctx.session.send_resource_list_changed,
                "prompts": ctx.session.send_prompt_list_changed,
            }
            await send[arguments["list"]]()
        return text("announced")

    async def touch(self, ctx: Context, arguments: Arguments) -> types.CallToolResult:
        uri = arguments["uri"]
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self.bus.publish(ResourceUpdated(uri))
        elif uri in self._subscribed:
            await ctx.session.send_resource_updated(uri)
        return text("touched")

    async def subscribe(self, _: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        if params.uri not in URIS:
            raise MCPError(-32002, "no such note")
        self._subscribed.add(params.uri)
        return types.EmptyResult()

    async def unsubscribe(self, _: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscribed.discard(params.uri)
        return types.EmptyResult()


def make_server() -> Server[Any]:
    """Make a server whose tool `grow` adds a tool and says so in the way of the era."""
    changes, lists = Changes(), Lists()
    tools = [definition(name, properties) for name, (_, properties) in TOOLS.items()]
    tools += [definition("grow", {"name": "string"}), definition("announce", {"list": "string"})]
    tools.append(definition("touch", {"uri": "string"}))

    async def list_tools(_: Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def grow(ctx: Context, arguments: Arguments) -> types.CallToolResult:
        tools.append(definition(arguments["name"], {}))
        await changes.announce(ctx, {"list": "tools"})
        return text("grown")

    own: dict[str, Handler] = {"grow": grow, "announce": changes.announce, "touch": changes.touch}

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        handler = own.get(params.name) or TOOLS.get(params.name, (echo, {}))[0]
        return await handler(ctx, params.arguments or {})

    return AnnouncingServer(
        "honest",
        version="1.2.3",
        title="Honest",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=lists.resources,
        on_list_resource_templates=lists.templates,
        on_list_prompts=lists.prompts,
        on_read_resource=lists.read,
        on_get_prompt=lists.get,
        on_completion=lists.complete,
        on_subscribe_resource=changes.subscribe,
        on_unsubscribe_resource=changes.unsubscribe,
        on_subscriptions_listen=ListenHandler(changes.bus),
    )


class AnnouncingServer(Server[Any]):
    """Declares `listChanged` of all three lists to whoever asks."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        options = notification_options or NotificationOptions(
            tools_changed=True, resources_changed=True, prompts_changed=True
        )
        return super().create_initialization_options(options, *args, **kwargs)


async def serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def sse_app(server: Server[Any]) -> Starlette:
    """The older transport: events at `/sse`, messages to `/messages/`."""
    transport = SseServerTransport("/messages/")

    async def events(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
            await server.run(streams[0], streams[1], server.create_initialization_options())
        return Response()

    messages = Mount("/messages/", app=transport.handle_post_message)
    return Starlette(routes=[Route("/sse", endpoint=events), messages])


class Door:
    """Lets in only those who bring the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != self._expected:
            await PlainTextResponse("no", status_code=401)(scope, receive, send)
            return
        await self._app(scope, receive, send)


class Old:
    """Has nothing where the probe for the new era asks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"mcp-method") == b"server/discover":
            await PlainTextResponse("no", status_code=404)(scope, receive, send)
            return
        await self._app(scope, receive, send)


class Garbled:
    """Answers calls with what is no JSON, in the form that the server chose: a document or a stream."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def garble(message: Message) -> None:
            if "body" in message:
                message["body"] = message["body"].replace(b'"jsonrpc":', b'"jsonrpc";')
            await send(message)

        calls = scope["type"] == "http" and dict(scope["headers"]).get(b"mcp-method") == b"tools/call"
        await self._app(scope, receive, garble if calls else send)


def main(transport: str, descriptor: str = "") -> None:
    server = make_server()
    if transport == "stdio":
        anyio.run(serve_stdio, server)
        return
    app: ASGIApp = sse_app(server) if transport == "sse" else server.streamable_http_app()
    if os.environ.get("HONEST_AGE") == "old":
        app = Old(app)
    if os.environ.get("HONEST_AGE") == "garbled":
        app = Garbled(app)
    if token := os.environ.get("HONEST_TOKEN"):
        app = Door(app, token)
    listener = socket.socket(fileno=int(descriptor))
    uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)).run([listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
