"""A stdio server of both eras whose results hold everything that the protocol allows in one.

Run as `python relay_server.py`. It answers with plain JSON, so that keys which the SDK's models do not know
are on the wire too; what it saw of a request it tells in the tool `saw`.
"""

import base64
import json
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]
Json = dict[str, Any]

PIXEL = base64.b64encode(bytes(range(256)) * 40).decode()
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def text(value: str, **more: Any) -> Json:
    return {"type": "text", "text": value, **more}


RESULTS: dict[str, Json] = {
    "texts": {"content": [text("one\n\u2028two \u0000 \U0001f9ed"), text(""), text("x" * 200_000)]},
    "pictures": {
        "content": [
            text("two pictures", annotations={"audience": ["user"], "priority": 0.5}),
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "image", "data": PIXEL[:400], "mimeType": "image/webp", "_meta": {"example.org/n": 2}},
        ]
    },
    "sound": {"content": [{"type": "audio", "data": PIXEL[:800], "mimeType": "audio/wav"}]},
    "links": {
        "content": [
            {
                "type": "resource_link",
                "uri": "file:///notes/a%20b.txt",
                "name": "a b",
                "title": "Notes",
                "description": "of the day",
                "mimeType": "text/plain",
                "size": 12,
                "annotations": {"priority": 1.0, "lastModified": "2026-01-02T03:04:05Z"},
            }
        ]
    },
    "embedded": {
        "content": [
            {"type": "resource", "resource": {"uri": "x://text", "mimeType": "text/plain", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "x://blob", "blob": PIXEL[:400]}},
        ]
    },
    "structured": {
        "content": [text('{"x":1}')],
        "structuredContent": {"x": 1, "deep": {"list": [1, 2.5, None, True, {"y": "\u00e9"}]}},
    },
    "failing": {
        "content": [
            text("the kettle is empty"),
            {"type": "audio", "data": PIXEL[:80], "mimeType": "audio/wav"},
        ],
        "structuredContent": {"x": 0, "reason": "empty"},
        "isError": True,
    },
    "nothing": {"content": []},
    "list": {"content": [], "structuredContent": [1, {"two": 2}]},
    "unknown-keys": {
        "content": [text("known", later="a key of a later revision")],
        "later": {"of": "the result"},
    },
    "metadata": {
        "content": [text("with metadata", _meta={"example.org/block": [1]})],
        "_meta": {
            "example.org/trace": {"id": "abc"},
            "io.modelcontextprotocol/serverInfo": {"name": "inner"},
        },
    },
}


def definitions() -> list[Json]:
    tools: list[Json] = [
        {"name": name, "description": f"Answer with {name}.", "inputSchema": {"type": "object"}}
        for name in (*RESULTS, "saw", "refusing", "hurrying")
    ]
    for tool in tools:
        if tool["name"] in ("structured", "failing"):
            tool["outputSchema"] = POINT
    return tools


async def list_tools(_: Context, __: Any) -> Json:
    return {"tools": definitions(), "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


async def call_tool(_: Context, __: Any) -> Json:
    raise MCPError(-32603, "answered by the middleware")


async def answer(ctx: Context, call_next: CallNext) -> HandlerResult:
    params = dict(ctx.params or {})
    name = params.get("name")
    if ctx.method != "tools/call" or not isinstance(name, str):
        return await call_next(ctx)
    if name == "refusing":
        raise MCPError(-32050, "the kettle is a teapot", {"kind": "teapot"})
    if name == "hurrying":
        for step in range(20):
            await ctx.session.report_progress(step + 1, 20)
    seen = {"arguments": params.get("arguments"), "meta": params.get("_meta")}
    result = RESULTS[name] if name in RESULTS else {"content": [text(json.dumps(seen))]}
    return {"isError": False, "resultType": "complete", **result}


async def main() -> None:
    handlers: Any = {"on_list_tools": list_tools, "on_call_tool": call_tool}  # they answer with plain JSON
    server: Server[Any] = Server("relay", version="1", **handlers)
    server.middleware.append(answer)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
