"""A stdio server made with `ModelContext`: two categories, and a tool whose result brings others.

Run as `python team_server.py`. The result of `learn` has its tools in the field `tools` alone, as a server
writes it that was not made with the SDK; they can be called from the beginning, but are never listed.
"""

import json
from collections.abc import Mapping
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.stdio import stdio_server

from maitred.backends.model_context import ModelContext, ToolDefinition

USERS = [f"{verb}_user" for verb in ("create", "delete", "find", "rename", "invite", "suspend")]
PAGES = [f"{verb}_page" for verb in ("write", "publish", "archive")]
LEARNED = ["brew_tea", "brew_coffee"]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


def made(name: str) -> ToolDefinition:
    async def execute(arguments: Mapping[str, Any]) -> str:
        return f"{name} {json.dumps(dict(arguments))}"

    verb, noun = name.split("_") if "_" in name else (name, "thing")
    return ToolDefinition(
        name=name, description=f"{verb.capitalize()} a {noun}.", execute=execute, input_schema=SCHEMA
    )


def team() -> ModelContext:
    context = ModelContext("team", instructions="Users and pages of a team.")
    context.register_category("admin", "User and permission management", [made(name) for name in USERS])
    context.register_category("content_tools", "Write and publish pages (3 tools)", [made(n) for n in PAGES])
    context.register_tool(made("learn"))
    return context


async def teach(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    name = (ctx.params or {}).get("name")
    if ctx.method != "tools/call" or name not in ("learn", *LEARNED):
        return await call_next(ctx)
    result: dict[str, Any] = {"content": [{"type": "text", "text": str(name)}], "isError": False}
    tools = [{"name": n, "description": f"{n}.", "inputSchema": SCHEMA} for n in LEARNED]
    return {"resultType": "complete", **result, **({"tools": tools} if name == "learn" else {})}


async def main() -> None:
    server = team().server()
    server.middleware.append(teach)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
