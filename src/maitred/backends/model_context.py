"""A server that a program in this process makes from its own functions: tools, and categories of them.

It follows the model context of web pages. Tools are registered and unregistered while it runs. `list`
shows categories collapsed, and `expand_category` shows the tools of one.
`server` makes an MCP server of it, for `open_gateway(…, in_process={"page": context.server()})`. That
server lists every tool with its category in `_meta`, so that the gateway can search and show them itself.
Use it from the thread of the event loop.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import structlog
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from maitred.backends.listing import TOOLS_KEY
from maitred.background import Background
from maitred.errors import ToolNotFoundError
from maitred.wording import near_names

log = structlog.get_logger(__name__)

Json = dict[str, Any]
Execute = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Executes a call: returns a text, an MCP result (a mapping with `content`), or any other JSON value."""


@dataclass(frozen=True, kw_only=True)
class ToolDefinition:
    """A tool as a program registers it."""

    name: str
    description: str
    execute: Execute
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    annotations: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> Json:
        """The tool's MCP definition."""
        hints = {"annotations": dict(self.annotations)} if self.annotations else {}
        schema = dict(self.input_schema)
        return {"name": self.name, "description": self.description, "inputSchema": schema, **hints}


@dataclass(frozen=True, kw_only=True)
class _Category:
    description: str
    tools: Mapping[str, ToolDefinition]


class ModelContext:
    """Holds tools and categories; no two of them have the same name."""

    def __init__(self, name: str = "page", *, instructions: str = "") -> None:
        self._name = name
        self._instructions = instructions
        self._tools: dict[str, ToolDefinition] = {}
        self._categories: dict[str, _Category] = {}
        self._listeners: list[MemoryObjectSendStream[None]] = []

    def register_tool(self, tool: ToolDefinition) -> None:
        """Add a tool without a category.

        Raises:
            ValueError: There is a tool or a category of this name.
        """
        self._claim([tool.name])
        self._tools[tool.name] = tool
        self._changed()

    def register_category(self, name: str, description: str, tools: Sequence[ToolDefinition]) -> None:
        """Add a category with its tools.

        Raises:
            ValueError: It has no tools, or there is a tool or a category of one of these names.
        """
        if not tools:
            raise ValueError(f"the category {name!r} has no tools")
        self._claim([name, *(tool.name for tool in tools)])
        self._categories[name] = _Category(description=description, tools={tool.name: tool for tool in tools})
        self._changed()

    def unregister_tool(self, name: str) -> None:
        """Remove a tool, or a category with all its tools; a category without tools is removed too.

        Raises:
            ToolNotFoundError: There is no tool and no category of this name.
        """
        if name in self._categories:
            del self._categories[name]
        elif name in self._tools:
            del self._tools[name]
        else:
            self._without(name)
        self._changed()

    def list(self) -> Sequence[Json]:
        """An entry for each category, with `isCategory` and `toolCount`, and the tools without a category."""
        return [
            *(
                {"name": n, "description": c.description, "isCategory": True, "toolCount": len(c.tools)}
                for n, c in self._categories.items()
            ),
            *(tool.to_json() for tool in self._tools.values()),
        ]

    def expand_category(self, name: str) -> Sequence[Json]:
        """The tools of a category.

        Raises:
            ToolNotFoundError: There is no such category.
        """
        if name not in self._categories:
            raise self._unknown(name)
        return [tool.to_json() for tool in self._categories[name].tools.values()]

    async def execute_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Json:
        """Call a tool, or a category, which answers with its tools as text and in a field `tools`.

        An exception of the tool's function becomes a result with `isError`.

        Raises:
            ToolNotFoundError: There is no tool and no category of this name.
        """
        if name in self._categories:
            tools = self.expand_category(name)
            lines = [f"- {tool['name']}: {tool['description']}" for tool in tools]
            return {**_text("\n".join([f"Tools of {name}:", *lines])), "tools": tools}
        tool = self._all().get(name)
        if tool is None:
            raise self._unknown(name)
        try:
            return _result(await tool.execute(arguments or {}))
        except Exception as error:  # a program's function may raise anything
            log.exception("a tool of this program failed", tool=name)
            return {**_text(f"{type(error).__name__}: {error}"), "isError": True}

    def _all(self) -> Mapping[str, ToolDefinition]:
        held = {name: tool for category in self._categories.values() for name, tool in category.tools.items()}
        return {**held, **self._tools}

    def _claim(self, names: Sequence[str]) -> None:
        taken = self._all().keys() | self._categories.keys()
        seen: set[str] = set()
        for name in names:
            if name in taken or name in seen:
                raise ValueError(f"there is a tool or a category named {name!r} already; unregister it first")
            seen.add(name)

    def _without(self, name: str) -> None:
        for key, category in self._categories.items():
            if name not in category.tools:
                continue
            left = {known: tool for known, tool in category.tools.items() if known != name}
            if left:
                self._categories[key] = _Category(description=category.description, tools=left)
            else:
                del self._categories[key]
            return
        raise self._unknown(name)

    def _unknown(self, name: str) -> ToolNotFoundError:
        names = [*self._categories, *self._all()]
        return ToolNotFoundError(name, nearest=near_names(name, names))

    def server(self) -> Server[Any]:
        """A new MCP server object, which lists what is registered at the time and announces changes."""
        bus = InMemorySubscriptionBus()
        server = Server(
            self._name,
            instructions=self._instructions or None,
            lifespan=lambda _: self._telling(bus),
            on_subscriptions_listen=ListenHandler(bus),
        )
        server.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        return server

    async def _list_tools(self, _: ServerRequestContext[Any, Any], __: object) -> Json:
        """All tools, each with its category."""
        listed = [tool.to_json() for tool in self._tools.values()]
        for name, category in self._categories.items():
            meta = {"category": {"name": name, "description": category.description}}
            listed += [{**tool.to_json(), "_meta": meta} for tool in category.tools.values()]
        return {"resultType": "complete", "tools": listed, "ttlMs": 0, "cacheScope": "private"}

    async def _call_tool(
        self, _: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> Json:
        try:
            result = await self.execute_tool(params.name, params.arguments)
        except ToolNotFoundError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        if "tools" in result:
            result["_meta"] = {**(result.get("_meta") or {}), TOOLS_KEY: result["tools"]}
        return {"resultType": "complete", **result}

    def _changed(self) -> None:
        for listener in self._listeners:
            with suppress(anyio.WouldBlock):  # an announcement is pending already
                listener.send_nowait(None)

    @asynccontextmanager
    async def _telling(self, bus: InMemorySubscriptionBus) -> AsyncIterator[None]:
        """Announce every change to the clients of a server, as long as it runs."""
        send, receive = anyio.create_memory_object_stream[None](1)

        async def tell() -> None:
            async for _ in receive:
                await bus.publish(ToolsListChanged())

        async with receive, send, Background() as background:
            background.start(tell)
            self._listeners.append(send)
            try:
                yield
            finally:
                self._listeners.remove(send)


def _text(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": False}


def _result(answer: Any) -> Json:
    """The MCP result for what a tool's function returned."""
    if isinstance(answer, Mapping) and isinstance(answer.get("content"), list):
        return {"isError": False, **answer}
    if isinstance(answer, str):
        return _text(answer)
    result = _text(json.dumps(answer, ensure_ascii=False))
    return {**result, "structuredContent": answer} if isinstance(answer, Mapping) else result
